package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
)

// directory keeps files in a folder, each in a subfolder that its key names. Each call opens the folder anew: a
// missing folder is an outage, and a folder that comes back is found. os.Root prevents that a key or a link leads
// out of the folder.
type directory struct{ dir string }

func (f directory) check(context.Context) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	return root.Close()
}

// newPrefix begins the name of a file while it is being written.
const newPrefix = ".new-"

// put writes a temporary file beside the final one, syncs it to the disk, and renames it.
func (f directory) put(ctx context.Context, key string, head, body []byte) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	below := path.Dir(key)
	if err := root.Mkdir(below, 0o700); err == nil {
		err = syncFolder(root, ".")
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	made := path.Join(below, newPrefix+rand.Text())
	if err := write(ctx, root, made, head, body); err != nil {
		return errors.Join(err, ignoreAbsent(root.Remove(made)))
	}
	if err := root.Rename(made, key); err != nil {
		return errors.Join(err, ignoreAbsent(root.Remove(made)))
	}
	return syncFolder(root, below)
}

func write(ctx context.Context, root *os.Root, name string, parts ...[]byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := file.Write(part); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if err := file.Sync(); err != nil { // the text must be durable before the rename
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return ctx.Err()
}

// syncFolder makes a rename durable. Windows has no such call.
func syncFolder(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f directory) get(_ context.Context, key string) (io.ReadCloser, int64, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	file, err := root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, errAbsent
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

func (f directory) delete(_ context.Context, key string) error {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return ignoreAbsent(root.Remove(key))
}

// list reads the subfolder of the prefix and skips the files of other jobs by their names.
func (f directory) list(_ context.Context, prefix string) (keys []string, more bool, err error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	below, begin := path.Split(prefix)
	folder, err := root.Open(path.Clean(below))
	if err != nil {
		return nil, false, ignoreAbsent(err)
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	for _, name := range names {
		if strings.HasPrefix(name, begin) {
			keys = append(keys, below+name)
		}
	}
	return keys, false, err
}

func (directory) close() error { return nil }

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
