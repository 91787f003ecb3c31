package leasing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Seats counts the leases of API keys that may hold only so many at once, over all processes.
type Seats interface {
	// TakeSeats takes seats with these names for a key that has most seats, and returns how many it got, the first ones.
	TakeSeats(ctx context.Context, keyID string, names []string, most int, lasts time.Duration) (int, error)
	// SetSeats makes a key hold some seats, whether or not it held them, and gives up others.
	SetSeats(ctx context.Context, keyID string, held []job.Seat, left []string) error
}

// claimSeat is how long a claim under way holds the seats for what it may get: longer than its calls take.
const claimSeat = time.Minute

// seatOf returns the name of a lease's seat.
func seatOf(l job.LeaseRef) string { return fmt.Sprintf("%s/%d", l.ID, l.Attempt) }

// seated claims jobs for a key as take does, and no more than the key has seats for. The error is a *job.RateError if
// it has none. A repeat of a claim gets the jobs of the first answer in any case: they have their seats.
func (r *Room) seated(partition int, e *job.Elsewhere, c *job.WorkerClaim, high float64) ([]job.WorkerLease, error) {
	most := r.Most(c.Key)
	if most == 0 {
		return r.take(partition, e, c.Max, high)
	}
	names := make([]string, c.Max)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", e.Delivery, i)
	}
	got, err := r.takeSeats(c.Key, names, most)
	if err != nil {
		return nil, err
	}
	if got == 0 {
		high = math.Inf(-1) // below every job: only a repeat gets any
	}
	leases, err := r.take(partition, e, max(got, 1), high)
	held := make([]job.Seat, len(leases))
	for i := range leases {
		held[i] = job.Seat{Name: seatOf(leases[i].Ref()), Lasts: leases[i].For}
	}
	if seatsErr := r.setSeats(c.Key, held, names[:got]); err == nil && seatsErr != nil {
		r.GiveBack(leases)
		return nil, seatsErr
	}
	if err == nil && got == 0 && len(leases) == 0 {
		return nil, &job.RateError{In: time.Second}
	}
	return leases, err
}

// The tries to take seats, and the longest pause between two of them.
const (
	seatTries = 4
	seatPause = 40 * time.Millisecond
)

// takeSeats takes seats of a key, and returns how many it got. A key whose claims all take seats at one moment looks
// full: takeSeats tries again then.
func (r *Room) takeSeats(key string, names []string, most int) (got int, err error) {
	for try := 1; ; try++ {
		err = r.again(func(ctx context.Context) (err error) {
			got, err = r.Seats.TakeSeats(ctx, key, names, most, claimSeat)
			if errors.Is(err, job.ErrNoMemory) { // the jobs that run are what makes memory free
				got, err = len(names), nil
			}
			return err
		})
		if err != nil || got > 0 || try == seatTries {
			return got, err
		}
		select {
		case <-time.After(rand.N(seatPause)):
		case <-r.io.Done():
			return 0, job.ErrUnavailable
		}
	}
}

// setSeats sets seats, if the key has a bound. A store without memory refuses them, and is right to.
func (r *Room) setSeats(key string, held []job.Seat, left []string) error {
	if len(held)+len(left) == 0 || r.Most(key) == 0 {
		return nil
	}
	err := r.again(func(ctx context.Context) error { return r.Seats.SetSeats(ctx, key, held, left) })
	if errors.Is(err, job.ErrNoMemory) {
		return nil
	}
	return err
}

// keepSeats makes the seats of leases last as long as their heartbeats let the leases live. It gives up none: where a
// lease is lost, another answer to its claim may have the same job and seat.
func (r *Room) keepSeats(key string, leases []job.LeaseRef, answers []job.WorkerPulse) error {
	var held []job.Seat
	for i, l := range leases {
		if answers[i].Word != job.Lost {
			held = append(held, job.Seat{Name: seatOf(l), Lasts: answers[i].For})
		}
	}
	return r.setSeats(key, held, nil)
}

// leaveSeats gives up the seats of leases that have ended. If that fails, they are free when the leases would have been
// lost.
func (r *Room) leaveSeats(key string, left []string) {
	if err := r.setSeats(key, nil, left); err != nil {
		r.Log.Debug("the seats of ended leases were not given up", "key_id", key, "seats", len(left), "err", err)
	}
}

// leaveSeat gives up the seat of a lease once its release has been answered, if the lease was held until then.
func (r *Room) leaveSeat(key string, released *ending) {
	<-released.done
	if released.err == nil && released.reply.Word != job.Lost {
		r.leaveSeats(key, []string{seatOf(released.ref)})
	}
}
