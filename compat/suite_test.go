package compat

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The tests of the Go worker library pass against tierq as they pass against Faktory. Two of them do nothing if they
// find no server, so the commands that the gateway counts show that they found it.
func TestGoWorkersOwnTests(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.dials()
		before := state(t, c).Server.CommandCount
		suite := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "github.com/contribsys/faktory_worker_go")
		// One of the tests counts on rand.Seed, which Go 1.24 has made a no-op without this.
		suite.Env = append(os.Environ(), "FAKTORY_URL="+s.url, "GODEBUG=randseednop=0")
		out, err := suite.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if passed := strings.Count(string(out), "--- PASS: "); passed != 10 || strings.Contains(string(out), "--- SKIP") {
			t.Errorf("%d tests passed, want 10:\n%s", passed, out)
		}
		after := state(t, c)
		if met := after.Server.CommandCount - before; met < 8 {
			t.Errorf("the gateway counted %d commands:\n%s", met, out)
		}
		if after.Data.TotalProcessed == 0 || after.Data.TotalFailures == 0 {
			t.Errorf("TestLiveServer left %d processed jobs, %d failures", after.Data.TotalProcessed, after.Data.TotalFailures)
		}
	})
}
