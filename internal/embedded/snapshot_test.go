package embedded

import (
	"context"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// names is SQL's table of kept texts.
type names struct {
	texts map[string]string
	err   error
}

func (n *names) Kept(_ context.Context, name string) (string, error) { return n.texts[name], n.err }

func (n *names) Keep(_ context.Context, name, text string) error {
	if n.err == nil {
		n.texts[name] = text
	}
	return n.err
}

func newNames() *names { return &names{texts: map[string]string{}} }

// filled is a closed server with a key of each type, and some that are not kept.
func filled(t *testing.T) *Redis {
	t.Helper()
	r := New()
	s := r.server
	for _, err := range []error{
		s.Set("text", "a\x00\xff b"), s.Set("timed", "x"), s.Set("over", "x"), s.Set("not kept", "x"), s.Set("empty", ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.SetTTL("timed", time.Hour)
	s.SetTTL("over", time.Nanosecond)
	s.HSet("hash", "b", "", "a", "1 2\n3")
	s.SetTTL("hash", 90*time.Minute)
	if _, err := s.Push("list", "c", "a", "b", "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetAdd("set", "m", "k"); err != nil {
		t.Fatal(err)
	}
	for member, score := range map[string]float64{"x": 10_000_000_000_000 + 1_764_000_000_123, "y": 0.1, "z": -3e17} {
		if _, err := s.ZAdd("zset", score, member); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	return r
}

func kept(key string) bool { return key != "not kept" }

func suitsAll(Head) error { return nil }

// dump returns all keys with their values.
func dump(t *testing.T, r *Redis) (all []entry) {
	t.Helper()
	for _, key := range r.server.Keys() {
		e, err := r.read(key, r.aged)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == "zset" {
			slices.Sort(e.Scores)
			slices.Sort(e.Texts)
		}
		all = append(all, e)
	}
	return all
}

// What a server knew at its stop is what the next one knows after its start, with the times at which keys expire.
func TestSnapshot_Equal(t *testing.T) {
	t.Parallel()
	dir, sql, r := t.TempDir(), newNames(), filled(t)
	head := Head{Incarnation: "run-1", Process: "p-1", Layout: "l"}
	if err := r.Save(t.Context(), dir, head, kept, sql); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(snapshotPath(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", err, info.Mode())
	}
	next := New()
	got, err := next.Load(t.Context(), dir, suitsAll, sql)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(head, got, cmpopts.IgnoreFields(Head{}, "Version", "ID")); diff != "" || got.ID == "" {
		t.Errorf("head %q (-want +got):\n%s", got.ID, diff)
	}
	want := slices.DeleteFunc(dump(t, r), func(e entry) bool { return !kept(e.Key) })
	within := cmp.Comparer(func(a, b int64) bool { return a-b < 5 && b-a < 5 }) // ms: two readings of the clock
	if diff := cmp.Diff(want, dump(t, next), within); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(want) != 7 {
		t.Errorf("%d keys are kept: %v", len(want), want)
	}
	if err := Forget(t.Context(), dir, sql); err != nil {
		t.Fatal(err)
	}
	if head, err := New().Load(t.Context(), dir, suitsAll, sql); err != nil || head.ID != "" {
		t.Errorf("without a snapshot: %v %v", head, err)
	}
}

// A snapshot that is not whole, or not that of the last stop, is not valid: the server stays empty, and the error says
// why.
func TestSnapshot_Invalid(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	file := func(t *testing.T, dir string) (path string, content []byte) {
		t.Helper()
		content, err := os.ReadFile(snapshotPath(dir))
		if err != nil {
			t.Fatal(err)
		}
		return snapshotPath(dir), content
	}
	write := func(t *testing.T, path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, one := range map[string]struct {
		spoil func(t *testing.T, dir string, sql *names)
		suits func(Head) error
		why   string
	}{
		"cut short": {func(t *testing.T, dir string, _ *names) {
			path, content := file(t, dir)
			write(t, path, content[:len(content)-1])
		}, suitsAll, "not whole"},
		"nearly empty": {func(t *testing.T, dir string, _ *names) {
			path, _ := file(t, dir)
			write(t, path, []byte("12345678"))
		}, suitsAll, "not whole"},
		"a bit is wrong": {func(t *testing.T, dir string, _ *names) {
			path, content := file(t, dir)
			content[len(content)/2] ^= 4
			write(t, path, content)
		}, suitsAll, "not whole"},
		"used before": {func(t *testing.T, dir string, sql *names) {
			path, content := file(t, dir)
			if err := Forget(t.Context(), dir, sql); err != nil {
				t.Fatal(err)
			}
			write(t, path, content)
		}, suitsAll, "used before"},
		"of an earlier stop, or of another folder": {func(t *testing.T, dir string, sql *names) {
			_, content := file(t, dir)
			if err := filled(t).Save(t.Context(), dir, Head{}, kept, sql); err != nil {
				t.Fatal(err)
			}
			write(t, snapshotPath(dir), content)
		}, suitsAll, "not that of the last stop"},
		"its file is lost": {func(t *testing.T, dir string, _ *names) {
			if err := os.Remove(snapshotPath(dir)); err != nil {
				t.Fatal(err)
			}
		}, suitsAll, "no such file"},
		"older than SQL, or of other settings": {func(*testing.T, string, *names) {},
			func(Head) error { return errors.New("newer rows") }, "newer rows"},
		"of another version": {func(t *testing.T, dir string, sql *names) {
			sql.texts[snapshotName] = "id"
			err := writeFile(snapshotPath(dir), func(to *gob.Encoder) error { return to.Encode(Head{Version: 2, ID: "id"}) })
			if err != nil {
				t.Fatal(err)
			}
		}, suitsAll, "layout is 2"},
		"ends too early": {func(t *testing.T, dir string, sql *names) {
			sql.texts[snapshotName] = "id"
			err := writeFile(snapshotPath(dir), func(to *gob.Encoder) error {
				return errors.Join(to.Encode(Head{Version: version, ID: "id"}),
					to.Encode(entry{Key: "k", Kind: "string", Texts: []string{"v"}}))
			})
			if err != nil {
				t.Fatal(err)
			}
		}, suitsAll, "EOF"},
		"has an unknown type": {func(t *testing.T, dir string, sql *names) {
			sql.texts[snapshotName] = "id"
			err := writeFile(snapshotPath(dir), func(to *gob.Encoder) error {
				return errors.Join(to.Encode(Head{Version: version, ID: "id"}), to.Encode(entry{Key: "k", Kind: "stream"}))
			})
			if err != nil {
				t.Fatal(err)
			}
		}, suitsAll, "stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, sql := t.TempDir(), newNames()
			if err := filled(t).Save(t.Context(), dir, Head{Incarnation: "run-1"}, kept, sql); err != nil {
				t.Fatal(err)
			}
			one.spoil(t, dir, sql)
			r := New()
			head, err := r.Load(t.Context(), dir, one.suits, sql)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), one.why) || head.ID != "" {
				t.Errorf("the error is %v, the head %v", err, head)
			}
			if keys := r.server.Keys(); len(keys) > 0 {
				t.Errorf("the server has %v", keys)
			}
		})
	}
}

// A snapshot that cannot be written leaves no valid one: a full disk, a folder without room, SQL that fails.
func TestSnapshot_CannotBeWritten(t *testing.T) {
	t.Parallel()
	t.Run("SQL fails", func(t *testing.T) {
		t.Parallel()
		dir, sql := t.TempDir(), newNames()
		sql.err = errors.New("disk full")
		if err := filled(t).Save(t.Context(), dir, Head{}, kept, sql); err == nil {
			t.Error("no error")
		}
		sql.err = nil
		if _, err := New().Load(t.Context(), dir, suitsAll, sql); !errors.Is(err, ErrInvalid) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("the folder is gone", func(t *testing.T) {
		t.Parallel()
		sql := newNames()
		if err := filled(t).Save(t.Context(), filepath.Join(t.TempDir(), "gone"), Head{}, kept, sql); err == nil {
			t.Error("no error")
		}
		if sql.texts[snapshotName] != "" {
			t.Error("SQL has an id")
		}
	})
	t.Run("the disk is full", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.Symlink("/dev/full", snapshotPath(dir)+".new"); err != nil {
			t.Fatal(err)
		}
		sql := newNames()
		err := filled(t).Save(t.Context(), dir, Head{}, kept, sql)
		if err == nil || sql.texts[snapshotName] != "" {
			t.Errorf("the error is %v, the id %q", err, sql.texts[snapshotName])
		}
		if found, err := os.ReadDir(dir); err != nil || len(found) > 0 {
			t.Errorf("%v is left: %v", found, err)
		}
	})
}
