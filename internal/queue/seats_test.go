package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// A key gets no more seats than it has. Seats that were given up, or whose time is over, are free again.
func TestSeats(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		take := func(key string, most, want int, names ...string) {
			t.Helper()
			if got, err := e.TakeSeats(t.Context(), key, names, most, time.Minute); err != nil || got != want {
				t.Errorf("%s of %d: got %d, %v, want %d", names, most, got, err, want)
			}
		}
		holds := func(key string, want ...string) {
			t.Helper()
			got := e.Redis.ZRange(t.Context(), "{tierq}:seats:"+key, 0, -1).Val()
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s holds %q, want %q", key, got, want)
			}
		}
		set := func(key string, held []job.Seat, left ...string) {
			t.Helper()
			for range 2 {
				if err := e.SetSeats(t.Context(), key, held, left); err != nil {
					t.Fatal(err)
				}
			}
		}
		take("ann", 3, 2, "a", "b")
		take("ann", 3, 2, "a", "b") // a repeat
		take("ann", 3, 1, "c", "d", "e")
		take("ann", 3, 0, "f")
		take("bob", 1, 1, "a")
		holds("ann", "a", "b", "c")
		holds("bob", "a")
		set("ann", []job.Seat{{Name: "lease", Lasts: time.Minute}, {Name: "over", Lasts: -time.Second}}, "a", "nobody")
		holds("ann", "b", "c", "lease", "over")
		take("ann", 4, 1, "g", "h") // the seat whose time is over is free
		holds("ann", "b", "c", "g", "lease")
		set("ann", nil, "b", "c", "g", "lease")
		set("ann", nil)
		holds("ann")
		holds("bob", "a")
		take("ann", 0, 0, "a")
		set("ann", []job.Seat{{Name: "a", Lasts: time.Hour}})
		if ttl := e.Redis.PTTL(t.Context(), "{tierq}:seats:ann").Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
			t.Errorf("the key lives for %s", ttl)
		}
	})
}

// However many callers take and give up seats at once, together they never hold more than there are.
func TestSeats_ManyCallers(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const most = 5
		var held, highest, granted atomic.Int64
		var group sync.WaitGroup
		for caller := range 8 {
			group.Go(func() {
				for round := range 20 {
					var names []string
					for i := range 3 {
						names = append(names, fmt.Sprint(caller, "/", round, "/", i))
					}
					got, err := e.TakeSeats(t.Context(), "ann", names, most, time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					<-time.After(rand.N(3 * time.Millisecond)) // else all add their seats at once, each time
					now := held.Add(int64(got))
					for was := highest.Load(); now > was && !highest.CompareAndSwap(was, now); was = highest.Load() {
					}
					granted.Add(int64(got))
					held.Add(-int64(got))
					if err := e.SetSeats(t.Context(), "ann", nil, names[:got]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		if highest.Load() > most || granted.Load() == 0 {
			t.Errorf("%d seats were held at once, %d in all", highest.Load(), granted.Load())
		}
		if left := e.Redis.ZCard(t.Context(), "{tierq}:seats:ann").Val(); left != 0 {
			t.Errorf("%d seats are left", left)
		}
	})
}

// A call whose caller has left gives no seats.
func TestSeats_Cancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := e.TakeSeats(ctx, "ann", []string{"a"}, 1, time.Minute); got != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("%d, %v", got, err)
		}
		if err := e.SetSeats(ctx, "ann", nil, []string{"a"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
