package compat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// node runs a script with the Node library, which .ci/provide brings.
func node(t *testing.T, s *tierq, script string, args ...string) string {
	t.Helper()
	if _, err := os.Stat("node/node_modules/faktory-worker"); err != nil {
		t.Fatalf("type: (cd compat/node && npm ci --ignore-scripts): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "node", append([]string{script}, args...)...)
	run.Dir, run.Env = "node", append(os.Environ(), "FAKTORY_URL="+s.url)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// The Node library pushes jobs and runs them: each once, those that fail again, in two tiers, and none is left.
func TestNode(t *testing.T) {
	t.Parallel()
	testkit.Calm(t)
	backends(t, func(t *testing.T, s *tierq) {
		out := node(t, s, "work.mjs", "200")
		if !strings.Contains(out, "ran 200 jobs, failed 10 times, in all 210 attempts") {
			t.Errorf("it says %s", out)
		}
		d := state(t, s.dials()).Data
		if d.TotalProcessed != 210 || d.TotalFailures != 10 || d.TotalEnqueued != 0 || d.Sets["working"] != 0 {
			t.Errorf("afterwards there is %s", fmt.Sprintf("%+v", d))
		}
	})
}
