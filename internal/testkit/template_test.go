package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// Each of many concurrent calls gets a whole copy, whichever call made the template. A removed template is made
// again. Another program has another template.
func TestTemplate(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	program := filepath.Join(t.TempDir(), "install")
	must(t, os.WriteFile(program, []byte("1"), 0o700))
	of := func(args ...string) *template {
		tm, err := templateFor("words", []string{program}, args)
		must(t, err)
		return tm
	}
	var made atomic.Int32
	create := func(data string) error {
		made.Add(1)
		must(t, os.MkdirAll(filepath.Join(data, "sub"), 0o700))
		for _, name := range []string{"a", "sub/b"} {
			must(t, os.WriteFile(filepath.Join(data, name), []byte("whole "+name), 0o600))
		}
		return nil
	}
	whole := func(tm *template) {
		t.Helper()
		data := filepath.Join(t.TempDir(), "data")
		if err := tm.copyTo(data, create); err != nil {
			t.Error(err)
			return
		}
		for _, name := range []string{"a", "sub/b"} {
			if text, err := os.ReadFile(filepath.Join(data, name)); err != nil || string(text) != "whole "+name {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		must(t, os.WriteFile(filepath.Join(data, "a"), []byte("a server's own"), 0o600)) // must not change other copies
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { whole(of()) })
	}
	group.Wait()
	before := made.Load()
	whole(of())
	if made.Load() != before {
		t.Error("what is there was made again")
	}
	of().remove()
	of().remove()
	whole(of())
	whole(of("an argument"))
	must(t, os.WriteFile(program, []byte("the next version"), 0o700))
	whole(of())
	if n := made.Load(); n != before+3 {
		t.Errorf("made %d times since, want once after the removal, for the argument, and for the version", n-before)
	}
	broken := errors.New("no disk")
	err := of("another").copyTo(filepath.Join(t.TempDir(), "data"), func(string) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("a template that could not be made: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "*", "making-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if all, err := filepath.Glob(filepath.Join(cache, "tierq-testkit", "words-*")); err != nil || len(all) != 3 {
		t.Errorf("templates: %v, %v", all, err)
	}
}

// A damaged template does not prevent a start, and is removed.
func TestMariaDBFromADamagedTemplate(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	bin, err := program(installMariaDB, "mariadbd", "mysqld")
	must(t, err)
	install, err := program(installMariaDB, "mariadb-install-db", "mysql_install_db")
	must(t, err)
	damaged, err := mariadbTemplate(bin, install)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(damaged.dir, "mysql"), 0o700)) // without any table in it
	m := NewMariaDB(t)
	execute(t, open(t, m.NewDatabase(t)), "CREATE TABLE words (word VARCHAR(20) PRIMARY KEY)")
	if _, err := os.Stat(damaged.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the damaged template is still there: %v", err)
	}
}
