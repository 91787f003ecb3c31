//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The CLI creates files with the permissions that the user's umask leaves. A replaced file keeps its permissions.
func TestFilesFollowTheUmask(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	mode := func(name string) os.FileMode {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	under := func(umask string, args ...string) {
		t.Helper()
		line := append([]string{"-c", `umask "$0"; exec "$@"`, umask, os.Args[0]}, args...)
		child := exec.CommandContext(t.Context(), "sh", line...)
		child.Env, child.Dir = []string{childSwitch + "=client", "TIERQ_URL=" + f.URL}, dir
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for umask, want := range map[string]os.FileMode{"022": 0o644, "077": 0o600, "027": 0o640, "002": 0o664} {
		under(umask, "jobs", "artifact", doneID, "--file", "a"+umask)
		under(umask, "dead", "export", "--file", "d"+umask)
		if a, d := mode("a"+umask), mode("d"+umask); a != want || d != want {
			t.Errorf("umask %s: an artifact %o, an export %o, want %o", umask, a, d, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	under("022", "jobs", "artifact", doneID, "--file", "mine", "--force")
	if got := mode("mine"); got != 0o600 {
		t.Errorf("a replaced file is %o now", got)
	}
}
