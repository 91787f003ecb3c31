package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// exact returns a backoff without jitter.
func exact(base, longest time.Duration) job.Backoff {
	return job.Backoff{Base: base, Factor: 2, Cap: longest}
}

// A failed attempt waits for the backoff of its tier, or of its type in that tier, by the number of retries so
// far.
func TestBackoff(t *testing.T) {
	t.Attr("proves", "S0-N7 S1-N2 S1-P2 S4-N5")
	plans := job.DefaultPlans()
	plans[0].Backoff = exact(2*time.Second, 300*time.Second)
	plans[0].TypeBackoff = map[string]job.Backoff{"WORK": exact(10*time.Second, 300*time.Second),
		"OTHER": exact(time.Hour, time.Hour)}
	plans[1].Backoff = exact(2*time.Second, 300*time.Second)
	plans[1].TypeBackoff = map[string]job.Backoff{"OTHER": exact(time.Hour, time.Hour)}
	plans[2].TypeBackoff = map[string]job.Backoff{"WORK": {}}
	for tier, want := range map[job.Tier][]int{ // in seconds, by retries so far
		job.Paid:   {10, 20, 40, 80, 160, 300, 300},
		job.Unpaid: {2, 4, 8, 16, 32, 64, 128, 256, 300},
		job.Public: {0, 0, 0},
	} {
		t.Run(string(tier), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(func(context.Context) (string, error) { return "", errors.New("boom") },
					func(c *Config) { c.Plans.Set(plans) })
				for i := range want {
					j := work(i, tier)
					j.RetryCount = i
					r.queue.push(j)
				}
				r.start(t)
				after(time.Second)
				r.stop(t)
				_, failures, _ := r.queue.endings()
				got := map[job.ID]float64{}
				for _, f := range failures {
					got[f.ID] = f.Delay.Seconds()
				}
				for i, seconds := range want {
					if d, ok := got[work(i, tier).ID]; !ok || d != float64(seconds) {
						t.Errorf("after %d retries: %v s, want %v s", i, d, seconds)
					}
				}
			})
		})
	}
}

// A handler that always fails runs 1 + maxRetries times, and each run knows its attempt and retries.
func TestRetryBudget(t *testing.T) {
	t.Attr("proves", "S1-N1 S4-N6")
	synctest.Test(t, func(t *testing.T) {
		var runs []string
		seen := &seen{}
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			runs = append(runs, fmt.Sprint(run.Attempt, ":", run.RetryCount, "/", run.MaxRetries))
			return "", errors.New("boom")
		}, func(c *Config) { c.Observe = seen })
		j := work(1, job.Paid)
		j.MaxRetries = 4
		r.queue.fail = func(b []job.Failure) ([]job.EndReply, error) { // as the script does
			if j.RetryCount >= j.MaxRetries {
				return all(job.Discarded, len(b)), nil
			}
			j.Attempt, j.RetryCount = j.Attempt+1, j.RetryCount+1
			due := j
			time.AfterFunc(b[0].Delay, func() { r.queue.push(due); r.Wake() })
			return all(job.OK, len(b)), nil
		}
		r.queue.push(j)
		r.start(t)
		after(10 * time.Minute)
		r.stop(t)
		if got := strings.Join(runs, " "); got != "1:0/4 2:1/4 3:2/4 4:3/4 5:4/4" {
			t.Errorf("runs %s, want the maximum of five", got)
		}
		if got := strings.Count(seen.endings(), "RETRIED"); got != 4 ||
			!strings.HasSuffix(seen.endings(), "FAILED HANDLER_ERROR 0s") {
			t.Errorf("endings %s", seen.endings())
		}
	})
}

// Later is no failure: the job comes back at the time that the handler chose, any number of times, and spends no
// retry.
func TestLaterChoosesItsTime(t *testing.T) {
	t.Attr("proves", "S3-I3 S3-Q5 T-10")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var at []time.Duration
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			if run.RetryCount != 0 {
				t.Errorf("run %+v", run)
			}
			if at = append(at, time.Since(begin)); len(at) <= 3 {
				return "", fmt.Errorf("downstream is busy: %w", handler.Later(time.Duration(len(at))*time.Minute))
			}
			return "", nil
		})
		j := work(1, job.Public)
		j.MaxRetries = 0
		r.queue.release = func(b []job.Release) ([]job.EndReply, error) { // as the script and the promoter do
			j.Attempt++
			due := j
			time.AfterFunc(b[0].Delay, func() { r.queue.push(due); r.Wake() })
			return all(job.OK, len(b)), nil
		}
		r.queue.push(j)
		r.start(t)
		after(10 * time.Minute)
		r.stop(t)
		if got := fmt.Sprint(at); got != "[0s 1m0s 3m0s 6m0s]" {
			t.Errorf("ran at %s", got)
		}
		if s := r.Stats(); s.Released != 3 || s.Completed != 1 || s.Failed != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}
