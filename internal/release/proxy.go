// Package release makes the files of a release: static binaries with their checksums and lists of parts, and
// modules in the form of a Go module proxy. The server never imports it.
package release

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// PutModule adds a version of the module in a folder to a module proxy's folder, which GOPROXY=file:///... serves.
// It leaves out modules in subfolders, as Go does, and folders that no commit contains: those that begin with a
// dot, node_modules, bin, data and dist.
func PutModule(proxy, dir, module, version string) error {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			top := rel == "bin" || rel == "data" || rel == "dist"
			if err == nil || top || strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		files[filepath.ToSlash(rel)] = text
		return err
	})
	if err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	return PutFiles(proxy, module, version, mod, files)
}

// PutFiles is PutModule for given files.
func PutFiles(proxy, module, version string, mod []byte, files map[string][]byte) error {
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, text := range files {
		w, err := z.Create(module + "@" + version + "/" + name)
		if err != nil {
			return fmt.Errorf("put module: %w", err)
		}
		if _, err := w.Write(text); err != nil {
			return fmt.Errorf("put module: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
	if err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	list, err := os.OpenFile(filepath.Join(at, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	if _, err := list.WriteString(version + "\n"); err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	if err := list.Close(); err != nil {
		return fmt.Errorf("put module: %w", err)
	}
	for ext, text := range map[string][]byte{".info": info, ".mod": mod, ".zip": archive.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, version+ext), text, 0o644); err != nil {
			return fmt.Errorf("put module: %w", err)
		}
	}
	return nil
}
