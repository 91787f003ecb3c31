package queue_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A Redis that lost its data gets the key of sealed texts back from a process that knows it. A lease that was handed out
// before another process had looked at Redis again is not lost by that.
func TestSeal_RedisForgets(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		a, b := e.Process("a"), e.Process("b")
		look := func(processes ...*queue.Queue) {
			t.Helper()
			for _, q := range processes {
				if err := q.CheckSetup(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		forget := func(r redis.UniversalClient) { r.Del(t.Context(), "{tierq}:system:config") }
		seal := func(q *queue.Queue) string {
			t.Helper()
			text, err := q.View().Seal(t.Context(), "a lease", "key")
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		opens := func(text string, processes ...*queue.Queue) {
			t.Helper()
			for i, q := range processes {
				if lease, err := q.View().Open(t.Context(), text, "key"); lease != "a lease" || err != nil {
					t.Errorf("process %d opens %q, %v", i, lease, err)
				}
			}
		}
		look(a, b)
		forget(e.Redis)
		look(b)
		ofA := seal(a) // a has not looked yet
		look(a)
		opens(ofA, a, b)
		opens(seal(b), a, b)

		// A process that has just started knows no key, and comes first.
		forget(e.Redis)
		c := e.Process("c")
		look(c)
		ofA = seal(a)
		look(a, b)
		opens(ofA, a, b)
		opens(seal(c), a, b, c)
		if _, err := c.View().Open(t.Context(), ofA, "key"); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("a process that never knew the key: %v", err)
		}
		look(c) // the others have told it their key
		opens(ofA, a, b, c)
		if _, err := a.View().Open(t.Context(), ofA, "another key"); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("a lease of another: %v", err)
		}
	})
}
