//go:build !failpoint

package failpoint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A build without the tag does not contain the variable's name, and Hit does not allocate.
func TestOffIsNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(binary, append([]byte("TIERQ_"), "FAILPOINTS"...)) {
		t.Error("the variable's name is in an untagged binary")
	}
	id := job.ID("0197b1d2-0000-7000-8000-000000000000")
	if n := testing.AllocsPerRun(100, func() { Hit("claim.after", id, id) }); n != 0 {
		t.Errorf("Hit allocates %v times", n)
	}
}

// A plain "go test ./..." also runs the tests of the tagged build.
func TestTaggedBuild(t *testing.T) {
	tagged := filepath.Join(t.TempDir(), "tagged.test")
	if out, err := exec.Command("go", "test", "-c", "-tags", "failpoint", "-o", tagged, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with the tag: %v\n%s", err, out)
	}
	if out, err := exec.Command(tagged, "-test.v").CombinedOutput(); err != nil {
		t.Fatalf("the tagged build's tests: %v\n%s", err, out)
	}
}
