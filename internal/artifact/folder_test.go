package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestFolderModes(t *testing.T) {
	s, dir := folder(t)
	put(t.Context(), t, s, one, "a.pdf", "application/pdf", []byte("text"))
	put(t.Context(), t, s, one, "a.pdf", "application/pdf", []byte("again"))
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o700)
		if !d.IsDir() {
			files++
			want = 0o600
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return nil
	})
	if err != nil || files != 1 {
		t.Errorf("%d files for one artifact, %v", files, err)
	}
}

// A file that is not as it was written is an error, never another file's text or half of its own.
func TestDamagedFiles(t *testing.T) {
	s, dir := folder(t)
	file := filepath.Join(dir, string(one[34:]), string(one))
	for name, text := range map[string]string{
		"empty": "", "cut in its first line": `{"name":"a.p`,
		"cut":               `{"name":"a","contentType":"a/b","size":4}` + "\ntex",
		"grown":             `{"name":"a","contentType":"a/b","size":4}` + "\ntext!",
		"another program's": "%PDF-1.7\n", "a negative size": `{"size":-1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			put(t.Context(), t, s, one, "a", "a/b", []byte("text"))
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Read(t.Context(), one); !errors.Is(err, job.ErrUnavailable) {
				t.Errorf("Read = %v", err)
			}
		})
	}
}

func TestFolderGone(t *testing.T) {
	s, dir := folder(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in its place
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), one, "a", "a/b", nil); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Put = %v", err)
	}
	if _, err := s.Read(t.Context(), one); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Read = %v", err)
	}
}
