package ledger

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// LimitTable holds the limits of keys of lines in SQL, which decides what they are.
type LimitTable interface {
	LineLimits(ctx context.Context) ([]job.LineLimits, error)
	LimitsOf(ctx context.Context, name string) (job.LineLimits, error)
	StoreLimits(ctx context.Context, l job.LineLimits, version int64) (job.LineLimits, error)
}

// LimitKeeper holds the limits in Redis, where claims obey them.
type LimitKeeper interface {
	SetLimits(ctx context.Context, partition int, limits []job.LineLimits) error
	// OtherLimits returns which limits a partition has to be given: those that it does not have as they are wanted, and
	// no limits for keys that it should have none of.
	OtherLimits(ctx context.Context, partition int, wanted []job.LineLimits) ([]job.LineLimits, error)
}

// Lines changes the limits of keys of lines. It is safe for concurrent use.
type Lines struct {
	SQL        LimitTable
	Redis      LimitKeeper
	Partitions int
	Log        *slog.Logger

	mu     sync.Mutex
	runs   string    // the incarnations at the last Sync
	synced time.Time // when it was
}

// Limits returns the limits of a key; those of a key without limits are none.
func (l *Lines) Limits(ctx context.Context, name string) (job.LineLimits, error) {
	return within(ctx, actPatience, func(ctx context.Context) (job.LineLimits, error) { return l.SQL.LimitsOf(ctx, name) })
}

// SetLimits stores the limits of a key in place of those of a version (-1 = any, 0 = it has none), and lets its parked
// lines go if they may run now. If SQL has taken them and Redis does not answer, the claims obey them within a minute,
// and the error is job.ErrAmbiguous or job.ErrUnavailable. job.ErrChanged, job.ErrBadLimits.
func (l *Lines) SetLimits(ctx context.Context, limits job.LineLimits, version int64) (job.LineLimits, error) {
	if err := limits.Check(); err != nil {
		return limits, err
	}
	stored, err := within(ctx, actPatience, func(ctx context.Context) (job.LineLimits, error) {
		return l.SQL.StoreLimits(ctx, limits, version)
	})
	if err != nil {
		return stored, err
	}
	for _, p := range job.HomesOfLine(limits.Name, l.Partitions) {
		if err := l.Redis.SetLimits(ctx, p, []job.LineLimits{stored}); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// Sync gives Redis the limits that it lacks: after a loss of its data, and once a minute. runs are the incarnations of
// the partitions, "" for one that does not answer.
func (l *Lines) Sync(ctx context.Context, runs []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := strings.Join(runs, " ")
	if now == l.runs && time.Since(l.synced) < tidyEvery {
		return nil
	}
	// An operator may change limits after they were read in SQL, and before Redis is given them. A second look finds that
	// Redis has the old ones.
	for range 3 {
		given, err := l.give(ctx, runs)
		if err != nil {
			return err
		}
		if !given {
			break
		}
	}
	l.runs, l.synced = now, time.Now()
	return nil
}

// give gives the partitions that answer the limits that they lack, and says whether there were any.
func (l *Lines) give(ctx context.Context, runs []string) (given bool, err error) {
	all, err := within(ctx, listPatience, l.SQL.LineLimits)
	if err != nil {
		return false, err
	}
	for p, run := range runs {
		if run == "" {
			continue
		}
		wanted := slices.DeleteFunc(slices.Clone(all),
			func(one job.LineLimits) bool { return !slices.Contains(job.HomesOfLine(one.Name, l.Partitions), p) })
		n, err := within(ctx, listPatience, func(ctx context.Context) (int, error) {
			missing, err := l.Redis.OtherLimits(ctx, p, wanted)
			if err == nil && len(missing) > 0 {
				l.Log.Warn("Redis was given limits of lines that it did not have", "partition", p, "keys", len(missing))
				err = l.Redis.SetLimits(ctx, p, missing)
			}
			return len(missing), err
		})
		if err != nil {
			return false, err
		}
		given = given || n > 0
	}
	return given, nil
}
