package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An engine whose programs are missing says so, with what to type, and leaves nothing behind.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	for _, c := range []contender{
		&riverPeer{folders: []string{t.TempDir()}},
		&bullmq{dir: t.TempDir()},
		&beanstalkdPeer{paths: []string{filepath.Join(t.TempDir(), "beanstalkd")}},
	} {
		_, err := c.open(t.Context(), &lab{dir: t.TempDir()})
		if !errors.Is(err, errLeftOut) || !strings.Contains(err.Error(), "type: .ci/provide bench") {
			t.Errorf("%s: open answered %v", c.name(), err)
		}
		if err := c.close(); err != nil {
			t.Errorf("%s: close answered %v", c.name(), err)
		}
	}
}

// The libraries come from whatever registry npm is set to: the lock file pins their versions and contents, and names no
// host.
func TestLockFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("bullmq", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Resolved, Integrity                string
			Dependencies, OptionalDependencies map[string]string
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"bullmq", "ioredis"} {
		if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(lock.Packages[""].Dependencies[library]) {
			t.Errorf("%s is not pinned to one version", library)
		}
	}
	for name, p := range lock.Packages {
		if name == "" {
			continue
		}
		if p.Resolved != "" {
			t.Errorf("%s: the lock file says where it was downloaded; bullmq/.npmrc keeps that out", name)
		}
		if !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s has no checksum", name)
		}
	}
	// A registry that lacks an optional library makes npm leave it out without a word; npm ci then refuses the lock file.
	for name, p := range lock.Packages {
		for _, needs := range []map[string]string{p.Dependencies, p.OptionalDependencies} {
			for library := range needs {
				if _, ok := lock.Packages["node_modules/"+library]; !ok {
					t.Errorf("%q needs %s, which the lock file does not have", name, library)
				}
			}
		}
	}
}
