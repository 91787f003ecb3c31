package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A session exists until it ends, for one API key only.
func TestSessions(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		now, err := e.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		add := func(key, hash string, in time.Duration) {
			t.Helper()
			if err := e.AddSession(t.Context(), key, hash, now.Add(in)); err != nil {
				t.Fatal(err)
			}
		}
		has := func(key string, want ...bool) {
			t.Helper()
			ends, err := e.Sessions(t.Context(), key, "one", "two", "three")
			if err != nil {
				t.Fatal(err)
			}
			for i, until := range ends {
				if !until.IsZero() != want[i] {
					t.Errorf("%s: %v, want %v", key, ends, want)
				}
			}
		}
		has("ann", false, false, false)
		add("ann", "one", time.Hour)
		add("ann", "two", 2*time.Hour)
		add("bob", "two", time.Hour)
		has("ann", true, true, false)
		has("bob", false, true, false)
		ends, err := e.Sessions(t.Context(), "ann", "two")
		if err != nil || len(ends) != 1 || !ends[0].Equal(now.Add(2*time.Hour).Truncate(time.Millisecond)) {
			t.Errorf("%v, %v", ends, err)
		}
		if ttl := e.Redis.PTTL(t.Context(), "{tierq}:sessions:ann").Val(); ttl <= time.Hour || ttl > 2*time.Hour+time.Minute {
			t.Errorf("the key lives for %s", ttl)
		}
		for range 2 {
			if err := e.EndSession(t.Context(), "ann", "two"); err != nil {
				t.Error(err)
			}
		}
		has("ann", true, false, false)
		has("bob", false, true, false)
		e.Redis.ZAdd(
			t.Context(), "{tierq}:sessions:ann",
			redis.Z{Score: float64(now.Add(-time.Second).UnixMilli()), Member: "three"},
		)
		has("ann", true, false, false)
	})
}

// An API key has at most MaxSessions sessions, however often its holder logs in: the sessions that end soonest are
// removed.
func TestSessions_AreBounded(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		now, err := e.ReadClock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range queue.MaxSessions + 20 {
			until := now.Add(time.Hour + time.Duration(i)*time.Second)
			if err := e.AddSession(t.Context(), "ann", fmt.Sprint("s", i), until); err != nil {
				t.Fatal(err)
			}
		}
		kept := e.Redis.ZRange(t.Context(), "{tierq}:sessions:ann", 0, -1).Val()
		if len(kept) != queue.MaxSessions || kept[0] != "s20" || slices.Contains(kept, "s19") {
			t.Errorf("%d are kept, the first is %s", len(kept), kept[0])
		}
		e.Redis.ZAdd(
			t.Context(), "{tierq}:sessions:ann",
			redis.Z{Score: float64(now.Add(-time.Minute).UnixMilli()), Member: "gone"},
		)
		if err := e.AddSession(t.Context(), "ann", "s119", now.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		kept = e.Redis.ZRange(t.Context(), "{tierq}:sessions:ann", 0, -1).Val()
		if len(kept) != queue.MaxSessions || slices.Contains(kept, "gone") {
			t.Errorf("%d are kept: %q", len(kept), kept)
		}
	})
}

// All processes of a cluster have the same instance name, also after Redis has lost it. Other data has another one.
func TestInstance(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		if err := e.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := queue.New(e.Clients, e.Plans, e.Options)
		if err := second.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		name := e.Instance()
		if len(name) != 8 || second.View().Instance() != name {
			t.Errorf("%q and %q", name, second.View().Instance())
		}
		e.Redis.HDel(t.Context(), "{tierq}:system:config", "cursorKey")
		if err := second.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second.View().Instance() != name {
			t.Errorf("Redis lost the name, and it is %q then", second.View().Instance())
		}
		e.Redis.HDel(t.Context(), "{tierq}:system:config", "cursorKey")
		third := queue.New(e.Clients, e.Plans, e.Options)
		if err := third.CheckSetup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if third.View().Instance() == name || third.View().Instance() == "" {
			t.Errorf("other data, and its name is %q", third.View().Instance())
		}
	})
}
