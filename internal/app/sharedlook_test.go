package app

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The store is asked once per 250 ms for any number of callers, and all of them get its answer, or its error.
func TestSharedLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asks, broken := 0, error(nil)
		s := newSharedLook(func(ctx context.Context) (int, error) {
			asks++
			select { // a store is not instant
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			return asks, broken
		})
		all := func(want int, wantErr error) {
			t.Helper()
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					if n, err := s.look(t.Context()); n != want || !errors.Is(err, wantErr) {
						t.Errorf("%d, %v; want %d, %v", n, err, want, wantErr)
					}
				})
			}
			group.Wait()
		}
		all(1, nil)
		all(1, nil)
		<-time.After(lookAge - time.Millisecond)
		all(1, nil)
		<-time.After(time.Millisecond)
		broken = context.DeadlineExceeded
		all(2, context.DeadlineExceeded)
		all(2, context.DeadlineExceeded)

		// A caller that leaves gets its own error, and the look goes on for the other callers.
		<-time.After(lookAge)
		broken = nil
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := s.look(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("who left hears %v", err)
		}
		all(3, nil)
	})
}

// Hundreds of health checks cost one command of a store per 250 ms, and /livez costs none.
func TestHealthChecksShareTheirLooks(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	a := newAging(t)
	var pings, counts atomic.Int64
	count := func(n *atomic.Int64) { n.Add(1) }
	ping, letters := a.server.sqlAlive.ask, a.server.letters.ask
	a.server.sqlAlive.ask = func(ctx context.Context) (struct{}, error) { count(&pings); return ping(ctx) }
	a.server.letters.ask = func(ctx context.Context) (int64, error) { count(&counts); return letters(ctx) }
	get := func(path string) {
		r, err := http.Get(a.base + path)
		if err != nil {
			t.Error(err)
			return
		}
		if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	for range 20 {
		get("/livez")
	}
	if pings.Load()+counts.Load() != 0 {
		t.Errorf("/livez asked a store %d times", pings.Load()+counts.Load())
	}
	began := time.Now()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				get("/readyz")
				get("/actuator/health")
			}
		})
	}
	group.Wait()
	// A call begins at least lookAge after the answer of the call before it.
	most := 1 + int64(time.Since(began)/lookAge)
	for name, n := range map[string]int64{"pings": pings.Load(), "counts of dead letters": counts.Load()} {
		if n < 1 || n > most {
			t.Errorf("400 health checks made %d %s, where %d may be", n, name, most)
		}
	}
}
