package ledger

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// LiveQueues are the declared queues in Redis. Every process reads them into its QueueBook once a second.
type LiveQueues interface {
	// LoadQueues reads the queues into the QueueBook. Before that it restores in Redis the queues that Redis lost.
	LoadQueues(ctx context.Context) error
	// StoreQueue declares a queue, or changes the version seen of it (0 = it must be new, AnyVersion = any), and returns
	// it with its new version.
	StoreQueue(ctx context.Context, q job.Queue, seen int64) (job.Queue, error)
	// ForFaktory declares a queue for Faktory clients or, with on false, notes that they have removed it.
	ForFaktory(ctx context.Context, name string, on bool) error
	// DeleteQueue removes a declaration: job.ErrUnknownQueue, or job.ErrQueueInUse while the queue has jobs.
	DeleteQueue(ctx context.Context, name string) error
}

// QueueTable holds the declared queues in SQL, which outlive Redis.
type QueueTable interface {
	Queues(ctx context.Context) ([]job.Queue, error)
	// KeepQueue stores a queue as Redis has it, unless SQL has a later version.
	KeepQueue(ctx context.Context, q job.Queue) error
	DropQueue(ctx context.Context, name string) error
}

// QueueBook holds the declared queues as this process last read them from Redis.
type QueueBook interface {
	All() []job.Queue
	Find(name string) (job.Queue, bool)
}

// Queues changes the declared queues. Redis decides which there are. SQL has a copy, a moment later, for a Redis that
// loses its data. It is safe for concurrent use.
type Queues struct {
	redis LiveQueues
	sql   QueueTable
	book  QueueBook
	log   *slog.Logger

	mu     sync.Mutex
	inSQL  []job.Queue // as last read or written; nil = not yet read
	next   time.Time   // SQL is not asked before this time
	failed bool
}

// NewQueues makes a Queues. book must be the QueueBook into which redis loads the queues.
func NewQueues(redis LiveQueues, sql QueueTable, book QueueBook, log *slog.Logger) *Queues {
	return &Queues{redis: redis, sql: sql, book: book, log: log}
}

// StoreQueue declares or changes a queue, see LiveQueues. Every process knows it within about a second. After
// job.ErrChanged this process knows the change that was in the way.
func (q *Queues) StoreQueue(ctx context.Context, one job.Queue, seen int64) (job.Queue, error) {
	stored, err := within(ctx, actPatience, func(ctx context.Context) (job.Queue, error) {
		return q.redis.StoreQueue(ctx, one, seen)
	})
	if err == nil || errors.Is(err, job.ErrChanged) {
		q.changed(ctx)
	}
	return stored, err
}

// ForFaktory declares a queue for Faktory clients, see LiveQueues. Every process knows it within about a second.
func (q *Queues) ForFaktory(ctx context.Context, name string, on bool) error {
	_, err := twice(ctx, actPatience, func(ctx context.Context) (any, error) {
		return nil, q.redis.ForFaktory(ctx, name, on)
	})
	if err == nil {
		q.changed(ctx)
	}
	return err
}

// DeleteQueue removes a declaration, see LiveQueues. If SQL does not answer, the queue is deleted, and its row stays: a
// Redis that loses its data then gets the queue back, without jobs.
func (q *Queues) DeleteQueue(ctx context.Context, name string) error {
	_, err := within(ctx, actPatience, func(ctx context.Context) (any, error) {
		return nil, q.redis.DeleteQueue(ctx, name)
	})
	if err != nil {
		return err
	}
	_, err = within(ctx, archivePatience, func(ctx context.Context) (any, error) {
		return nil, q.sql.DropQueue(ctx, name)
	})
	if err != nil {
		q.log.Warn("a deleted queue has still a row in SQL", "queue", name, "err", err)
	}
	q.changed(ctx)
	return nil
}

// changed loads a change into this process' QueueBook, and copies it to SQL. Other processes load it at their next
// LoadQueues.
func (q *Queues) changed(ctx context.Context) {
	if err := q.redis.LoadQueues(ctx); err != nil {
		q.log.Warn("a changed queue is stored; this process knows it a moment later", "err", err)
		return
	}
	_ = q.Remember(ctx) // it logs its own error, and is called again each second
}

// Remember copies to SQL the queues that Redis has and SQL lacks. It drops no row: this process may have read Redis
// before another process declared the queue. While nothing changes it asks neither store. It logs the error that it
// returns.
func (q *Queues) Remember(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	queues := q.book.All()
	if q.inSQL != nil && slices.EqualFunc(q.inSQL, queues, job.Queue.Equal) || time.Now().Before(q.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archivePatience)
	defer cancel()
	err := q.remember(ctx, queues)
	if err != nil {
		q.next = time.Now().Add(rememberRest)
		if !q.failed && ctx.Err() == nil {
			q.log.Warn("SQL does not have the queues as Redis has them; trying again", "err", err, "next_in", rememberRest)
		}
	}
	q.failed = err != nil
	return err
}

func (q *Queues) remember(ctx context.Context, queues []job.Queue) error {
	stored, err := q.sql.Queues(ctx)
	if err != nil {
		return err
	}
	for _, one := range queues {
		if !slices.ContainsFunc(stored, one.Equal) {
			if err := q.sql.KeepQueue(ctx, one); err != nil {
				return err
			}
		}
	}
	q.inSQL = append([]job.Queue{}, queues...)
	return nil
}
