package chaos

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/queue"
)

// limitBound is how long a full Redis may take to hand over its outbox while its limit stays.
const limitBound = 60 * time.Second

// limitStays is a fault: Redis has more data than maxmemory allows and evicts nothing. The limit stays until all
// outcomes that were in the outbox after 10 s are in SQL and acknowledged, even if the faults end meanwhile. Some
// of these jobs have a callback. Outcomes that are left after limitBound are a broken promise; then the limit is
// lifted too.
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
		hold(calm, 10*time.Second) // jobs that end meanwhile are in the outbox too
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

// owed returns the jobs in the outbox.
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

// stillOwed returns how many of these jobs are still in the outbox, as text; "" = none.
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
