//go:build !failpoint

package worker

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTaggedBuild runs the failpoint tests in a tagged build, so that a plain "go test ./..." covers them.
func TestTaggedBuild(t *testing.T) {
	tagged := filepath.Join(t.TempDir(), "tagged.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", tagged, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with the tag: %v\n%s", err, out)
	}
	if out, err := exec.Command(tagged, "-test.run=^TestFailpoints$", "-test.v").CombinedOutput(); err != nil {
		t.Fatalf("the tagged build's tests: %v\n%s", err, out)
	}
}
