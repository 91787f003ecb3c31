package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A quiet pool claims nothing, and passes tokens on; afterwards it finds what came meanwhile.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		r.start(t)
		after(3 * time.Second)
		r.Quiet(true)
		after(3 * time.Second)
		before := len(r.queue.asked())
		r.queue.push(work(1, job.Paid))
		r.Wake()
		after(10 * time.Second)
		if n := len(r.queue.asked()); n != before {
			t.Errorf("a quiet pool made %d claims", n-before)
		}
		r.Quiet(false)
		after(3 * time.Second)
		r.stop(t)
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Errorf("completed %+v after its resume, want the one job", done)
		}
	})
}
