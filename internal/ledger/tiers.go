package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// LivePlans are the plans in Redis. Every process serves these, and reads them into its PlanBook once a second.
type LivePlans interface {
	// LoadPlans reads the plans into the PlanBook. Before that it restores in Redis the plans that Redis lost.
	LoadPlans(ctx context.Context) error
	// DoubtPlans makes the next LoadPlans read SQL too.
	DoubtPlans()
	// StorePlan stores a plan with the version after seen, and returns it with that version. It returns
	// job.ErrChanged if Redis has another version than seen.
	StorePlan(ctx context.Context, p job.Plan, seen int64) (job.Plan, error)
}

// PlanTable holds the plans in SQL, which outlive Redis.
type PlanTable interface {
	// Plans reads all plans.
	Plans(ctx context.Context) ([]job.Plan, error)
	// ReplacePlan stores a plan in place of an older version if then, called before the commit, returns nil.
	ReplacePlan(ctx context.Context, p job.Plan, then func(ctx context.Context) error) error
	// KeepPlans stores plans as Redis has them, except those of which SQL has a later version.
	KeepPlans(ctx context.Context, plans []job.Plan) error
}

// PlanBook holds the plans as this process last read them from Redis.
type PlanBook interface {
	Plan(t job.Tier) (job.Plan, bool)
	All() []job.Plan
}

// Tiers changes the tiers' plans in both stores. Redis decides which plan is in force, SQL stores it: of two
// versions of a plan the later one is right, and of two texts of one version that of Redis is. It is safe for
// concurrent use.
type Tiers struct {
	redis LivePlans
	sql   PlanTable
	book  PlanBook
	log   *slog.Logger

	mu     sync.Mutex
	inSQL  map[job.Tier]job.Plan // the plans in SQL as last read or written; nil = not yet read
	next   time.Time             // SQL is not asked before this time
	failed bool
}

// NewTiers makes a Tiers. book must be the PlanBook into which redis loads the plans.
func NewTiers(redis LivePlans, sql PlanTable, book PlanBook, log *slog.Logger) *Tiers {
	return &Tiers{redis: redis, sql: sql, book: book, log: log}
}

// AnyVersion lets StorePlan replace any version.
const AnyVersion = -1

const (
	planTries    = 10               // tries of a change that meets other changes
	rememberRest = 10 * time.Second // pause after SQL failed to store plans
)

// StorePlan stores a plan in both stores, or in none, and returns it with its new version. seen is the version
// that it must replace: 0 = there must be no plan, AnyVersion = any version. It returns job.ErrChanged if there is
// another version, and job.ErrUnavailable if a store does not answer; then nothing was stored. After
// job.ErrAmbiguous the plan may have been stored, perhaps in Redis alone; then SQL gets it a moment later.
func (t *Tiers) StorePlan(ctx context.Context, p job.Plan, seen int64) (job.Plan, error) {
	for range planTries {
		_, err := within(ctx, livePatience, func(ctx context.Context) (any, error) { return nil, t.redis.LoadPlans(ctx) })
		if err != nil {
			return p, unread(err)
		}
		is, _ := t.book.Plan(p.Tier)
		if seen != AnyVersion && seen != is.Version {
			return p, fmt.Errorf("%w: plan %s has version %d", job.ErrChanged, p.Tier, is.Version)
		}
		p.Version = is.Version + 1
		_, err = within(ctx, actPatience, func(ctx context.Context) (any, error) {
			return nil, t.sql.ReplacePlan(ctx, p, func(ctx context.Context) error {
				_, err := t.redis.StorePlan(ctx, p, is.Version)
				return err
			})
		})
		if err == nil {
			t.stored(ctx, p)
			return p, nil
		}
		if !errors.Is(err, job.ErrChanged) || seen != AnyVersion {
			return p, err
		}
		t.redis.DoubtPlans() // SQL may have a change that Redis lost
	}
	return p, fmt.Errorf("store plan %s: %w: other changes of it are in the way", p.Tier, job.ErrUnavailable)
}

// stored loads a plan that was just stored into this process' PlanBook. Other processes load it at their next
// LoadPlans.
func (t *Tiers) stored(ctx context.Context, p job.Plan) {
	t.mu.Lock()
	if t.inSQL != nil {
		t.inSQL[p.Tier] = p
	}
	t.mu.Unlock()
	if err := t.redis.LoadPlans(ctx); err != nil {
		t.log.Warn("a changed plan is stored; this process serves it a moment later", "tier", p.Tier, "err", err)
	}
}

// Remember copies to SQL the plans that Redis has and SQL lacks: changes by hand or by a process of an older
// version, and changes whose answer was lost. While nothing changes it asks neither store. It logs the error that
// it returns.
func (t *Tiers) Remember(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	plans := t.book.All()
	if t.remembers(plans) || time.Now().Before(t.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	err := t.remember(ctx, plans)
	if err != nil {
		t.next = time.Now().Add(rememberRest)
		if !t.failed && ctx.Err() == nil {
			t.log.Warn("SQL does not have the tiers' plans as Redis has them; trying again",
				"err", err, "next_in", rememberRest)
		}
	}
	t.failed = err != nil
	return err
}

func (t *Tiers) remembers(plans []job.Plan) bool {
	for _, p := range plans {
		if is, ok := t.inSQL[p.Tier]; !ok || !reflect.DeepEqual(is, p) {
			return false
		}
	}
	return true
}

func (t *Tiers) remember(ctx context.Context, plans []job.Plan) error {
	stored, err := t.sql.Plans(ctx)
	if err != nil {
		return err
	}
	inSQL := make(map[job.Tier]job.Plan, len(stored))
	for _, p := range stored {
		inSQL[p.Tier] = p
	}
	var unstored []job.Plan
	for _, p := range plans {
		switch is, ok := inSQL[p.Tier]; {
		case ok && is.Version > p.Version: // the plan was just changed, or Redis lost the change
			t.redis.DoubtPlans()
		case !ok || !reflect.DeepEqual(is, p):
			unstored = append(unstored, p)
		}
	}
	if len(unstored) > 0 {
		if err := t.sql.KeepPlans(ctx, unstored); err != nil {
			return err
		}
	}
	for _, p := range unstored {
		inSQL[p.Tier] = p
	}
	t.inSQL = inSQL
	return nil
}
