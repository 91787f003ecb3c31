package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestMaximumProcessingTime(t *testing.T) {
	cases := []struct {
		name     string
		more     time.Duration // the handler returns so long after the maximum
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
				if !errors.Is(cause, job.ErrMaxTime) {
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

// A handler that ignores its context keeps its slot, is counted and named, and wedges nothing.
func TestStuckHandler_F47_S4_N10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		r := newRig(func(ctx context.Context) (string, error) {
			if run, _ := job.Running(ctx); run.ID == work(1, job.Public).ID {
				<-time.After(100 * time.Second) // ten times its maximum
				return "late", nil
			}
			ran.Add(1)
			return "", nil
		})
		r.queue.push(work(1, job.Public))
		r.start(t)
		after(11 * time.Second)
		if s := r.Stats(); s.Stuck != 0 || s.Running != 1 {
			t.Errorf("a second after the maximum: %+v, want it not stuck yet", s)
		}
		after(1500 * time.Millisecond)
		if s := r.Stats(); s.Stuck != 1 || s.Running != 1 || s.Free != 1 || s.Undelivered != 0 || s.Failed != 1 {
			t.Errorf("2.5 s after the maximum: %+v, want one stuck slot of two, and the failure reported", s)
		}
		for i := range 50 {
			r.queue.push(work(2+i, job.Paid))
		}
		r.Wake()
		after(time.Second)
		if ran.Load() != 50 {
			t.Errorf("%d of 50 other jobs ran in the other slot", ran.Load())
		}
		after(100 * time.Second)
		s := r.Stats()
		done, failures, _ := r.queue.endings()
		if s.Stuck != 0 || s.Free != 2 || len(done) != 50 || len(failures) != 1 {
			t.Errorf("after it returned: %+v, %d completed, %d failed, want its slot back and its result dropped", s, len(done), len(failures))
		}
		if n := strings.Count(r.logs.String(), "slot is stuck"); n != 1 || !strings.Contains(r.logs.String(), string(work(1, job.Public).ID)) {
			t.Errorf("told %d times, want once, with the job's id:\n%s", n, r.logs)
		}
		r.stop(t)
		if len(r.held) != 0 {
			t.Errorf("%d leases are still held", len(r.held))
		}
	})
}

// When no heartbeat gets through, the handler is told before anybody else can hold the job. Its ending is tried all the same.
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
					if run, _ := job.Running(ctx); run.Tier == job.Paid {
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
				// Last good heartbeat at 2 s, timeout 3 s, one more second; a watch could take the job back at 7 s.
				if !errors.Is(cause, job.ErrLeaseLost) || toldAt < 6*time.Second || toldAt > 6*time.Second+2*lookEvery {
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
