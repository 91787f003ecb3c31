package queue_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// An audit pass puts every line back into its place, and counts the running attempts of each key again, whatever was
// edited. Of a sound partition it finds nothing.
func TestRepair_Lines(t *testing.T) {
	t.Parallel()
	lines := queue.Key(0, "lines")
	for name, c := range map[string]struct {
		edit func(t *testing.T, e *queuetest.Env, r redis.UniversalClient)
		want string
	}{
		"nothing": {func(*testing.T, *queuetest.Env, redis.UniversalClient) {}, ""},
		"out of its queue": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.ZRem(t.Context(), queue.Key(0, "queue"), "@PAID:a")
		}, "REPAIRED line"},
		"in its queue, and parked": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.ZAdd(t.Context(), queue.Key(0, "queue"), redis.Z{Score: 1e13, Member: "@PAID:parked"})
		}, "REPAIRED line"},
		"in its queue without jobs": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.ZAdd(t.Context(), queue.Key(0, "queue"), redis.Z{Score: 1e13, Member: "@PAID:nobody"})
		}, "REPAIRED line"},
		"parked for ever": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.Del(t.Context(), lines+"parked")
		}, "REPAIRED line"},
		"not counted": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.ZRem(t.Context(), lines+"waiting", "PAID:a:main")
		}, "REPAIRED line"},
		"counted too high": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.ZAdd(t.Context(), lines+"waiting", redis.Z{Score: 7, Member: "PAID:a:main"})
		}, "REPAIRED line"},
		"an attempt too many": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.HSet(t.Context(), lines+"keys", "a", "2 0.000 - ")
		}, "REPAIRED line"},
		"the keys are gone": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.Del(t.Context(), lines+"keys", lines+"parked")
		}, "REPAIRED line, REPAIRED line"},
		"the keys are no hash": {func(t *testing.T, _ *queuetest.Env, r redis.UniversalClient) {
			r.Del(t.Context(), lines+"keys")
			r.Set(t.Context(), lines+"keys", "x", 0)
		}, "REPAIRED line, REPAIRED line, REPAIRED type"},
		"a job out of its line": {func(t *testing.T, e *queuetest.Env, r redis.UniversalClient) {
			for _, id := range r.ZRange(t.Context(), queue.LineKey(0, "PAID:a:main"), 0, 0).Val() {
				r.ZRem(t.Context(), queue.LineKey(0, "PAID:a:main"), id)
				r.ZAdd(t.Context(), queue.Key(0, "queue"), redis.Z{Score: 1e13, Member: id})
			}
		}, "REPAIRED line, REPAIRED line, REPAIRED misplaced, REPAIRED missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queuetest.EachWith(t, func(o *queue.Options) { o.Queues = &job.QueueBook{} },
				func(t *testing.T, e *queuetest.Env) {
					paused := job.LineLimits{Name: "parked", Paused: &job.LinePause{}}
					if err := e.SetLimits(t.Context(), 0, []job.LineLimits{paused}); err != nil {
						t.Fatal(err)
					}
					for _, key := range []string{"a", "a", "a", "parked"} {
						s := queuetest.Job(job.Paid)
						s.Line = key
						e.PutAll(t, s)
					}
					e.Take(t, 1)
					c.edit(t, e, e.Redis)
					if got := kinds(pass(t, e.Queue, unasked)); got != c.want {
						t.Errorf("found %q, not %q", got, c.want)
					}
					if got := kinds(pass(t, e.Queue, unasked)); got != "" {
						t.Errorf("found then %q", got)
					}
				})
		})
	}
}
