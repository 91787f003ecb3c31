package recovery

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Memory has the calls to Redis that the forgetter needs.
type Memory interface {
	// Memory reads how much memory each server uses.
	Memory(ctx context.Context) ([]job.ServerMemory, error)
	// ForgetStep makes one step of a walk over a server's jobs. It removes jobs that SQL has, that ended at before
	// (ms of Redis' time) or earlier, and at least job.LeastMemory ago.
	ForgetStep(ctx context.Context, server string, cursor uint64, before int64) (job.ForgetStep, error)
}

const (
	forgetEvery = time.Second
	forgetFrom  = 80 // percent of a server's memory; a fifth is left for new jobs while the forgetter works
	forgetUntil = 70
	forgetPart  = 4    // a round removes the oldest of so many parts
	forgetRest  = 3    // checks for which a server is skipped after a round without a job to remove
	sampleSteps = 200  // steps of the walk that samples the ends of jobs
	sampleEnds  = 5000 // ends that are enough for the sample: Redis' order of keys is independent of age
	leastPause  = time.Millisecond
)

// Forgetter removes ended jobs from Redis before their time to live is over, the oldest first, as soon as a server
// uses more than 80 % of its memory, before the server refuses submits. SQL answers for removed jobs. Jobs stay
// that live, whose outcomes are not in SQL, or that ended within job.LeastMemory. Several processes may run it at
// once.
type Forgetter struct {
	*loop.Loop
	redis Memory
	log   *slog.Logger
	spare map[string]int // by server: for how many checks it is skipped
	gone  int            // removed since the last line of the log
	said  time.Time
	warn  time.Time
}

// NewForgetter makes a forgetter.
func NewForgetter(redis Memory, log *slog.Logger) *Forgetter {
	f := &Forgetter{redis: redis, log: log, spare: map[string]int{}}
	f.Loop = loop.New(f.runOnce)
	return f
}

func (f *Forgetter) runOnce(ctx context.Context) time.Duration {
	servers, err := f.memory(ctx)
	if err != nil {
		return forgetEvery // the gate and the watches report that Redis does not answer
	}
	for _, m := range servers {
		if f.spare[m.Server] > 0 {
			f.spare[m.Server]--
		} else if m.Over(forgetFrom) {
			f.relieve(ctx, m)
		}
	}
	return forgetEvery
}

// relieve removes part after part of a server's ended jobs, until enough memory is free or no job may be removed.
func (f *Forgetter) relieve(ctx context.Context, m job.ServerMemory) {
	for m.Over(forgetUntil) {
		before, found, err := f.oldest(ctx, m.Server)
		gone := 0
		if err == nil && found {
			gone, m, err = f.sweep(ctx, m, before)
		}
		f.gone += gone
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			f.log.Warn("deleting ended jobs from Redis failed", "err", err, "redis", m.Server)
			return
		case !found:
			f.spare[m.Server] = forgetRest
			f.lament(m)
			return
		case gone == 0: // another process was quicker
			return
		}
		f.tell(m)
	}
}

// oldest returns a time before which about one part in forgetPart of the ended jobs ended. found is false if the
// sample has no job that may be removed.
func (f *Forgetter) oldest(ctx context.Context, server string) (before int64, found bool, err error) {
	var ends []int64
	err = f.walk(ctx, server, 0, func(steps int, s job.ForgetStep) bool {
		ends = append(ends, s.Stayed...)
		return steps < sampleSteps && len(ends) < sampleEnds
	})
	if err != nil || len(ends) == 0 {
		return 0, false, err
	}
	slices.Sort(ends)
	return ends[(len(ends)-1)/forgetPart], true, nil
}

// sweep removes jobs that ended at before or earlier, until the walk is over or enough memory is free. It returns
// the server's memory use afterwards.
func (f *Forgetter) sweep(
	ctx context.Context, m job.ServerMemory, before int64,
) (gone int, now job.ServerMemory, err error) {
	now = m
	look := func() {
		servers, unread := f.memory(ctx)
		at := slices.IndexFunc(servers, func(s job.ServerMemory) bool { return s.Server == m.Server })
		if unread == nil && at >= 0 {
			now = servers[at]
		}
	}
	err = f.walk(ctx, m.Server, before, func(steps int, s job.ForgetStep) bool {
		if gone += s.Gone; steps%10 == 0 {
			look()
		}
		return now.Over(forgetUntil)
	})
	look()
	return gone, now, err
}

// walk makes the steps of a walk over a server's jobs until each returns false. After each step it rests for as
// long as the step took.
func (f *Forgetter) walk(
	ctx context.Context, server string, before int64, each func(steps int, s job.ForgetStep) (more bool),
) error {
	cursor := uint64(0)
	for steps := 1; ; steps++ {
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		s, err := f.redis.ForgetStep(call, server, cursor, before)
		cancel()
		if err != nil {
			return err
		}
		if !each(steps, s) || s.Next == 0 {
			return nil
		}
		if err := restAtLeast(ctx, began, leastPause); err != nil {
			return err
		}
		cursor = s.Next
	}
}

func (f *Forgetter) memory(ctx context.Context) ([]job.ServerMemory, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f.redis.Memory(call)
}

// tell logs how many jobs were removed, at most once a minute. lament logs that no job may be removed.
func (f *Forgetter) tell(m job.ServerMemory) {
	if time.Since(f.said) >= time.Minute {
		f.log.Info("Redis is short of memory: ended jobs were deleted from Redis early; SQL still has them", "jobs", f.gone,
			"used", m.Used, "maxmemory", m.Max, "redis", m.Server)
		f.said, f.gone = time.Now(), 0
	}
}

func (f *Forgetter) lament(m job.ServerMemory) {
	if time.Since(f.warn) >= time.Minute {
		f.log.Warn("Redis is short of memory, and all ended jobs that may be deleted are deleted; raise maxmemory, or "+
			"submits are refused when it is full", "used", m.Used, "maxmemory", m.Max, "redis", m.Server)
		f.warn = time.Now()
	}
}
