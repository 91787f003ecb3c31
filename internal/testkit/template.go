package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// template is a folder of system tables that is made once on this machine and copied for each server: making takes
// seconds, copying hundredths of a second. It lies in the user's cache folder, and is never written to after it
// has its final name.
type template struct {
	dir string
}

// templateFor returns the template for these programs and arguments. Another version of a program has another
// template.
func templateFor(kind string, programs, args []string) (*template, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("template of %s: %w", kind, err)
	}
	key := sha256.New()
	for _, p := range programs {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("template of %s: %w", kind, err)
		}
		fmt.Fprintln(key, p, info.Size(), info.ModTime().UnixNano())
	}
	fmt.Fprint(key, strings.Join(args, "\n"))
	return &template{dir: filepath.Join(cache, "tierq-testkit", kind+"-"+hex.EncodeToString(key.Sum(nil)[:8]))}, nil
}

// copyTo makes the folder data as a copy of the template. If the template does not exist, create makes it in a
// temporary folder, which is then renamed. So no process sees half a template; if two processes make one at once,
// the second one's is thrown away.
func (t *template) copyTo(data string, create func(data string) error) error {
	if _, err := os.Stat(t.dir); errors.Is(err, fs.ErrNotExist) {
		if err := t.create(create); err != nil {
			return err
		}
	}
	if err := os.CopyFS(data, os.DirFS(t.dir)); err != nil {
		return fmt.Errorf("copy a template: %w", err)
	}
	return nil
}

func (t *template) create(create func(data string) error) error {
	if err := os.MkdirAll(filepath.Dir(t.dir), 0o700); err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	work, err := os.MkdirTemp(filepath.Dir(t.dir), "making-")
	if err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	defer os.RemoveAll(work)
	data := filepath.Join(work, "data")
	if err := create(data); err != nil {
		return err
	}
	if err := os.Rename(data, t.dir); err != nil {
		if _, missing := os.Stat(t.dir); missing != nil {
			return fmt.Errorf("make a template: %w", err)
		}
	}
	return nil
}

// remove deletes the template, so that the next copy makes it anew. It renames the template first: a process that
// is copying it at this moment gets an error instead of an incomplete copy.
func (t *template) remove() {
	gone, err := os.MkdirTemp(filepath.Dir(t.dir), "making-")
	if err != nil {
		return
	}
	defer os.RemoveAll(gone)
	_ = os.Rename(t.dir, filepath.Join(gone, "data")) // another process may have renamed it first
}
