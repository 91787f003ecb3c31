package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// LivePauses are the pauses in Redis. Every process reads them into its PauseBook once a second.
type LivePauses interface {
	// LoadQueues reads the pauses into the PauseBook, as it reads the queues.
	LoadQueues(ctx context.Context) error
	// Pause puts a pause in force, and returns it with the version of the pauses that has it.
	Pause(ctx context.Context, p job.Pause) (job.Pause, int64, error)
	// Resume ends a pause, and says whether there was one.
	Resume(ctx context.Context, scope string) (job.Pause, bool, error)
}

// PauseTable holds the pauses in SQL, which outlive Redis.
type PauseTable interface {
	// KeepPauses stores a version of the pauses, unless SQL has a later one.
	KeepPauses(ctx context.Context, p job.Pauses) error
}

// PausesOptions are the parts of Pauses. All are required.
type PausesOptions struct {
	Redis  LivePauses
	SQL    PauseTable
	Book   *job.PauseBook // into which Redis loads the pauses
	Queues QueueBook
	Plans  *job.PlanBook
	Strict func() bool // whether tiers do not overlap
	Log    *slog.Logger
}

// Pauses pauses and resumes. Redis decides what is paused. SQL has a copy, a moment later, for a Redis that loses its
// data. It is safe for concurrent use.
type Pauses struct {
	PausesOptions

	mu     sync.Mutex
	inSQL  int64     // the version as last written
	next   time.Time // SQL is not asked before this time
	failed bool
}

// NewPauses makes a Pauses.
func NewPauses(o PausesOptions) *Pauses { return &Pauses{PausesOptions: o} }

// Pause pauses what p.Scope names: all, tier:NAME, queue:NAME or type:NAME, which is the queue that takes only jobs of
// the type. It returns the pause in force. job.ErrBadScope, job.ErrUnknownTier, job.ErrUnknownQueue.
func (p *Pauses) Pause(ctx context.Context, asked job.Pause) (job.Pause, error) {
	scope, err := p.scope(asked.Scope)
	if err != nil {
		return asked, err
	}
	asked.Scope = scope
	set, err := twice(ctx, actPatience, func(ctx context.Context) (job.Pause, error) {
		set, _, err := p.Redis.Pause(ctx, asked)
		return set, err
	})
	if err == nil {
		p.changed(ctx)
	}
	return set, err
}

// Resume ends the pause of what scope names, as Pause has it, and returns the pause that it ended; on is false if there
// was none.
func (p *Pauses) Resume(ctx context.Context, scope string) (was job.Pause, on bool, err error) {
	if _, on := p.Book.Find(scope); !on { // what is paused can be resumed, even if a plan has changed since
		if scope, err = p.scope(scope); err != nil {
			return was, false, err
		}
	}
	before, known := p.Book.Find(scope)
	on, err = twice(ctx, actPatience, func(ctx context.Context) (on bool, err error) {
		was, on, err = p.Redis.Resume(ctx, scope)
		return on, err
	})
	if err == nil {
		p.changed(ctx)
	}
	if known && !on { // the first of two calls has ended it
		return before, true, err
	}
	return was, on, err
}

// scope returns the scope that a user names.
func (p *Pauses) scope(named string) (string, error) {
	kind, name, _ := strings.Cut(named, ":")
	switch {
	case named == job.PauseAll:
		return named, nil
	case kind == "tier":
		return p.tierScope(job.Tier(strings.ToUpper(name)))
	case kind == "queue":
		if _, known := p.Queues.Find(name); !known {
			return "", job.ErrUnknownQueue
		}
		return job.PauseQueue(name), nil
	case kind == "type":
		for _, q := range p.Queues.All() {
			if len(q.Types) == 1 && q.Types[0] == name {
				return job.PauseQueue(q.Name), nil
			}
		}
		return "", fmt.Errorf("%w: no queue takes only jobs of the type %s; a type without a queue of its own cannot be "+
			"paused", job.ErrBadScope, name)
	}
	return "", fmt.Errorf("%w: a scope is all, tier:NAME, queue:NAME or type:NAME", job.ErrBadScope)
}

func (p *Pauses) tierScope(tier job.Tier) (string, error) {
	plan, known := p.Plans.Plan(tier)
	switch {
	case !known:
		return "", job.ErrUnknownTier
	case !p.Strict():
		return "", fmt.Errorf("%w: this server's tiers overlap (TIERQ_PRIORITY_BASE)", job.ErrBadScope)
	}
	for _, other := range p.Plans.All() {
		if other.Priority == plan.Priority && other.Tier != tier {
			return "", fmt.Errorf("%w: %s has the priority of %s, whose jobs stand among its own", job.ErrBadScope, tier,
				other.Tier)
		}
	}
	return job.PauseTier(tier), nil
}

// changed loads a change into this process' PauseBook, and copies it to SQL. Other processes load it at their next
// LoadQueues.
func (p *Pauses) changed(ctx context.Context) {
	if err := p.Redis.LoadQueues(ctx); err != nil {
		p.Log.Warn("a changed pause is stored; this process knows it a moment later", "err", err)
		return
	}
	_ = p.Remember(ctx) // it logs its own error, and is called again each second
}

// Remember copies the pauses to SQL. While nothing changes it asks neither store. It logs the error that it returns.
func (p *Pauses) Remember(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Book.All()
	if now.Version <= p.inSQL || time.Now().Before(p.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	err := p.SQL.KeepPauses(ctx, now)
	if err == nil {
		p.inSQL = now.Version
	} else {
		p.next = time.Now().Add(rememberRest)
		if !p.failed && ctx.Err() == nil {
			p.Log.Warn("SQL does not have the pauses as Redis has them; trying again", "err", err, "next_in", rememberRest)
		}
	}
	p.failed = err != nil
	return err
}
