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

// A file that differs from the written one gives an error, never another file's text or a part of its own.
func TestDamagedFiles(t *testing.T) {
	s, dir := folder(t)
	file := filepath.Join(dir, string(one[34:]), string(one)+".1")
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
			if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrUnavailable) {
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
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file instead of the folder
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), one, 1, "a", "a/b", nil); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Put = %v", err)
	}
	if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Read = %v", err)
	}
}

// Files are in the same place as in earlier versions, with the attempt at the end of the name, and the folder
// contains nothing else.
func TestFolderLayout(t *testing.T) {
	s, dir := folder(t)
	put(t.Context(), t, s, one, "a.csv", "text/csv", []byte("a;b"))
	text, err := os.ReadFile(filepath.Join(dir, "d4", string(one)+".1"))
	if err != nil || string(text) != `{"name":"a.csv","contentType":"text/csv","size":3}`+"\na;b" {
		t.Errorf("%q, %v", text, err)
	}
}

// Neither a key nor a link in the folder leads out of it.
func TestFolderHasNoWayOut(t *testing.T) {
	s, dir := folder(t)
	outside := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(outside, filepath.Join(dir, "d4"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, string(one)),
		[]byte(`{"name":"a","contentType":"a/b","size":4}`+"\ntext"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), other, 1, "a", "a/b", nil); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Put = %v", err)
	}
	if r, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Read = %v, %v", r, err)
	}
	if err := s.Delete(t.Context(), one); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Delete = %v", err)
	}
	if names, err := os.ReadDir(outside); err != nil || len(names) != 1 {
		t.Errorf("outside: %v, %v", names, err)
	}
	for _, key := range []string{"../x", "/etc/x", "a/../../x"} {
		if err := (directory{dir}).put(t.Context(), key, nil, nil); err == nil {
			t.Errorf("%s was written", key)
		}
	}
}

// A failed put leaves neither a new file nor a part of one.
func TestFolderPutFails(t *testing.T) {
	s, dir := folder(t)
	if err := os.MkdirAll(filepath.Join(dir, "d4", string(one)+".1"), 0o700); err != nil { // a rename over a folder fails
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), one, 1, "a", "a/b", []byte("text")); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Put = %v", err)
	}
	if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Read of a folder = %v", err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "d4")); err != nil || len(names) != 1 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// A missing folder is an outage for readers. The next put creates it again.
func TestFolderAwayAndBack(t *testing.T) {
	s, dir := folder(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), one, 1); !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrNoArtifact) {
		t.Errorf("Read = %v", err)
	}
	if err := s.Check(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Check = %v", err)
	}
	put(t.Context(), t, s, one, "a", "a/b", []byte("text"))
	if _, text := read(t, s, one); string(text) != "text" {
		t.Errorf("%q", text)
	}
}
