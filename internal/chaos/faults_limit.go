package chaos

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/queue"
)

// limitBound is by when a full Redis has given away what it owes, while its limit stays.
const limitBound = 60 * time.Second

// limitStays: Redis has more than its limit allows and evicts nothing, until all that had ended before is in SQL and
// acknowledged, also when the faults are over meanwhile. Jobs with a callback are among it. What is left after the
// bound is a broken promise; only then the limit is lifted.
func limitStays(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	return w.redisErrors(ctx, "OOM", func() error {
		used, err := w.info(calm, "memory", "used_memory")
		if err != nil {
			return err
		}
		l := check.Limit{From: time.Now(), Bound: limitBound}
		if err := w.rdb.ConfigSet(calm, "maxmemory", strconv.Itoa(used/2)).Err(); err != nil {
			return fmt.Errorf("set maxmemory: %w", err)
		}
		hold(calm, 10*time.Second) // what ends meanwhile is owed too
		owed, err := w.owed(calm)
		l.Left = "an outbox that was not looked at"
		for l.Left != "" && time.Since(l.From) < limitBound && hold(calm, 100*time.Millisecond) {
			if err != nil {
				owed, err = w.owed(calm)
				continue
			}
			l.Left = w.stillOwed(calm, owed)
		}
		l.To = time.Now()
		w.say("F22  a limit stayed for %s; of %d outcomes then in the outbox, left: %q",
			l.To.Sub(l.From).Round(time.Millisecond), len(owed), l.Left)
		if err := w.rdb.ConfigSet(calm, "maxmemory", "0").Err(); err != nil {
			return fmt.Errorf("set maxmemory: %w", err)
		}
		w.notes.Lock()
		defer w.notes.Unlock()
		w.beside.Limits = append(w.beside.Limits, l)
		return nil
	})
}

// owed are the jobs in the outbox.
func (w *wound) owed(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for p := range w.Partitions {
		ids, err := w.rdb.ZRange(ctx, queue.Key(p, "outbox"), 0, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("look at the outbox: %w", err)
		}
		for _, id := range ids {
			all[id] = true
		}
	}
	return all, nil
}

// stillOwed says how many of these jobs the outbox has still; "" = none.
func (w *wound) stillOwed(ctx context.Context, before map[string]bool) string {
	now, err := w.owed(ctx)
	if err != nil {
		return err.Error()
	}
	n := 0
	for id := range before {
		if now[id] {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d outcomes in the outbox", n, len(before))
}
