package auth

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// ChangeStore stores the log of changes.
type ChangeStore interface {
	// AddChanges stores changes. It may be repeated after an error: a change that is already stored is not added
	// again.
	AddChanges(ctx context.Context, changes []job.Change) error
	// Changes returns a page of the log, newest first, and the cursor of the next page; job.ErrBadCursor.
	Changes(ctx context.Context, cursor string, limit int) ([]job.Change, string, error)
}

// ChangesOptions has what Changes needs.
type ChangesOptions struct {
	Store ChangeStore
	Now   func() time.Time // stamps a change that has no time
	Log   *slog.Logger
}

const (
	changesHeld  = 10_000 // changes that wait at most, while the store is away
	changesBytes = 16 << 20
	changesBatch = 100 // changes in one call
	changesBound = 5 * time.Second
	changesFloor = 100 * time.Millisecond // the first wait before the store is tried again; it doubles up to changesCeil
	changesCeil  = 10 * time.Second
	changesIdle  = time.Hour // between two runs if nothing waits: Record wakes the loop
)

// Changes is the log of what operators changed: the actor, the action, the state before and after. Each change is
// written to the process's log at once, and to a row of the store as soon as the store accepts it. Until then the
// change waits in memory. At most 10,000 changes of 16 MiB together wait; beyond that the oldest are dropped. If
// the process is killed, the waiting changes are in the process's log only. Changes is safe for concurrent use.
type Changes struct {
	opts ChangesOptions
	log  *slog.Logger
	loop *loop.Loop

	mu      sync.Mutex
	waiting []job.Change
	lost    int // changes dropped since the store last accepted any
	fails   int
}

// NewChanges makes the log. It writes rows only after Start.
func NewChanges(o ChangesOptions) *Changes {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	c := &Changes{opts: o, log: o.Log}
	c.loop = loop.New(c.runOnce)
	return c
}

// Record logs a change and queues it for the store. It does not block. Texts that are longer than the store's
// columns are cut.
func (c *Changes) Record(change job.Change) {
	if change.At.IsZero() {
		change.At = c.opts.Now()
	}
	fit(&change)
	c.log.Info("changed", "action", change.Action, "target", change.Target, "outcome", change.Outcome, "actor",
		change.Actor, "name", change.Name,
		"address", change.Address, "trace_id", change.TraceID)
	c.mu.Lock()
	c.waiting = append(c.waiting, change)
	c.drop()
	c.mu.Unlock()
	c.loop.Wake()
}

// drop removes the oldest changes if too many wait. c.mu must be held.
func (c *Changes) drop() {
	over, bytes := max(len(c.waiting)-changesHeld, 0), 0
	for i := len(c.waiting) - 1; i >= over; i-- {
		if bytes += len(c.waiting[i].Before) + len(c.waiting[i].After); bytes > changesBytes {
			over = i + 1
		}
	}
	if over == 0 {
		return
	}
	c.waiting = append(c.waiting[:0:0], c.waiting[over:]...)
	if c.lost == 0 {
		c.log.Error("the log of changes loses entries: SQL takes none, and no more can wait; they are in this log", "waiting",
			len(c.waiting))
	}
	c.lost += over
}

// Changes returns a page of what the store has, newest first, and the cursor of the next page; job.ErrBadCursor.
func (c *Changes) Changes(ctx context.Context, cursor string, limit int) ([]job.Change, string, error) {
	return c.opts.Store.Changes(ctx, cursor, limit)
}

// Start begins to write rows.
func (c *Changes) Start(ctx context.Context) error { return c.loop.Start(ctx) }

// Stop writes the changes that still wait. Its error says how many of them the store did not accept.
func (c *Changes) Stop(ctx context.Context) error {
	if err := c.loop.Stop(ctx); err != nil {
		return err
	}
	for {
		more, err := c.write(ctx)
		if err != nil {
			return fmt.Errorf("%d entries of the log of changes are in the process' log only: %w", c.held(), err)
		}
		if !more {
			return nil
		}
	}
}

func (c *Changes) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// runOnce writes a batch.
func (c *Changes) runOnce(ctx context.Context) time.Duration {
	more, err := c.write(ctx)
	switch {
	case err != nil:
		if c.fails == 0 && ctx.Err() == nil {
			c.log.Warn("SQL does not take the log of changes; it waits", "err", err)
		}
		wait := min(changesFloor<<min(c.fails, 10), changesCeil)
		c.fails++
		return wait
	case more:
		return 0
	}
	c.fails = 0
	return changesIdle
}

// write stores the oldest waiting changes, and reports whether more wait.
func (c *Changes) write(ctx context.Context) (more bool, err error) {
	c.mu.Lock()
	batch := c.waiting[:min(len(c.waiting), changesBatch)]
	c.waiting = c.waiting[len(batch):]
	c.mu.Unlock()
	if len(batch) == 0 {
		return false, nil
	}
	call, cancel := context.WithTimeout(ctx, changesBound)
	defer cancel()
	err = c.opts.Store.AddChanges(call, batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.waiting = append(batch[:len(batch):len(batch)], c.waiting...)
		c.drop()
		return true, err
	}
	c.lost = 0
	return len(c.waiting) > 0, nil
}

// fit cuts the texts that are longer than the store's columns.
func fit(c *job.Change) {
	for text, runes := range map[*string]int{
		&c.Actor: 64, &c.Name: 100, &c.Address: 64, &c.Action: 64, &c.Target: 255, &c.Outcome: 16, &c.TraceID: 100,
	} {
		*text = cut(strings.ToValidUTF8(*text, "\uFFFD"), runes)
	}
	const most = 1 << 20
	for _, json := range []*[]byte{&c.Before, &c.After} {
		if len(*json) > most {
			*json = []byte(`"too long for the log"`)
		}
	}
}

func cut(text string, runes int) string {
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	return string([]rune(text)[:runes])
}
