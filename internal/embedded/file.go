package embedded

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// A file is a gob stream of a Head, the entries, and an entry without a key; then the CRC-64 (ECMA 182) of all that, 8
// bytes.

var crcTable = crc64.MakeTable(crc64.ECMA)

const crcBytes = 8

// writeFile writes a file whole or not at all: for power losses too, it is on the disk before it has its name.
func writeFile(path string, write func(*gob.Encoder) error) (err error) {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	buffered, crc := bufio.NewWriterSize(f, 1<<20), crc64.New(crcTable)
	if err = write(gob.NewEncoder(io.MultiWriter(buffered, crc))); err == nil {
		if err = binary.Write(buffered, binary.BigEndian, crc.Sum64()); err == nil {
			err = buffered.Flush()
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(dir string) error {
	if runtime.GOOS == "windows" { // it cannot sync a folder
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// errTorn means that a file does not end as writeFile ends it.
var errTorn = errors.New("the file is not whole")

// readFile reads a file that writeFile wrote. It calls read only if the file is whole.
func readFile(path string, read func(*gob.Decoder) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := info.Size() - crcBytes
	if length <= 0 {
		return errTorn
	}
	crc := crc64.New(crcTable)
	buffered := bufio.NewReaderSize(f, 1<<20)
	if _, err := io.CopyN(crc, buffered, length); err != nil {
		return err
	}
	var stored uint64
	if err := binary.Read(buffered, binary.BigEndian, &stored); err != nil {
		return err
	}
	if stored != crc.Sum64() {
		return errTorn
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := read(gob.NewDecoder(bufio.NewReaderSize(io.LimitReader(f, length), 1<<20))); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return nil
}
