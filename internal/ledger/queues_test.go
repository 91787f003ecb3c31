package ledger

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// twoStores are the queues as Redis and as SQL have them. The book has what Redis had at the last LoadQueues.
type twoStores struct {
	book       job.QueueBook
	redis, sql []job.Queue
	sqlDown    error
	asked      int // how often SQL was asked
}

func (s *twoStores) LoadQueues(context.Context) error {
	s.book.Set(s.redis)
	return nil
}

func (s *twoStores) StoreQueue(_ context.Context, q job.Queue, seen int64) (job.Queue, error) {
	if seen == 0 && len(queuesWithout(s.redis, q.Name)) < len(s.redis) {
		return q, job.ErrChanged
	}
	q.Version = 1
	s.redis = append(s.redis, q)
	return q, nil
}

func queuesWithout(queues []job.Queue, name string) []job.Queue {
	return slices.DeleteFunc(slices.Clone(queues), func(q job.Queue) bool { return q.Name == name })
}

func (s *twoStores) ForFaktory(_ context.Context, name string, on bool) error {
	s.redis = append(queuesWithout(s.redis, name), job.Queue{Name: name, Faktory: on, Version: 9})
	return nil
}

func (s *twoStores) DeleteQueue(_ context.Context, name string) error {
	s.redis = queuesWithout(s.redis, name)
	return nil
}

func (s *twoStores) Queues(context.Context) ([]job.Queue, error) {
	s.asked++
	return slices.Clone(s.sql), s.sqlDown
}

func (s *twoStores) KeepQueue(_ context.Context, q job.Queue) error {
	if s.sqlDown == nil {
		s.sql = append(queuesWithout(s.sql, q.Name), q)
	}
	return s.sqlDown
}

func (s *twoStores) DropQueue(_ context.Context, name string) error {
	if s.sqlDown == nil {
		s.sql = queuesWithout(s.sql, name)
	}
	return s.sqlDown
}

func (s *twoStores) queues() *Queues { return NewQueues(s, s, &s.book, slog.New(slog.DiscardHandler)) }

func named(name string, version int64) job.Queue {
	return job.Queue{Name: name, Limit: 5, Version: version}
}

// A change is in both stores and in this process' book when it is answered. While nothing changes SQL is not asked.
func TestQueues_AreInBothStores(t *testing.T) {
	s := &twoStores{}
	q := s.queues()
	if _, err := q.StoreQueue(t.Context(), job.Queue{Name: "films", Limit: 5}, 0); err != nil {
		t.Fatal(err)
	}
	want := []job.Queue{named("films", 1)}
	if !slices.EqualFunc(s.sql, want, job.Queue.Equal) || !slices.EqualFunc(s.book.All(), want, job.Queue.Equal) {
		t.Errorf("SQL has %v, the book %v", s.sql, s.book.All())
	}
	asked := s.asked
	for range 3 {
		if err := q.Remember(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if s.asked != asked {
		t.Errorf("SQL was asked %d times, and nothing had changed", s.asked-asked)
	}
	if err := q.DeleteQueue(t.Context(), "films"); err != nil || len(s.sql) != 0 || len(s.book.All()) != 0 {
		t.Errorf("%v; SQL has %v, the book %v", err, s.sql, s.book.All())
	}
}

// A process that has not read a queue yet leaves its row: another process has just declared the queue.
func TestQueues_AProcessThatIsLateDropsNoRow(t *testing.T) {
	s := &twoStores{redis: []job.Queue{named("a", 1)}, sql: []job.Queue{named("films", 1)}}
	if err := s.LoadQueues(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.queues().Remember(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(s.sql, []job.Queue{named("films", 1), named("a", 1)}, job.Queue.Equal) {
		t.Errorf("SQL has %v", s.sql)
	}
}

// While SQL is away changes are made in Redis, and SQL gets those that stand, later.
func TestQueues_WithoutSQL(t *testing.T) {
	s := &twoStores{redis: []job.Queue{named("old", 1)}, sql: []job.Queue{named("old", 1)}, sqlDown: job.ErrUnavailable}
	q := s.queues()
	if _, err := q.StoreQueue(t.Context(), job.Queue{Name: "films", Limit: 5}, 0); err != nil {
		t.Fatal(err)
	}
	if err := q.DeleteQueue(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(s.book.All(), []job.Queue{named("films", 1)}, job.Queue.Equal) {
		t.Errorf("the book has %v", s.book.All())
	}
	s.sqlDown, q.next = nil, time.Time{}
	if err := q.Remember(t.Context()); err != nil || !slices.ContainsFunc(s.sql, named("films", 1).Equal) {
		t.Errorf("%v; SQL has %v", err, s.sql)
	}
}

// A queue that Faktory clients push to is in the book at once, and in SQL with its mark.
// A process that would declare a queue which another process has just declared knows the queue from then on.
func TestQueues_DeclaredElsewhere(t *testing.T) {
	s := &twoStores{redis: []job.Queue{named("films", 1)}}
	if _, err := s.queues().StoreQueue(t.Context(), job.Queue{Name: "films"}, 0); !errors.Is(err, job.ErrChanged) {
		t.Fatalf("the error is %v", err)
	}
	if _, known := s.book.Find("films"); !known {
		t.Error("the process does not know the queue")
	}
}

func TestQueues_ForFaktory(t *testing.T) {
	s := &twoStores{}
	if err := s.queues().ForFaktory(t.Context(), "films", true); err != nil {
		t.Fatal(err)
	}
	if q, known := s.book.Find("films"); !known || !q.Faktory || len(s.sql) != 1 || !s.sql[0].Faktory {
		t.Errorf("the book has %+v, SQL %+v", q, s.sql)
	}
}
