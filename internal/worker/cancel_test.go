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

// A cancel reaches the handler within two heartbeats, once. The handler's ending is still reported, with
// heartbeats until then; whatever the ending is, the script makes it CANCELLED.
func TestHeartbeatCancel(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		verb job.Verb // of the reported ending
	}{
		{"it finished all the same", nil, job.Completes},
		{"it stopped", errors.New("stopped"), job.Fails},
		{"it stopped with the cause", handler.ErrCancelled, job.Fails},
		{"for good", handler.Permanent(errors.New("stopped")), job.Fails},
		{"it wants to be run later", handler.Later(time.Hour), job.Releases},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				const asked = 1300 * time.Millisecond // when a user asks for the cancel
				var cause error
				var toldAt time.Duration
				seen := &seen{}
				r := newRig(func(ctx context.Context) (string, error) {
					cause, toldAt = until(ctx), time.Since(begin)
					<-time.After(4 * time.Second)
					return "", c.err
				}, func(c *Config) { c.Observe = seen })
				r.pulse.word = func(job.Beat) (job.Word, error) {
					if time.Since(begin) < asked {
						return job.OK, nil
					}
					return job.Cancel, nil
				}
				r.queue.complete = func(b []job.Completion) ([]job.EndReply, error) { return all(job.WasCancelled, len(b)), nil }
				r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { return all(job.WasCancelled, len(b)), nil }
				r.queue.release = func(b []job.Release) ([]job.EndReply, error) {
					return all(job.WasCancelled, len(b)), nil
				}
				r.queue.push(work(1, job.Public))
				r.start(t)
				after(6 * time.Second)
				r.stop(t)
				done, failures, back := r.queue.endings()
				got := map[job.Verb]int{job.Completes: len(done), job.Fails: len(failures), job.Releases: len(back)}
				if !errors.Is(cause, handler.ErrCancelled) || toldAt > asked+2*r.cfg.HeartbeatInterval || got[c.verb] != 1 ||
					len(r.queue.times()) != 1 {
					t.Errorf("told %v after %v, completed %+v, failed %+v, released %+v", cause, toldAt, done, failures, back)
				}
				if n := len(r.pulse.seen()); n < 10 {
					t.Errorf("%d heartbeats, want them to go on", n)
				}
				if s := r.Stats(); s.Cancelled != 1 || r.recorder.wakes != 1 || len(r.recorder.offers) != 0 {
					t.Errorf("stats %+v, %d wakes, %d offers", s, r.recorder.wakes, len(r.recorder.offers))
				}
				if got := seen.endings(); got != "CANCELLED  5.5s" {
					t.Errorf("observed %q", got)
				}
			})
		})
	}
}
