package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// pool is a Redis of its own with n jobs of each kind.
type pool struct {
	*queue.Queue
	n       int
	server  *testkit.Redis
	clients queue.Clients
	client  *redis.Client
	ready   []job.ID // of those that were put there at first, PUBLIC, so that they wait until the end
	claims  int64
	leases  []job.Lease
	walk    string
	middle  string
	order   []string
	spent   map[string]cost
}

// mixed is a queue's jobs by tier. What a round claims it has put there: the PUBLIC ones wait until the end.
var mixed = []job.Tier{job.Paid, job.Unpaid, job.Unpaid, job.Unpaid, job.Public, job.Public, job.Public, job.Public,
	job.Public, job.Public}

func fillPool(ctx context.Context, n int) (*pool, error) {
	p, err := openPool(ctx, 24*time.Hour)
	if err != nil {
		return p, err
	}
	p.n, p.ready = n, make([]job.ID, 0, n)
	for i := 0; i < n; i += job.MaxBatch {
		ids, err := p.put(ctx, min(job.MaxBatch, n-i), 0, mixed...)
		if err != nil {
			return p, err
		}
		for k, id := range ids {
			if mixed[k%len(mixed)] == job.Public {
				p.ready = append(p.ready, id)
			}
		}
	}
	return p, nil
}

// openPool starts a Redis without jobs. What it returns has to be closed, also beside an error.
func openPool(ctx context.Context, retention time.Duration) (p *pool, err error) {
	p = &pool{spent: map[string]cost{}}
	p.server, err = testkit.StartRedis("--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0",
		"--slowlog-max-len", "10000")
	if err != nil {
		return p, err
	}
	p.client = redis.NewClient(&redis.Options{Addr: p.server.Addr(), Protocol: 2})
	if p.clients, err = queue.Connect(p.server.URL()); err != nil {
		return p, err
	}
	p.Queue = queue.New(p.clients, &job.PlanBook{}, queue.Options{
		Nonce: "bench", Partitions: 1, PriorityBase: 10000000000000, Capacity: capacity, ScheduledLimit: capacity,
		HeartbeatInterval: 500 * time.Millisecond,
		Retention:         retention, FailedRetention: min(retention, time.Hour), KeepEnded: capacity,
	})
	return p, p.LoadPlans(ctx)
}

// crowd adds as many scheduled and as many ended jobs.
func (p *pool) crowd(ctx context.Context) error {
	for i := 0; i < p.n; i += job.MaxBatch {
		if _, err := p.put(ctx, min(job.MaxBatch, p.n-i), 10*time.Hour, mixed...); err != nil {
			return err
		}
	}
	return p.end(ctx)
}

func (p *pool) close() error {
	var err error
	if p.clients.Main != nil {
		err = p.clients.Close()
	}
	if p.client != nil {
		err = errors.Join(err, p.client.Close())
	}
	if p.server != nil {
		p.server.Stop()
	}
	return err
}

// put submits up to 100 jobs of these tiers.
func (p *pool) put(ctx context.Context, n int, delay time.Duration, tiers ...job.Tier) ([]job.ID, error) {
	batch, ids := make([]job.Submission, n), make([]job.ID, n)
	for i := range batch {
		batch[i] = job.Submission{
			ID: newID(), Tier: tiers[i%len(tiers)], Type: []string{"SIMULATION", "REPORT"}[i%2], Owner: fmt.Sprint("key-", i%7),
			Payload:    []byte(nothing),
			MaxRetries: 5, TraceID: traceID, Delay: delay,
		}
		ids[i] = batch[i].ID
	}
	replies, err := p.Submit(ctx, 0, batch)
	if err != nil {
		return nil, err
	}
	for _, r := range replies {
		if r.Word != job.OK {
			return nil, fmt.Errorf("submit answered %s", r.Word)
		}
	}
	return ids, nil
}

// end makes n ended jobs: one through the scripts, and what is kept of it again and again, under other ids and in their
// slices, each of which has its time to live.
func (p *pool) end(ctx context.Context) error {
	ids, err := p.put(ctx, 1, 0, job.Paid)
	if err != nil {
		return err
	}
	if err := p.claim(ctx, 1); err != nil {
		return err
	}
	id := p.leases[0].ID
	if err := p.finish(ctx, func(_ string, _ int, do func() error) error { return do() }); err != nil {
		return err
	}
	ended, err := p.client.HMGet(ctx, queue.EndedKey(id), string(id), "-").Result()
	if err == nil && (ended[0] == nil || ended[1] == nil) {
		err = errors.New("its end is not in its slice")
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", ids[0], err)
	}
	for left := p.n; left > 0; left -= 1000 {
		_, err := p.client.Pipelined(ctx, func(c redis.Pipeliner) error {
			keys := map[string]bool{}
			for range min(left, 1000) {
				id := newID()
				keys[queue.EndedKey(id)] = true
				c.HSet(ctx, queue.EndedKey(id), string(id), ended[0], "-", ended[1])
			}
			for key := range keys {
				c.PExpire(ctx, key, 24*time.Hour)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("make ended jobs: %w", err)
		}
	}
	return nil
}

// taken is a job that waits, anywhere in the queue, and is nobody else's from now on.
func (p *pool) taken() job.ID {
	i, last := rand.IntN(len(p.ready)), len(p.ready)-1
	id := p.ready[i]
	p.ready[i] = p.ready[last]
	p.ready = p.ready[:last]
	return id
}
