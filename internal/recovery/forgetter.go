package recovery

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Memory is what the forgetter asks of Redis.
type Memory interface {
	// Memory reads how much memory each server uses.
	Memory(ctx context.Context) ([]job.ServerMemory, error)
	// ForgetStep makes one step of a walk over a server's jobs. It forgets those that SQL has, that ended at before (ms of
	// Redis' time) or earlier, and at least job.LeastMemory ago.
	ForgetStep(ctx context.Context, server string, cursor uint64, before int64) (job.ForgetStep, error)
}

const (
	forgetEvery = time.Second
	forgetFrom  = 80 // percent of a server's memory: a fifth is left for what comes while the forgetter works
	forgetUntil = 70
	forgetPart  = 4    // a round forgets the oldest of so many parts
	forgetRest  = 3    // looks that a server is left alone after a round that found nothing to forget
	sampleSteps = 200  // of a walk at most, to learn how old the ended jobs are
	sampleEnds  = 5000 // ends that are enough for that: Redis walks in an order that has nothing to do with age
	leastPause  = time.Millisecond
)

// Forgetter makes Redis forget ended jobs before their time to live is over, the oldest first, as soon as a server has
// used four fifths of its memory: before it refuses submits. SQL answers for what is gone. A job that lives, whose
// outcome is not in SQL, or that ended within job.LeastMemory, stays. Several processes may do it at once.
type Forgetter struct {
	*loop.Loop
	redis Memory
	log   *slog.Logger
	spare map[string]int // by server: looks for which it is left alone
	gone  int            // forgotten since the last line of the log
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
		return forgetEvery // the gate and the watches say that Redis does not answer
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

// relieve forgets part after part of a server's ended jobs, until it has memory again or nothing more may go.
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
			f.log.Warn("forgetting ended jobs failed", "err", err, "redis", m.Server)
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

// oldest is a time before which about a part of the ended jobs ended. false: none may be forgotten, as far as a look
// at some of the jobs can say.
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

// sweep forgets what ended at before or earlier, until the walk is over or the server has memory again. It returns how
// much memory the server uses then.
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

// walk walks over a server's jobs until each says that it is enough. It rests after each step as long as that took.
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

// tell logs at most once a minute how much was forgotten. lament logs that nothing can be forgotten.
func (f *Forgetter) tell(m job.ServerMemory) {
	if time.Since(f.said) >= time.Minute {
		f.log.Info("Redis is short of memory: ended jobs were forgotten early, SQL answers for them", "jobs", f.gone,
			"used", m.Used, "maxmemory", m.Max, "redis", m.Server)
		f.said, f.gone = time.Now(), 0
	}
}

func (f *Forgetter) lament(m job.ServerMemory) {
	if time.Since(f.warn) >= time.Minute {
		f.log.Warn("Redis is short of memory, and no ended job is left that may be forgotten; raise maxmemory, or "+
			"submits are refused when it is full", "used", m.Used, "maxmemory", m.Max, "redis", m.Server)
		f.warn = time.Now()
	}
}
