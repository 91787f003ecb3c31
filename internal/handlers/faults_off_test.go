//go:build !failpoint

package handlers

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestServedTypes(t *testing.T) {
	if got := registry().Types(); !slices.Equal(got, []string{"SIMULATION"}) {
		t.Errorf("types = %v", got)
	}
	if err := registry().Check("CRASH", nil); !errors.Is(err, job.ErrUnknownType) {
		t.Errorf("CRASH in an untagged build: %v", err)
	}
}

// The failpoint build's tests pass. They run from here too, so that a plain "go test ./..." covers them.
func TestTaggedBuild(t *testing.T) {
	t.Parallel()
	tagged := filepath.Join(t.TempDir(), "tagged.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", tagged, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with the tag: %v\n%s", err, out)
	}
	if out, err := exec.Command(tagged, "-test.v").CombinedOutput(); err != nil {
		t.Fatalf("the tagged build's tests: %v\n%s", err, out)
	}
}
