package pages

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// Readers read what the dashboard's snapshots contain. Maps are by tier; the reader keeps them, so they must not
// be changed. Several readers may be called at once.
type Readers struct {
	// Gauges returns the present state from memory: Redis' time, gate, capacity, watches, workers, outbox, journal,
	// how many jobs end per second, and the tiers, best first, with plan, Depth, Scheduled, InFlight and
	// OldestAgeSeconds. If something is unknown, Gauges returns an error such as job.ErrUnavailable, not zeros.
	Gauges func() (web.Snapshot, error)
	// Counted returns what all processes counted within the last window: an hour, or a minute.
	Counted func(ctx context.Context, window time.Duration) (map[job.Tier]Counted, error)
	// EndedPerMinute returns how many jobs ended in each minute of the last hour, oldest first.
	EndedPerMinute func(ctx context.Context) (map[job.Tier][]int64, error)
	// Leases returns at most most running jobs: those whose heartbeat is due first. HeartbeatSeconds and MaxSeconds
	// may be missing.
	Leases func(ctx context.Context, most int) ([]web.Lease, error)
	// Dead counts the open dead letters. While it fails, the snapshot shows the last count and says that it is old.
	Dead func(ctx context.Context) (int64, error)
	// Now is the host's clock, for the age of an answer.
	Now func() time.Time
}

// Counted holds a tier's counts within a window.
type Counted struct {
	SubmittedPerSecond, FinishedPerSecond                   float64
	Refused, Completed, Failed, Cancelled, Expired, Retried int64

	WaitSeconds, RunSeconds web.Percentiles
}

const (
	shownLeases = 20
	keepLeases  = time.Second / 2 // a user who reloads the page often causes no more reads
	keepRates   = 2 * time.Second
	keepHour    = 10 * time.Second
	keepDead    = 5 * time.Second
	deadBound   = time.Second / 2 // the longest time for SQL, so that the rest does not wait for it
)

// snapshots holds the readers and their last answers.
type snapshots struct {
	Readers
	leases *kept[[]web.Lease]
	minute *kept[map[job.Tier]Counted]
	hour   *kept[map[job.Tier]Counted]
	sparks *kept[map[job.Tier][]int64]
	dead   *kept[letters]
}

// letters is a count of dead letters. old says that SQL has not answered since.
type letters struct {
	count int64
	old   bool
}

// Snapshots returns a function that makes the dashboard's snapshots, *web.Snapshot, for a Hub. It returns the
// error of any reader except Dead.
func Snapshots(r Readers) func(context.Context) (any, error) {
	s := &snapshots{
		r, keep[[]web.Lease](r.Now, keepLeases), keep[map[job.Tier]Counted](r.Now, keepRates),
		keep[map[job.Tier]Counted](r.Now, keepHour),
		keep[map[job.Tier][]int64](r.Now, keepHour), keep[letters](r.Now, keepDead),
	}
	return func(ctx context.Context) (any, error) {
		made, err := s.make(ctx)
		if err != nil {
			return nil, err // an untyped nil
		}
		return made, nil
	}
}

func (s *snapshots) make(ctx context.Context) (*web.Snapshot, error) {
	now, err := s.Gauges()
	if err != nil {
		return nil, fmt.Errorf("gauges: %w", err)
	}
	minute, err := s.minute.get(ctx, func(ctx context.Context, _ map[job.Tier]Counted) (map[job.Tier]Counted, error) {
		return s.Counted(ctx, time.Minute)
	})
	if err != nil {
		return nil, fmt.Errorf("counts of the last minute: %w", err)
	}
	hour, err := s.hour.get(ctx, func(ctx context.Context, _ map[job.Tier]Counted) (map[job.Tier]Counted, error) {
		return s.Counted(ctx, time.Hour)
	})
	if err != nil {
		return nil, fmt.Errorf("counts of the last hour: %w", err)
	}
	sparks, err := s.sparks.get(ctx, func(ctx context.Context, _ map[job.Tier][]int64) (map[job.Tier][]int64, error) {
		return s.EndedPerMinute(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("series: %w", err)
	}
	leases, err := s.leases.get(ctx,
		func(ctx context.Context, _ []web.Lease) ([]web.Lease, error) { return s.Leases(ctx, shownLeases) })
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	dead, err := s.dead.get(ctx, s.countDead)
	if err != nil {
		return nil, err
	}
	now.Tiers = slices.Clone(now.Tiers)
	now.InFlight, now.Ended = 0, 0
	for i := range now.Tiers {
		l := &now.Tiers[i]
		counted(l, minute[job.Tier(l.Tier)], hour[job.Tier(l.Tier)])
		l.Spark = sparks[job.Tier(l.Tier)]
		now.InFlight += l.InFlight
	}
	for _, c := range hour {
		now.Ended += c.Completed + c.Failed + c.Cancelled + c.Expired
	}
	now.Slots = slots(now.Workers)
	now.Leases = running(leases, now.Tiers)
	now.Dead = dead.count
	now.Hint = hint(&now, dead.old)
	return &now, nil
}

// countDead does not fail if SQL does: it returns the last count, marked as old.
func (s *snapshots) countDead(ctx context.Context, was letters) (letters, error) {
	bound, cancel := context.WithTimeout(ctx, deadBound)
	defer cancel()
	n, err := s.Dead(bound)
	if err != nil {
		return letters{was.count, true}, ctx.Err()
	}
	return letters{count: n}, nil
}

// counted sets a lane's counts: the rates are of the last minute, the others of the last hour.
func counted(l *web.Lane, minute, hour Counted) {
	l.SubmittedPerSecond, l.FinishedPerSecond = minute.SubmittedPerSecond, minute.FinishedPerSecond
	l.WaitSeconds, l.RunSeconds = hour.WaitSeconds, hour.RunSeconds
	l.Refused, l.Completed, l.Failed, l.Retried = hour.Refused, hour.Completed, hour.Failed, hour.Retried
}

func slots(workers []web.Worker) (s web.Slots) {
	for _, w := range workers {
		s.Running += w.Running
		s.Total += w.Slots
	}
	return s
}

// running returns the leases, those that are due first in front, with the times of their tiers' plans.
func running(leases []web.Lease, tiers []web.Lane) []web.Lease {
	leases = slices.Clone(leases)
	slices.SortStableFunc(leases, func(a, b web.Lease) int { return a.HeartbeatBy.Compare(b.HeartbeatBy) })
	leases = leases[:min(len(leases), shownLeases)]
	for i := range leases {
		l := &leases[i]
		at := slices.IndexFunc(tiers, func(t web.Lane) bool { return t.Tier == l.Tier })
		if at < 0 || tiers[at].Plan == nil {
			continue // the tier was removed
		}
		if l.HeartbeatSeconds == 0 {
			l.HeartbeatSeconds = tiers[at].Plan.HeartbeatTimeout.Seconds()
		}
		if l.MaxSeconds == 0 {
			l.MaxSeconds = tiers[at].Plan.MaxProcessingTime.Seconds()
		}
	}
	return leases
}

// kept is an answer that is reused for a while. The holder of its only token may read and change it.
type kept[T any] struct {
	token chan struct{}
	now   func() time.Time
	long  time.Duration
	value T
	at    time.Time
	known bool
}

func keep[T any](now func() time.Time, long time.Duration) *kept[T] {
	return &kept[T]{token: make(chan struct{}, 1), now: now, long: long}
}

// get returns the answer, and calls read if it is too old; read gets the previous answer. An error is not stored.
func (k *kept[T]) get(ctx context.Context, read func(ctx context.Context, was T) (T, error)) (value T, err error) {
	select {
	case k.token <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-k.token }()
	now := k.now()
	if age := now.Sub(k.at); k.known && age >= 0 && age < k.long {
		return k.value, nil
	}
	value, err = read(ctx, k.value)
	if err == nil {
		k.value, k.at, k.known = value, now, true
	}
	return value, err
}
