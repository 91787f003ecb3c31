package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// planStores are both stores of plans; each can be made to fail.
type planStores struct {
	redis, sql         map[job.Tier]job.Plan
	book               job.PlanBook
	redisErr, sqlErr   error
	commitErr          error
	doubts, read, kept int
	meanwhile          func() // a change by another process between LoadPlans and StorePlan
}

func newPlanStores() *planStores {
	s := &planStores{redis: map[job.Tier]job.Plan{}, sql: map[job.Tier]job.Plan{}}
	for _, p := range job.DefaultPlans() {
		s.redis[p.Tier], s.sql[p.Tier] = p, p
	}
	s.book.Set(job.DefaultPlans())
	return s
}

func (s *planStores) LoadPlans(context.Context) error {
	if s.redisErr == nil {
		s.book.Set(slices.Collect(maps.Values(s.redis)))
	}
	return s.redisErr
}

func (s *planStores) DoubtPlans() { s.doubts++ }

func (s *planStores) StorePlan(_ context.Context, p job.Plan, seen int64) (job.Plan, error) {
	if s.redisErr != nil {
		return p, s.redisErr
	}
	if is := s.redis[p.Tier].Version; is != seen {
		return p, fmt.Errorf("%w: version %d", job.ErrChanged, is)
	}
	p.Version = seen + 1
	s.redis[p.Tier] = p
	return p, nil
}

func (s *planStores) Plans(context.Context) ([]job.Plan, error) {
	s.read++
	return slices.Collect(maps.Values(s.sql)), s.sqlErr
}

func (s *planStores) ReplacePlan(ctx context.Context, p job.Plan, then func(context.Context) error) error {
	if s.meanwhile != nil {
		s.meanwhile()
	}
	if s.sqlErr != nil {
		return s.sqlErr
	}
	if s.sql[p.Tier].Version >= p.Version {
		return job.ErrChanged
	}
	if err := then(ctx); err != nil {
		return err
	}
	if s.commitErr == nil {
		s.sql[p.Tier] = p
	}
	return s.commitErr
}

func (s *planStores) KeepPlans(_ context.Context, plans []job.Plan) error {
	if s.sqlErr != nil {
		return s.sqlErr
	}
	s.kept += len(plans)
	for _, p := range plans {
		if p.Version >= s.sql[p.Tier].Version {
			s.sql[p.Tier] = p
		}
	}
	return nil
}

func (s *planStores) tiers() *Tiers { return NewTiers(s, s, &s.book, slog.New(slog.DiscardHandler)) }

// state returns the versions of PAID and GOLD in the stores and the book.
func (s *planStores) state() string {
	var b strings.Builder
	for _, t := range []job.Tier{job.Paid, "GOLD"} {
		here, _ := s.book.Plan(t)
		fmt.Fprintf(&b, "%s %d %d %d ", t, s.redis[t].Version, s.sql[t].Version, here.Version)
	}
	return b.String()
}

// A change is stored in both stores, or in none, depending on the errors.
func TestStorePlan(t *testing.T) {
	t.Parallel()
	paid := job.DefaultPlans()[0]
	paid.MaxRetries = 9
	gold := paid
	gold.Tier = "GOLD"
	away := fmt.Errorf("gone: %w", job.ErrUnavailable)
	lost := fmt.Errorf("no answer: %w", job.ErrAmbiguous)
	changes := 0
	for name, c := range map[string]struct {
		plan    job.Plan
		seen    int64
		prepare func(s *planStores)
		err     error
		state   string
	}{
		"whatever is there":    {paid, AnyVersion, nil, nil, "PAID 2 2 2 GOLD 0 0 0 "},
		"the version it saw":   {paid, 1, nil, nil, "PAID 2 2 2 GOLD 0 0 0 "},
		"another version":      {paid, 2, nil, job.ErrChanged, "PAID 1 1 1 GOLD 0 0 0 "},
		"new":                  {gold, 0, nil, nil, "PAID 1 1 1 GOLD 1 1 1 "},
		"new, and it is there": {paid, 0, nil, job.ErrChanged, "PAID 1 1 1 GOLD 0 0 0 "},
		"SQL is away": {
			paid, AnyVersion, func(s *planStores) { s.sqlErr = away }, away, "PAID 1 1 1 GOLD 0 0 0 ",
		},
		"Redis is away": {
			paid, AnyVersion, func(s *planStores) { s.redisErr = away }, away, "PAID 1 1 1 GOLD 0 0 0 ",
		},
		"the commit is in doubt": {
			gold, 0, func(s *planStores) { s.commitErr = lost }, lost, "PAID 1 1 1 GOLD 1 0 0 ",
		},
		"Redis goes in between": {
			gold, 0, func(s *planStores) { s.meanwhile = func() { s.redisErr = lost } }, lost, "PAID 1 1 1 GOLD 0 0 0 ",
		},
		"another process is faster": {paid, AnyVersion, func(s *planStores) {
			changes = 2
			s.meanwhile = func() {
				if changes--; changes >= 0 {
					other := paid
					other.Version = s.redis[job.Paid].Version + 1
					s.redis[job.Paid], s.sql[job.Paid] = other, other
				}
			}
		}, nil, "PAID 4 4 4 GOLD 0 0 0 "},
		"another process is faster, and it may not be": {paid, 1, func(s *planStores) {
			s.meanwhile = func() { s.redis[job.Paid] = job.Plan{Tier: job.Paid, Version: 2} }
		}, job.ErrChanged, "PAID 2 1 1 GOLD 0 0 0 "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPlanStores()
			if c.prepare != nil {
				c.prepare(s)
			}
			stored, err := s.tiers().StorePlan(t.Context(), c.plan, c.seen)
			if c.err == nil && err != nil || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if got := s.state(); got != c.state {
				t.Errorf("in Redis, SQL and the book: %q, want %q", got, c.state)
			}
			if here, _ := s.book.Plan(c.plan.Tier); err == nil && (stored.Version != here.Version || here.MaxRetries != 9) {
				t.Errorf("answered %+v, served %+v", stored, here)
			}
		})
	}
}

// SQL gets what Redis has, once per change, and never loses a later version.
func TestRememberPlans(t *testing.T) {
	t.Parallel()
	s := newPlanStores()
	tiers := s.tiers()
	remember := func(reads, kept, doubts int) {
		t.Helper()
		for range 3 {
			if err := tiers.Remember(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if s.read != reads || s.kept != kept || s.doubts != doubts {
			t.Errorf("%d reads, %d plans kept, %d doubts; want %d, %d and %d",
				s.read, s.kept, s.doubts, reads, kept, doubts)
		}
	}
	remember(1, 0, 0)
	byHand := job.DefaultPlans()[0]
	byHand.Share = 50 // with the same version
	s.redis[job.Paid] = byHand
	gold := byHand
	gold.Tier, gold.Version = "GOLD", 2 // by a process of an older version
	s.redis["GOLD"] = gold
	if err := s.LoadPlans(t.Context()); err != nil {
		t.Fatal(err)
	}
	remember(2, 2, 0)
	if s.sql[job.Paid].Share != 50 || s.sql["GOLD"].Version != 2 {
		t.Errorf("SQL has %+v", s.sql)
	}
	gold.Version = 7 // a change that Redis lost
	s.sql["GOLD"] = gold
	public := s.redis[job.Public]
	public.Share = 7
	s.redis[job.Public] = public
	if err := s.LoadPlans(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tiers.Remember(t.Context()); err != nil || s.doubts != 1 || s.sql["GOLD"].Version != 7 {
		t.Errorf("%v, %d doubts, SQL has version %d", err, s.doubts, s.sql["GOLD"].Version)
	}
	s.sqlErr = job.ErrUnavailable
	if err := tiers.Remember(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Error(err)
	}
	read := s.read
	if err := tiers.Remember(t.Context()); err != nil || s.read != read {
		t.Errorf("SQL was asked again at once, %v", err)
	}
}
