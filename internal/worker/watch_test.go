package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestMaximumProcessingTime(t *testing.T) {
	cases := []struct {
		name     string
		more     time.Duration // how long after the maximum the handler returns
		err      error
		complete bool
		at       time.Duration // of the report, at the earliest; +100 ms at most
	}{
		{"it returns an error at once", 0, errors.New("stopped"), false, 10 * time.Second},
		{"it finishes its work in the grace", 200 * time.Millisecond, nil, true, 10*time.Second + 200*time.Millisecond},
		{"it returns late: reported before, dropped then", time.Minute, nil, false, 10*time.Second + 250*time.Millisecond},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var cause error
				r := newRig(func(ctx context.Context) (string, error) {
					cause = until(ctx)
					<-time.After(c.more)
					return "", c.err
				})
				r.queue.push(work(1, job.Public))
				r.start(t)
				after(2 * time.Minute)
				r.stop(t)
				if !errors.Is(cause, handler.ErrMaxTime) {
					t.Errorf("cause = %v", cause)
				}
				done, failures, back := r.queue.endings()
				if len(done)+len(failures)+len(back) != 1 || c.complete != (len(done) == 1) {
					t.Fatalf("completed %+v, failed %+v, released %+v", done, failures, back)
				}
				if !c.complete && (failures[0].Cause != job.MaxTimeExceeded || failures[0].Delay != 0 || failures[0].Final) {
					t.Errorf("failed %+v, want MAX_TIME_EXCEEDED, back to its place at once", failures[0])
				}
				if at := r.queue.times()[0].Sub(begin); at < c.at || at > c.at+lookEvery {
					t.Errorf("reported after %v, want %v", at, c.at)
				}
			})
		})
	}
}

// If no heartbeat is answered, the handler's context is cancelled before another worker can hold the job. The
// handler's ending is still sent.
func TestSelfFence(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"it finished", nil}, {"it stopped", errors.New("stopped")}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var toldAt time.Duration
				var cause, bystander error
				r := newRig(func(ctx context.Context) (string, error) {
					if run, _ := handler.Running(ctx); run.Tier == job.Paid {
						<-time.After(9 * time.Second)
						bystander = ctx.Err()
						return "", nil
					}
					cause = until(ctx)
					toldAt = time.Since(begin)
					return "", c.err
				})
				r.pulse.word = func(job.Beat) (job.Word, error) {
					if time.Since(begin) > 2100*time.Millisecond {
						return "", job.ErrAmbiguous
					}
					return job.OK, nil
				}
				r.queue.push(work(1, job.Public), work(2, job.Paid))
				r.start(t)
				after(9500 * time.Millisecond)
				r.stop(t)
				// The last answered heartbeat is at 2 s, the timeout 3 s, and one second is added; a watch could reclaim the
				// job at 7 s.
				if !errors.Is(cause, handler.ErrLeaseLost) || toldAt < 6*time.Second || toldAt > 6*time.Second+2*lookEvery {
					t.Errorf("told %v after %v, want a lost lease after 6 s", cause, toldAt)
				}
				if bystander != nil {
					t.Errorf("the PAID job, whose timeout is 15 s, was told %v", bystander)
				}
				done, failures, back := r.queue.endings()
				wantBack := 0
				if c.err != nil {
					wantBack = 1
				}
				if len(failures) != 0 || len(back) != wantBack || len(done) != 2-wantBack {
					t.Errorf("completed %+v, failed %+v, released %+v", done, failures, back)
				}
			})
		})
	}
}
