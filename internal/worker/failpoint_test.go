//go:build failpoint

package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// tellingRecorder prints a line for each offer.
type tellingRecorder struct{ done chan struct{} }

func (r tellingRecorder) Offer(job.Outcome) bool { fmt.Println("offered"); close(r.done); return true }
func (r tellingRecorder) Wake()                  {}

// TestFailpoints runs a pool in a process of its own and kills the process at each point: the steps before the
// point are done, those after it are not.
func TestFailpoints(t *testing.T) {
	if os.Getenv("PLAY_POOL") != "" {
		playPool(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct{ point, steps string }{
		{"claim.after", "claimed"},
		{"handler.after", "claimed ran"},
		{"complete.after", "claimed ran completed"},
	}
	for _, c := range cases {
		t.Run(c.point, func(t *testing.T) {
			cmd := exec.Command(self, "-test.run=^TestFailpoints$")
			cmd.Env = append(os.Environ(), "PLAY_POOL=1", "TIERQ_FAILPOINTS="+c.point+"=kill")
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
				t.Errorf("status %v, want killed", status)
			}
			if got := strings.Join(strings.Fields(out.String()), " "); got != c.steps {
				t.Errorf("steps %q, want %q", got, c.steps)
			}
			want := fmt.Sprintf("failpoint %s hit pid=%d jobs=%s\n", c.point, cmd.Process.Pid, work(1, job.Paid).ID)
			if !strings.Contains(errs.String(), want) {
				t.Errorf("stderr %q lacks the evidence %q", errs.String(), want)
			}
		})
	}
}

func playPool(t *testing.T) {
	r := newRig(func(context.Context) (string, error) { fmt.Println("ran"); return "", nil })
	r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
		reply := r.queue.pop(req)
		if len(reply.Leases) > 0 {
			fmt.Println("claimed")
		}
		return reply, nil
	}
	r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) {
		fmt.Println("completed")
		return all(job.OK, len(b)), nil
	}
	done := make(chan struct{})
	r.Pool.recorder = tellingRecorder{done}
	r.queue.push(work(1, job.Paid))
	r.start(t)
	<-done
	r.stop(t)
}
