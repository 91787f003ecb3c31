package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// filesAtOnce is the number of names read from the folder at once.
const filesAtOnce = 500

// DeleteOld deletes messages older than before from Open's folder below dir, also unfinished ones that a crash
// left, and returns their number. A missing folder counts as empty. Files with other names stay.
func DeleteOld(ctx context.Context, dir string, before time.Time) (deleted int64, err error) {
	dir = filepath.Join(dir, "mail")
	folder, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("delete old mail: %w", err)
	}
	defer folder.Close()
	for {
		entries, err := folder.ReadDir(filesAtOnce)
		for _, e := range entries {
			if !e.Type().IsRegular() || !ours(e.Name()) {
				continue
			}
			info, err := e.Info()
			if err == nil && info.ModTime().Before(before) {
				err = os.Remove(filepath.Join(dir, e.Name()))
				if err == nil {
					deleted++
				}
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return deleted, fmt.Errorf("delete old mail: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return deleted, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return deleted, fmt.Errorf("delete old mail: %w", err)
		}
	}
}

// ours reports whether the folder's Send may have given a file this name: <job id>.eml, or .<job id>.eml.<number>
// while it is written.
func ours(name string) bool {
	unfinished := strings.HasPrefix(name, ".")
	id, end, _ := strings.Cut(strings.TrimPrefix(name, "."), ".eml")
	_, err := job.ParseID(id)
	if unfinished {
		return err == nil && strings.HasPrefix(end, ".")
	}
	return err == nil && strings.HasSuffix(name, ".eml") && end == ""
}
