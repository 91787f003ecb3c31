package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// LiveLogs are the lines of jobs that Redis has: those of the present generation, until SQL has them.
type LiveLogs interface {
	LogLines(ctx context.Context, id job.ID, after int64) ([]job.LogLine, error)
}

// KeptLogs are the lines of ended generations, in SQL.
type KeptLogs interface {
	Logs(ctx context.Context, id job.ID) ([]job.LogLine, error)
}

// Logs returns the lines of a job's log behind a line, over all generations, the oldest first; after 0 = from the
// beginning. It returns all of them or an error, because a store that is down may have some. A job that does not exist
// has none.
func (l *Ledger) Logs(ctx context.Context, id job.ID, after int64) ([]job.LogLine, error) {
	// Redis is read first: what it deletes at the acknowledge is in SQL by then.
	recent, liveErr := within(ctx, livePatience,
		func(ctx context.Context) ([]job.LogLine, error) { return l.LiveLogs.LogLines(ctx, id, after) })
	if liveErr == nil && follows(recent, after) {
		return recent, nil
	}
	kept, sqlErr := within(ctx, actPatience,
		func(ctx context.Context) ([]job.LogLine, error) { return l.KeptLogs.Logs(ctx, id) })
	switch {
	case liveErr == nil && sqlErr == nil:
		return lineUnion(kept, recent, after), nil
	case sqlErr == nil && job.Outage(liveErr):
		// The log of an ended job is in SQL with its outcome.
		if _, err := l.final(ctx, id, liveErr); err == nil {
			return lineUnion(kept, nil, after), nil
		}
	case liveErr == nil && job.Outage(sqlErr):
		// A job in its first generation that is not yet in SQL has all its lines in Redis.
		if j, err := l.live(ctx, id); err == nil && j.Generation == 1 && (!j.Status.Ended() || j.Status == job.NeedDiscard) {
			return recent, nil
		}
	}
	return nil, fmt.Errorf("logs: %w", errors.Join(liveErr, sqlErr))
}

// follows says whether the lines of Redis are all there is behind a line: that line, or one of the same attempt, is the
// last one before them.
func follows(recent []job.LogLine, after int64) bool {
	return after > 0 && len(recent) > 0 && recent[0].Attempt == int(after/(job.MaxLogNumber+1))
}

// lineUnion merges both lists by their places in the log, without duplicates.
func lineUnion(a, b []job.LogLine, after int64) []job.LogLine {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y job.LogLine) int { return cmp.Compare(x.Seq(), y.Seq()) })
	all = slices.CompactFunc(all, func(x, y job.LogLine) bool { return x.Seq() == y.Seq() })
	return slices.DeleteFunc(all, func(l job.LogLine) bool { return l.Seq() <= after })
}
