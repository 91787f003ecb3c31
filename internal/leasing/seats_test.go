package leasing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// seatsOf returns how many seats a key holds.
func (w *world) seatsOf(t *testing.T, key string) int {
	t.Helper()
	n, err := w.Redis.ZCard(t.Context(), "{tierq}:seats:"+key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// wantFull makes a claim that must be refused because its key holds as many leases as it may.
func (w *world) wantFull(t *testing.T, c job.WorkerClaim) {
	t.Helper()
	var rate *job.RateError
	leases, err := w.Room.Claim(t.Context(), c)
	if !errors.As(err, &rate) || rate.In != time.Second || leases != nil {
		t.Errorf("%s: claimed %q, %v", c.ID, idsOf(leases), err)
	}
}

// The leases of a key are bounded over all its workers, and over all rooms: a claim gets as many as are left, and is
// refused when none is. Every way in which a lease ends makes a seat free. Other keys are not bound.
func TestSeats(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, partitions, func(t *testing.T, w *world) {
				w.most = map[string]int{"key": 3}
				other := newWorld(t, w.Env) // another process
				other.most = w.most
				w.into(t, 0, "films", job.Paid, 12)
				ofOther := claim("c1", 2, 0, "films")
				ofOther.Worker = "w2"
				first := w.claims(t, claim("c1", 2, 0, "films"))
				second := other.claims(t, ofOther)
				if len(first) != 2 || len(second) != 1 || w.seatsOf(t, "key") != 3 {
					t.Fatalf("%d and %d leases, %d seats", len(first), len(second), w.seatsOf(t, "key"))
				}
				w.wantFull(t, claim("c2", 2, 0, "films"))
				other.wantFull(t, claim("c3", 2, time.Minute, "films")) // it does not wait
				if w.seatsOf(t, "key") != 3 {
					t.Errorf("after two refusals %d seats", w.seatsOf(t, "key"))
				}
				free := claim("c1", 4, 0, "films")
				free.Key = "free"
				if got := w.claims(t, free); len(got) != 4 || w.seatsOf(t, "free") != 0 {
					t.Errorf("a key without a bound has %d leases, %d seats", len(got), w.seatsOf(t, "free"))
				}

				ends := other.End(t.Context(), "key", []job.WorkerReport{
					done(first[0].Sealed),
					{Sealed: first[1].Sealed, Report: job.Report{Kind: job.DidFail, Error: "no", RetryAfter: time.Hour}},
				})
				if ends[0].Err != nil || ends[1].Err != nil || w.seatsOf(t, "key") != 1 {
					t.Errorf("%+v, %d seats", ends, w.seatsOf(t, "key"))
				}
				third := w.claims(t, claim("c4", 5, 0, "films"))
				if len(third) != 2 {
					t.Fatalf("then %d leases", len(third))
				}
				w.End(t.Context(), "key",
					[]job.WorkerReport{{Sealed: third[0].Sealed, Report: job.Report{Kind: job.GaveBack}}})
				w.GiveBack(third[1:2])
				testkit.Eventually(t, 10*time.Second, "seats of leases that were given back are free", func() (bool, string) {
					n := w.seatsOf(t, "key")
					return n == 1, fmt.Sprint(n)
				})
				if got := w.claims(t, claim("c5", 5, 0, "films")); len(got) != 2 {
					t.Errorf("at last %d leases", len(got))
				}
			})
		})
	}
}

// A claim that finds no job holds no seat while it waits.
func TestSeats_WaitingHoldsNone(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.most = map[string]int{"key": 2}
		got := make(chan int, 2)
		for i := range 2 {
			go func() {
				leases, err := w.Room.Claim(context.WithoutCancel(t.Context()), claim(fmt.Sprint("c", i), 2, time.Minute, "films"))
				if err != nil {
					t.Error(err)
				}
				got <- len(leases)
			}()
			testkit.Eventually(t, 10*time.Second, "the claim waits without seats", func() (bool, string) {
				n := w.seatsOf(t, "key")
				return w.looks.count(fmt.Sprint("c", i)) > 0 && n == 0, fmt.Sprint(n)
			})
		}
		w.into(t, 0, "films", job.Paid, 1)
		one := <-got
		w.into(t, 0, "films", job.Paid, 1)
		if other := <-got; one != 1 || other != 1 || w.seatsOf(t, "key") != 2 {
			t.Errorf("%d and %d leases, %d seats", one, other, w.seatsOf(t, "key"))
		}
	})
}

// A claim that is sent again after its answer was lost gets the jobs of that answer, although they take all seats.
func TestSeats_RepeatedClaim(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		eachWorld(t, partitions, func(t *testing.T, w *world) {
			w.most = map[string]int{"key": 2}
			w.into(t, 0, "films", job.Paid, 3)
			first := w.claims(t, claim("c1", 5, 0, "films"))
			again := w.claims(t, claim("c1", 5, 0, "films"))
			if len(first) != 2 || !slices.Equal(idsOf(first), idsOf(again)) || w.seatsOf(t, "key") != 2 {
				t.Errorf("first %q, again %q, %d seats", idsOf(first), idsOf(again), w.seatsOf(t, "key"))
			}
			// The first answer's leases are not held any more: nobody who shows them frees a seat.
			released := job.WorkerReport{Sealed: first[1].Sealed, Report: job.Report{Kind: job.GaveBack}}
			if e := w.End(t.Context(), "key", []job.WorkerReport{released})[0]; !errors.Is(e.Err, job.ErrLeaseLost) {
				t.Errorf("an earlier answer's lease: %+v", e)
			}
			beats := []job.WorkerBeat{{Sealed: first[0].Sealed}}
			if pulses, err := w.Heartbeat(t.Context(), "key", beats); err != nil || pulses[0].Word != job.Lost {
				t.Errorf("an earlier answer's lease: %+v, %v", pulses, err)
			}
			left := &ending{ref: first[0].Ref(), done: make(chan struct{}), reply: job.EndReply{Word: job.Lost}}
			close(left.done)
			w.leaveSeat("key", left)
			w.wantFull(t, claim("c2", 1, 0, "films"))
			w.GiveBack(again[0:1])
			testkit.Eventually(t, 10*time.Second, "the seat is free", func() (bool, string) {
				n := w.seatsOf(t, "key")
				return n == 1, fmt.Sprint(n)
			})
		})
	}
}

// A heartbeat keeps a lease's seat, and sets it again if Redis has lost it; one after the job's end does not. The seat of a silent worker is free when its lease is over.
func TestSeats_Heartbeats(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		w.most = map[string]int{"key": 2}
		w.into(t, 0, "films", job.Paid, 4)
		leases := w.claims(t, claim("c1", 2, 0, "films"))
		w.Redis.Del(t.Context(), "{tierq}:seats:key")
		beats := []job.WorkerBeat{{Sealed: leases[0].Sealed, Extend: time.Hour}, {Sealed: leases[1].Sealed}}
		if _, err := w.Heartbeat(t.Context(), "key", beats); err != nil {
			t.Fatal(err)
		}
		w.wantFull(t, claim("c2", 1, 0, "films"))
		seats := w.Redis.ZRangeWithScores(t.Context(), "{tierq}:seats:key", 0, -1).Val()
		apart := seats[len(seats)-1].Score - seats[0].Score
		if len(seats) != 2 || apart < float64((58*time.Minute).Milliseconds()) {
			t.Errorf("%+v, %f ms apart", seats, apart)
		}

		if e := w.End(t.Context(), "key", []job.WorkerReport{done(leases[0].Sealed)})[0]; e.Err != nil {
			t.Fatal(e.Err)
		}
		if pulses, err := w.Heartbeat(t.Context(), "key", beats[:1]); err != nil || pulses[0].Word != job.Lost ||
			w.seatsOf(t, "key") != 1 {
			t.Errorf("%+v, %v, %d seats", pulses, err, w.seatsOf(t, "key"))
		}
		silent := []job.Seat{{Name: seatOf(leases[1].Ref()), Lasts: -time.Second}}
		if err := w.SetSeats(t.Context(), "key", silent, nil); err != nil {
			t.Fatal(err)
		}
		if got := w.claims(t, claim("c3", 5, 0, "films")); len(got) != 2 {
			t.Errorf("with one silent worker %d leases", len(got))
		}
	})
}

// noSeats fails with errors of the store.
type noSeats struct{ take, set error }

func (s noSeats) TakeSeats(_ context.Context, _ string, names []string, _ int, _ time.Duration) (int, error) {
	return len(names), s.take
}

func (s noSeats) SetSeats(context.Context, string, []job.Seat, []string) error { return s.set }

// A full store counts no leases and still lets jobs run. With every other error of the store no job is handed out, and
// those that were claimed go back.
func TestSeats_Errors(t *testing.T) {
	t.Parallel()
	broken := errors.New("refused")
	full := fmt.Errorf("%w: %w", job.ErrUnavailable, job.ErrNoMemory)
	for name, c := range map[string]struct {
		seats  noSeats
		claims bool
	}{
		"full":        {noSeats{full, full}, true},
		"not taken":   {noSeats{broken, nil}, false},
		"not settled": {noSeats{nil, broken}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, 1, func(t *testing.T, w *world) {
				w.most = map[string]int{"key": 2}
				w.Seats = c.seats
				w.into(t, 0, "films", job.Paid, 1)
				leases, err := w.Room.Claim(t.Context(), claim("c1", 5, 0, "films"))
				if c.claims {
					if err != nil || len(leases) != 1 {
						t.Errorf("%d leases, %v", len(leases), err)
					}
					return
				}
				if !errors.Is(err, broken) || leases != nil {
					t.Errorf("%d leases, %v", len(leases), err)
				}
				free := claim("c2", 5, 10*time.Second, "films")
				free.Key = "free"
				if got := w.claims(t, free); len(got) != 1 {
					t.Errorf("the job did not go back: %d leases", len(got))
				}
			})
		})
	}
}
