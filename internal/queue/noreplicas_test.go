package queue_test

import (
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// A master that must have a replica (min-replicas-to-write) and has none refuses every write. The refusal is
// certain: the refused job is not in Redis later.
func TestNoReplicas(t *testing.T) {
	t.Attr("proves", "F24")
	t.Parallel()
	server := testkit.NewRedis(t)
	e := connected(t, server.URL(), func(*queue.Options) {})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(e.Redis.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	for _, s := range []job.Submission{queuetest.Job(job.Paid), keyed("a", "1")} {
		if _, err := e.Submit(t.Context(), 0, []job.Submission{s}); !errors.Is(err, job.ErrUnavailable) ||
			errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("a submit: %v", err)
		}
	}
	if err := e.Probe(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("the gate's probe: %v", err)
	}
	must(e.Redis.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	same(t, "jobs and keys", len(e.Redis.Keys(t.Context(), "{tierq:0}:*").Val()), 1) // the counters, with their mark
}
