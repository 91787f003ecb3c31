package ledger

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// pausedStores are the pauses as Redis and as SQL have them. The book has what Redis had at the last LoadQueues.
type pausedStores struct {
	book       job.PauseBook
	redis, sql job.Pauses
	sqlDown    error
	lost       int // so many answers of Redis are lost
	kept       int // how often SQL was written
}

func (s *pausedStores) LoadQueues(context.Context) error { s.book.Set(s.redis); return nil }

func (s *pausedStores) answer() error {
	s.redis.Version++
	if s.lost > 0 {
		s.lost--
		return job.ErrAmbiguous
	}
	return nil
}

func (s *pausedStores) Pause(_ context.Context, p job.Pause) (job.Pause, int64, error) {
	s.redis.List = []job.Pause{p}
	return p, s.redis.Version, s.answer()
}

func (s *pausedStores) Resume(_ context.Context, scope string) (was job.Pause, on bool, err error) {
	if on = len(s.redis.List) > 0 && s.redis.List[0].Scope == scope; on {
		was, s.redis.List = s.redis.List[0], nil
	}
	return was, on, s.answer()
}

func (s *pausedStores) KeepPauses(_ context.Context, p job.Pauses) error {
	if s.kept++; s.sqlDown == nil {
		s.sql = p
	}
	return s.sqlDown
}

func (s *pausedStores) pauses(strict bool) *Pauses {
	plans, queues := &job.PlanBook{}, &job.QueueBook{}
	list := append(job.DefaultPlans(), job.DefaultPlans()[0])
	list[3].Tier, list[3].Priority = "GOLD", 2
	plans.Set(list)
	queues.Set([]job.Queue{{Name: "films", Types: []string{"TRANSCODE"}}, {Name: "mixed", Types: []string{"A", "B"}}})
	return NewPauses(PausesOptions{Redis: s, SQL: s, Book: &s.book, Queues: queues, Plans: plans,
		Strict: func() bool { return strict }, Log: slog.New(slog.DiscardHandler)})
}

// A scope is what it names: a tier in any case, a queue, or a type that has a queue of its own. What cannot be paused
// alone is refused.
func TestPauses_Scope(t *testing.T) {
	for _, c := range []struct {
		named  string
		strict bool
		want   string
		err    error
	}{
		{"all", true, "all", nil}, {"all", false, "all", nil},
		{"tier:PAID", true, "tier:PAID", nil}, {"tier:paid", true, "tier:PAID", nil},
		{"tier:PAID", false, "", job.ErrBadScope},  // tiers overlap
		{"tier:UNPAID", true, "", job.ErrBadScope}, // GOLD has its priority
		{"tier:SILVER", true, "", job.ErrUnknownTier},
		{"queue:main", true, "queue:main", nil}, {"queue:films", false, "queue:films", nil},
		{"queue:none", true, "", job.ErrUnknownQueue},
		{"type:TRANSCODE", true, "queue:films", nil}, {"type:A", true, "", job.ErrBadScope},
		{"line:k", true, "", job.ErrBadScope}, {"", true, "", job.ErrBadScope}, {"tier", true, "", job.ErrUnknownTier},
	} {
		s := &pausedStores{}
		p, err := s.pauses(c.strict).Pause(t.Context(), job.Pause{Scope: c.named})
		if !errors.Is(err, c.err) || err == nil && p.Scope != c.want || err != nil && len(s.redis.List) > 0 {
			t.Errorf("%q, strict %t: %+v, %v", c.named, c.strict, p, err)
		}
	}
}

// A change is in both stores and in this process' book when it is answered, also if Redis' first answer is lost. While
// nothing changes SQL is not written.
func TestPauses_AreInBothStores(t *testing.T) {
	s := &pausedStores{lost: 1}
	p := s.pauses(true)
	if _, err := p.Pause(t.Context(), job.Pause{Scope: "tier:PAID", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if _, on := s.book.Find("tier:PAID"); !on || len(s.sql.List) != 1 || s.sql.Version != 2 {
		t.Errorf("SQL has %+v, the book %+v", s.sql, s.book.All())
	}
	kept := s.kept
	for range 3 {
		if err := p.Remember(t.Context()); err != nil || s.kept != kept {
			t.Errorf("%v; SQL was written %d times, and nothing had changed", err, s.kept-kept)
		}
	}
	s.lost = 1
	was, on, err := p.Resume(t.Context(), "tier:PAID")
	if was.Reason != "r" || !on || err != nil || len(s.sql.List) != 0 || len(s.book.All().List) != 0 {
		t.Errorf("%+v, %t, %v; SQL has %+v", was, on, err, s.sql)
	}
}

// While SQL is away what is paused is paused; SQL gets it later. A tier that cannot be paused any more can be resumed.
func TestPauses_WithoutSQL(t *testing.T) {
	s := &pausedStores{sqlDown: job.ErrUnavailable}
	p := s.pauses(true)
	if _, err := p.Pause(t.Context(), job.Pause{Scope: "tier:PAID"}); err != nil {
		t.Fatal(err)
	}
	kept := s.kept
	if err := p.Remember(t.Context()); err != nil || s.kept != kept { // it rests
		t.Errorf("%v, %d", err, s.kept-kept)
	}
	s.sqlDown, p.next = nil, p.next.Add(-rememberRest)
	if err := p.Remember(t.Context()); err != nil || len(s.sql.List) != 1 {
		t.Errorf("%v, SQL has %+v", err, s.sql)
	}
	p.Strict = func() bool { return false }
	if _, on, err := p.Resume(t.Context(), "tier:PAID"); !on || err != nil {
		t.Errorf("resumed %t, %v", on, err)
	}
}
