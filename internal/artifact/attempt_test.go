package artifact

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// wantFile checks the text of an attempt's file; "" = there is none.
func wantFile(t *testing.T, s *Store, attempt int, want string) {
	t.Helper()
	r, err := s.Read(t.Context(), one, attempt)
	if want == "" {
		if !errors.Is(err, job.ErrNoArtifact) {
			t.Errorf("the file of attempt %d: %v, want none", attempt, err)
		}
		return
	}
	if err != nil {
		t.Errorf("the file of attempt %d: %v", attempt, err)
		return
	}
	defer r.Close()
	if text, err := io.ReadAll(r); err != nil || string(text) != want {
		t.Errorf("the file of attempt %d is %q, want %q, %v", attempt, text, want, err)
	}
}

func putAttempt(t *testing.T, s *Store, attempt int, text string) {
	t.Helper()
	if _, err := s.Put(t.Context(), one, attempt, "n", "a/b", []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// The file of an attempt that lost its lease does not replace its successor's, even if it is written later.
// Deleting the job deletes all of its files, and no other job's.
func TestAZombiesFile(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		put(t.Context(), t, s, other, "n", "a/b", []byte("bystander"))
		putAttempt(t, s, 2, "the successor's")
		putAttempt(t, s, 1, "the zombie's")
		wantFile(t, s, 2, "the successor's")
		wantFile(t, s, 1, "the zombie's")
		putAttempt(t, s, 12, "later")
		for range 2 {
			if err := s.Delete(t.Context(), one); err != nil {
				t.Fatal(err)
			}
			for _, attempt := range []int{0, 1, 2, 12} {
				wantFile(t, s, attempt, "")
			}
		}
		if _, text := read(t, s, other); string(text) != "bystander" {
			t.Errorf("the bystander's file is %q", text)
		}
	})
}

// A file of an earlier version, which stored one per job, is read if the attempt has none. It does not hide an
// attempt's file, and is deleted with the job.
func TestFilesOfAnOlderVersion(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		putAttempt(t, s, 0, "old")
		wantFile(t, s, 3, "old")
		putAttempt(t, s, 3, "new")
		putAttempt(t, s, 0, "an older zombie's")
		wantFile(t, s, 3, "new")
		wantFile(t, s, 4, "an older zombie's")
		if err := s.Delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		wantFile(t, s, 3, "")
	})
}

// Delete removes all files of a job that has more of them than one list answer contains.
func TestDeleteManyAttempts(t *testing.T) {
	each(t, func(t *testing.T, s *Store) {
		for attempt := range 2*listed + 5 {
			putAttempt(t, s, attempt, "text")
		}
		if err := s.Delete(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		for attempt := range 2*listed + 5 {
			wantFile(t, s, attempt, "")
		}
	})
}

// EachOld names a job with several files once, and Remove deletes them all.
func TestOldFilesOfAttempts(t *testing.T) {
	dir := t.TempDir()
	where, err := FolderURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, where)
	for _, attempt := range []int{0, 1, 2} {
		putAttempt(t, s, attempt, "text")
	}
	part := filepath.Join(dir, string(one[34:]))
	for _, name := range []string{".0", ".01", ".x", ".1.1", "."} { // names that no version uses
		if err := os.WriteFile(filepath.Join(part, string(other[:34]+one[34:])+name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var old []job.ID
	err = EachOld(t.Context(), dir, time.Now().Add(time.Hour), func(ids []job.ID) error {
		old = append(old, ids...)
		return nil
	})
	if err != nil || !slices.Equal(old, []job.ID{one}) {
		t.Errorf("%v, %v", old, err)
	}
	if err := Remove(t.Context(), dir, one); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(part)
	if err != nil || len(left) != 5 {
		t.Error(fmt.Sprint(left), err)
	}
}
