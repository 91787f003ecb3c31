package artifact

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// EachOld names the jobs of old files, in batches, and skips young files and foreign ones. Remove deletes a file
// that Put has written.
func TestOldFilesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	where, err := FolderURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	made := func(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%010x%02x", n, n%3)) }
	for n := range 310 {
		if _, err := s.Put(t.Context(), made(n), 1, "a.txt", "text/plain", []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "00", "notes.txt")
	wrong := filepath.Join(dir, "00", string(made(400))) // in another folder than its id says
	for _, name := range []string{other, wrong} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Now().Add(-100 * 24 * time.Hour)
	for n := range 309 {
		key, err := keyOf(made(n), 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{other, wrong} {
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-90 * 24 * time.Hour)
	var old []job.ID
	most := 0
	if err := EachOld(t.Context(), dir, before, func(ids []job.ID) error {
		old, most = append(old, ids...), max(most, len(ids))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(old)
	if len(slices.Compact(old)) != 309 || slices.Contains(old, made(309)) || slices.Contains(old, made(400)) ||
		most > job.MaxBatch {
		t.Errorf("%d old files, at most %d at once", len(old), most)
	}
	for range 2 {
		if err := Remove(t.Context(), dir, made(1)); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Read(t.Context(), made(1), 1); err == nil {
		t.Error("what was removed is read")
	}
	if r, err := s.Read(t.Context(), made(2), 1); err != nil {
		t.Error(err)
	} else {
		_ = r.Close()
	}
	if err := EachOld(t.Context(), filepath.Join(dir, "nowhere"), before, nil); err != nil {
		t.Errorf("no folder: %v", err)
	}
}

// The unfinished file of a killed put is removed after a day. A younger one stays, since its put may be running,
// and so does a folder.
func TestLeftoversOfPutsGo(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, "00")
	young, old, within := filepath.Join(part, ".new-A"), filepath.Join(part, ".new-B"), filepath.Join(part, ".new-C")
	if err := os.MkdirAll(within, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{young: 23 * time.Hour, old: 25 * time.Hour, within: 25 * time.Hour} {
		at := time.Now().Add(-age)
		if name != within {
			if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	none := func(ids []job.ID) error { return fmt.Errorf("%v are no jobs'", ids) }
	if err := EachOld(t.Context(), dir, time.Now().Add(-90*24*time.Hour), none); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(part)
	if err != nil || len(left) != 2 || left[0].Name() != ".new-A" || left[1].Name() != ".new-C" {
		t.Errorf("%v, %v", left, err)
	}
}
