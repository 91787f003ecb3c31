package queue_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// tolds counts, by the book of pauses, how often it was told that something has changed.
var tolds sync.Map

// withPauses sets Options with a book of pauses, and counts in tolds.
func withPauses(remembered func() (job.Pauses, error)) func(*queue.Options) {
	return func(o *queue.Options) {
		told := &atomic.Int64{}
		o.Pauses, o.Told = &job.PauseBook{}, func() { told.Add(1) }
		tolds.Store(o.Pauses, told)
		if remembered != nil {
			o.RememberedPauses = func(context.Context) (job.Pauses, error) { return remembered() }
		}
	}
}

func scopesOf(p job.Pauses) (scopes []string) {
	for _, one := range p.List {
		scopes = append(scopes, one.Scope)
	}
	return scopes
}

// LoadQueues reads a pause with its end, reason and author. A pause ends when it is resumed, or at its end. Each change
// raises the version. A repeated pause keeps the time since which it is in force.
func TestPauses(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, withPauses(nil), func(t *testing.T, e *queuetest.Env) {
		counted, _ := tolds.Load(e.Options.Pauses)
		told := counted.(*atomic.Int64)
		load := func() job.Pauses {
			t.Helper()
			if err := e.LoadQueues(t.Context()); err != nil {
				t.Fatal(err)
			}
			return e.Options.Pauses.All()
		}
		asked := job.Pause{Scope: "tier:PUBLIC", Reason: `a "migration"`, By: "ada", Refuse: true,
			Until: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)}
		first, version, err := e.Queue.Pause(t.Context(), asked)
		if err != nil || version != 1 || time.Since(first.Since).Abs() > time.Minute {
			t.Fatalf("%+v, version %d, %v", first, version, err)
		}
		told.Store(0)
		got := load()
		asked.Since = first.Since.Truncate(time.Millisecond)
		if got.Version != 1 || len(got.List) != 1 || !got.List[0].Equal(asked) || told.Load() != 1 {
			t.Errorf("loaded %+v, told %d times, want %+v", got, told.Load(), asked)
		}
		if load(); told.Load() != 1 {
			t.Errorf("told %d times, and nothing had changed", told.Load())
		}
		again, version, err := e.Queue.Pause(t.Context(), job.Pause{Scope: "tier:PUBLIC", Reason: "still"})
		if err != nil || version != 2 || !again.Since.Equal(asked.Since) || load().List[0].Reason != "still" {
			t.Errorf("%+v, version %d, %v", again, version, err)
		}
		soon := job.Pause{Scope: "queue:main", Until: time.UnixMilli(e.Now(t)).Add(3 * time.Second)}
		if _, _, err := e.Queue.Pause(t.Context(), soon); err != nil {
			t.Fatal(err)
		}
		if got := scopesOf(load()); !slices.Equal(got, []string{"queue:main", "tier:PUBLIC"}) {
			t.Errorf("paused are %q", got)
		}
		for deadline := time.Now().Add(20 * time.Second); len(load().List) != 1; <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a pause did not end by itself")
			}
		}
		if _, on, err := e.Resume(t.Context(), "all"); on || err != nil {
			t.Errorf("what was not paused: %t, %v", on, err)
		}
		was, on, err := e.Resume(t.Context(), "tier:PUBLIC")
		// The fourth change removed the pause that had ended.
		if now := load(); !on || err != nil || was.Reason != "still" || len(now.List) != 0 || now.Version != 5 {
			t.Errorf("%+v, %t, %v; left is %+v", was, on, err, now)
		}
		if n := e.Redis.HLen(t.Context(), "{tierq}:paused").Val(); n != 1 { // the version alone
			t.Errorf("Redis has %v", e.Redis.HGetAll(t.Context(), "{tierq}:paused").Val())
		}
	})
}

// What processes of an earlier version wrote is a pause since then.
func TestPauses_OfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, withPauses(nil), func(t *testing.T, e *queuetest.Env) {
		e.Redis.HSet(t.Context(), "{tierq}:paused", "queue:main", "1777635117000", "quiet:host-1", "1777635117000")
		if err := e.LoadQueues(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, on := e.Options.Pauses.Find("queue:main")
		if want := time.UnixMilli(1777635117000); !on || !p.Since.Equal(want) || len(e.Options.Pauses.All().List) != 1 {
			t.Errorf("%+v, %t", p, on)
		}
		if _, on, err := e.Resume(t.Context(), "queue:main"); !on || err != nil {
			t.Errorf("resumed %t, %v", on, err)
		}
	})
}

// A Redis that lost its pauses, or went back behind some of them, gets them back from a process that knows them; a
// Redis that begins anew from SQL. Nobody writes an earlier version over a later one.
func TestPauses_OfARedisThatLostThem(t *testing.T) {
	t.Parallel()
	since := time.UnixMilli(1777635117000).UTC()
	kept := job.Pauses{Version: 7, List: []job.Pause{{Scope: "all", Since: since, By: "ada"}}}
	queuetest.EachWith(t, withPauses(func() (job.Pauses, error) { return kept, nil }),
		func(t *testing.T, e *queuetest.Env) {
			stored := func(want job.Pauses) {
				t.Helper()
				if err := e.LoadQueues(t.Context()); err != nil {
					t.Fatal(err)
				}
				texts := e.Redis.HGetAll(t.Context(), "{tierq}:paused").Val()
				found := job.Pauses{}
				for scope, text := range texts {
					var p job.Pause
					if scope == "version" {
						_ = json.Unmarshal([]byte(text), &found.Version)
					} else if err := json.Unmarshal([]byte(text), &p); err != nil {
						t.Error(err)
					} else {
						found.List = append(found.List, p)
					}
				}
				book := e.Options.Pauses.All()
				if !slices.EqualFunc(found.List, want.List, job.Pause.Equal) || found.Version != want.Version ||
					!slices.EqualFunc(book.List, want.List, job.Pause.Equal) || book.Version != want.Version {
					t.Errorf("Redis has %v, the book %+v, want %+v", texts, book, want)
				}
			}
			e.Options.Pauses.Set(job.Pauses{})
			e.Redis.Del(t.Context(), "{tierq}:paused", "{tierq}:queues")
			stored(kept)
			e.Redis.HSet(t.Context(), "{tierq}:paused", "version", "6", "queue:main", `{"scope":"queue:main","since":1}`)
			stored(kept) // it went back behind version 7
			e.Redis.HSet(t.Context(), "{tierq}:paused", "version", "8")
			e.Redis.HDel(t.Context(), "{tierq}:paused", "all")
			stored(job.Pauses{Version: 8})
			e.Redis.Del(t.Context(), "{tierq}:queues")
			stored(job.Pauses{Version: 8}) // SQL's version 7 is earlier
		})
}
