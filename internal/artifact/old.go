package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// leftover is the age from which put's unrenamed file counts as abandoned: its process was killed.
const leftover = 24 * time.Hour

// EachOld calls do with the jobs whose files in a folder are older than before, at most job.MaxBatch of them at
// once. A missing folder counts as empty. EachOld stops at the first error. It also removes the unfinished files
// of killed processes.
func EachOld(ctx context.Context, dir string, before time.Time, do func(ids []job.ID) error) error {
	parts, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for old artifacts: %w", err)
	}
	for _, part := range parts {
		if !part.IsDir() || len(part.Name()) != 2 {
			continue
		}
		if err := eachOldOf(ctx, filepath.Join(dir, part.Name()), before, do); err != nil {
			return fmt.Errorf("look for old artifacts: %w", err)
		}
	}
	return nil
}

func eachOldOf(ctx context.Context, part string, before time.Time, do func(ids []job.ID) error) error {
	folder, err := os.Open(part)
	if err != nil {
		return err
	}
	defer folder.Close()
	for {
		entries, end := folder.ReadDir(job.MaxBatch)
		if end != nil && !errors.Is(end, io.EOF) {
			return end
		}
		var old []job.ID
		for _, e := range entries {
			if err := removeLeftover(part, e); err != nil {
				return err
			}
			id, ours := jobOf(e.Name())
			if !ours || !e.Type().IsRegular() || string(id[34:]) != filepath.Base(part) {
				continue
			}
			info, err := e.Info()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err == nil && info.ModTime().Before(before) {
				old = append(old, id)
			}
		}
		slices.Sort(old)
		old = slices.Compact(old) // a job may have files of several attempts
		if len(old) > 0 {
			if err := do(old); err != nil {
				return err
			}
		}
		if end != nil {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// removeLeftover deletes an unfinished file of put that is more than a day old.
func removeLeftover(part string, e fs.DirEntry) error {
	if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), newPrefix) {
		return nil
	}
	info, err := e.Info()
	if err == nil && time.Since(info.ModTime()) > leftover {
		err = os.Remove(filepath.Join(part, e.Name()))
	}
	return ignoreAbsent(err)
}

// Remove deletes the files of all attempts of a job from a folder that EachOld reads. A job without files is not
// an error.
func Remove(ctx context.Context, dir string, id job.ID) error {
	prefix, err := keyOf(id, 0)
	if err == nil {
		err = deleteAll(ctx, directory{dir: dir}, prefix)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove artifact: %w", err)
	}
	return nil
}
