package queue_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

type markKey struct{}

// WatchCalls reports each script call once, also the first call of a script to a server, with its file's name, its
// keys and the caller's context. It reports no other commands.
func TestWatchCalls(t *testing.T) {
	t.Parallel()
	life := func(t *testing.T, e *queuetest.Env) {
		var mu sync.Mutex
		var seen []queue.ScriptCall
		e.Clients.WatchCalls(func(ctx context.Context, call queue.ScriptCall) {
			mu.Lock()
			defer mu.Unlock()
			if ctx.Value(markKey{}) == "mine" {
				seen = append(seen, call)
			}
		})
		if err := e.Redis.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), markKey{}, "mine")
		s := queuetest.Job(job.Paid)
		s.ID = queuetest.NewID(0)
		if _, err := e.Submit(ctx, 0, []job.Submission{s}); err != nil {
			t.Fatal(err)
		}
		reply, err := e.Claim(ctx, 0, job.ClaimRequest{Number: 1, Max: 1, Bound: 1e15})
		if err != nil || len(reply.Leases) != 1 {
			t.Fatal(reply, err)
		}
		for range 2 {
			got, err := e.Heartbeat(ctx, 0, []job.Beat{beat(reply.Leases[0], time.Minute)})
			words(t, got, err, job.OK)
		}
		if _, err := e.Find(ctx, s.ID); err != nil { // no script
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := e.Promote(gone, 0); err == nil {
			t.Error("a call with an ended context")
		}
		mu.Lock()
		defer mu.Unlock()
		var names []string
		for _, call := range seen {
			names = append(names, call.Script)
			same(t, call.Script+" failed", call.Err != nil, call.Script == "promote")
		}
		if want := []string{"submit", "claim", "heartbeat", "heartbeat", "promote"}; !slices.Equal(names, want) {
			t.Fatalf("saw %q, want %q", names, want)
		}
		for i, key := range []string{"queue", "queue", "heartbeat_deadlines", "heartbeat_deadlines", "scheduled"} {
			same(t, "first key of "+names[i], seen[i].Keys[0], queue.Key(0, key))
		}
		if !slices.Contains(seen[1].Keys, queue.Key(0, "job")) {
			t.Errorf("keys of claim: %q", seen[1].Keys)
		}
	}
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		life(t, queuetest.Embedded(t, func(*queue.Options) {}))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients := queuetest.Connect(t, testkit.NewRedis(t).URL()) // no other test uses it: a flush would disturb others
		life(t, queuetest.Open(t, clients, func(*queue.Options) {}))
	})
}
