package pages

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// Readers are what the dashboard's snapshots are made of. Maps are by tier, and belong to the reader: nobody changes
// them. Several may be called at once.
type Readers struct {
	// Gauges is the whole as it stands, from memory: the time by Redis, gate, capacity, watches, workers, outbox, journal,
	// how many jobs end per second, and the tiers, best first, with plan, Depth, Scheduled, InFlight and OldestAgeSeconds.
	// What is not known now is an error, such as job.ErrUnavailable, and no zero.
	Gauges func() (web.Snapshot, error)
	// Counted is what all processes counted within the last window: an hour, or a minute.
	Counted func(ctx context.Context, window time.Duration) (map[job.Tier]Counted, error)
	// EndedPerMinute is how many jobs ended in each minute of the last hour, oldest first.
	EndedPerMinute func(ctx context.Context) (map[job.Tier][]int64, error)
	// Leases are at most so many running jobs, those whose heartbeat is due first. HeartbeatSeconds and MaxSeconds need
	// not be there.
	Leases func(ctx context.Context, most int) ([]web.Lease, error)
	// Dead counts the dead letters that nobody has requeued. While it fails, the last count stands, and the snapshot says
	// so.
	Dead func(ctx context.Context) (int64, error)
	// Now is the host's clock: it says how old an answer is.
	Now func() time.Time
}

// Counted is what a tier did within a window.
type Counted struct {
	SubmittedPerSecond, FinishedPerSecond          float64
	Refused, Completed, Failed, Cancelled, Retried int64

	WaitSeconds, RunSeconds web.Percentiles
}

const (
	shownLeases = 20
	keepLeases  = time.Second / 2 // whoever loads the page again and again reads them no more often
	keepRates   = 2 * time.Second
	keepHour    = 10 * time.Second
	keepDead    = 5 * time.Second
	deadBound   = time.Second / 2 // what SQL may take: the rest does not wait for it
)

// snapshots are the readers and what they said last.
type snapshots struct {
	Readers
	leases *kept[[]web.Lease]
	minute *kept[map[job.Tier]Counted]
	hour   *kept[map[job.Tier]Counted]
	sparks *kept[map[job.Tier][]int64]
	dead   *kept[letters]
}

// letters is a count of dead letters; old = SQL did not answer since.
type letters struct {
	count int64
	old   bool
}

// Snapshots makes the dashboard's snapshots, *web.Snapshot, for a Hub. An error of any reader but Dead is the
// snapshot's.
func Snapshots(r Readers) func(context.Context) (any, error) {
	s := &snapshots{
		r, keep[[]web.Lease](r.Now, keepLeases), keep[map[job.Tier]Counted](r.Now, keepRates),
		keep[map[job.Tier]Counted](r.Now, keepHour),
		keep[map[job.Tier][]int64](r.Now, keepHour), keep[letters](r.Now, keepDead),
	}
	return func(ctx context.Context) (any, error) {
		made, err := s.make(ctx)
		if err != nil {
			return nil, err // no nil of a type
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
		now.Ended += c.Completed + c.Failed + c.Cancelled
	}
	now.Slots = slots(now.Workers)
	now.Leases = running(leases, now.Tiers)
	now.Dead = dead.count
	now.Hint = hint(&now, dead.old)
	return &now, nil
}

// countDead does not fail: a count that is old is said to be.
func (s *snapshots) countDead(ctx context.Context, was letters) (letters, error) {
	bound, cancel := context.WithTimeout(ctx, deadBound)
	defer cancel()
	n, err := s.Dead(bound)
	if err != nil {
		return letters{was.count, true}, ctx.Err()
	}
	return letters{count: n}, nil
}

// counted writes a lane's counts: rates of the last minute, the others of the last hour.
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

// running are the leases with what their tiers give them, those that are due first in front.
func running(leases []web.Lease, tiers []web.Lane) []web.Lease {
	leases = slices.Clone(leases)
	slices.SortStableFunc(leases, func(a, b web.Lease) int { return a.HeartbeatBy.Compare(b.HeartbeatBy) })
	leases = leases[:min(len(leases), shownLeases)]
	for i := range leases {
		l := &leases[i]
		at := slices.IndexFunc(tiers, func(t web.Lane) bool { return t.Tier == l.Tier })
		if at < 0 || tiers[at].Plan == nil {
			continue // its tier is gone
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

// kept is an answer that is good for a while. Whoever holds its only token may read and change it.
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

// get gives the answer, and asks for it if it is too old; read is given the one before. An error is not kept.
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
