package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// queuesBench measures claims over 1, 3 and 10 queues that share the same jobs evenly: what one job costs inside the
// claim script, for claims of 100, of 10 and of 1.
func queuesBench(ctx context.Context, l *lab) (figures []figure, err error) {
	for _, batch := range []int{job.MaxBatch, 10, 1} {
		for _, many := range []int{1, 3, 10} {
			n := l.scaled(50000, 2*batch)
			q, end, err := claimsOver(ctx, l.redis.URL(), many)
			if err != nil {
				return nil, err
			}
			if err := errors.Join(l.empty(ctx), spread(ctx, q, many, n)); err != nil {
				return nil, errors.Join(err, end())
			}
			_, before, err := l.scriptStats(ctx)
			if err == nil {
				err = claimAll(ctx, q, batch, n)
			}
			_, after, again := l.scriptStats(ctx)
			if err = errors.Join(err, again, end()); err != nil {
				return nil, err
			}
			figures = append(figures, figure{
				fmt.Sprintf("claims of %d over %d queues", batch, many), "us/job", micros(after-before, n),
			})
		}
	}
	more, err := embeddedClaims(ctx, l)
	return append(figures, more...), err
}

// embeddedClaims measures the same in this process' miniredis, which sorts a set for each read of it: wall time of a
// claim of 10 with 10,000 jobs ready.
func embeddedClaims(ctx context.Context, l *lab) (figures []figure, err error) {
	for _, many := range []int{1, 10} {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			return nil, fmt.Errorf("start miniredis: %w", err)
		}
		n := l.scaled(10000, 500)
		q, end, err := claimsOver(ctx, "redis://"+server.Addr(), many)
		if err != nil {
			server.Close()
			return nil, err
		}
		const claims, size = 20, 10
		err = spread(ctx, q, many, n)
		began := time.Now()
		if err == nil {
			err = claimAll(ctx, q, size, claims*size)
		}
		took := time.Since(began)
		if err = errors.Join(err, end()); err != nil {
			server.Close()
			return nil, err
		}
		server.Close()
		figures = append(figures, figure{
			fmt.Sprintf("embedded, claim of %d over %d queues", size, many), "us", micros(took, claims),
		})
	}
	return figures, nil
}

// claimsOver opens a process that serves so many declared queues.
func claimsOver(ctx context.Context, url string, many int) (q *queue.Queue, end func() error, err error) {
	clients, err := queue.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	o := queueOptions()
	o.Queues = &job.QueueBook{}
	var all []job.Queue
	for i := range many {
		all = append(all, job.Queue{Name: queueNumber(i), Limit: capacity})
		o.Serves = append(o.Serves, queueNumber(i))
	}
	o.Queues.Set(all)
	if q, err = withPlans(ctx, clients, o); err != nil {
		return nil, nil, errors.Join(err, clients.Close())
	}
	return q, clients.Close, nil
}

func queueNumber(i int) string { return fmt.Sprintf("q%d", i) }

// spread queues n jobs evenly over the queues and the three tiers.
func spread(ctx context.Context, q *queue.Queue, many, n int) error {
	tiers := []job.Tier{job.Paid, job.Unpaid, job.Public}
	batch := make([]job.Submission, 0, job.MaxBatch)
	for i := range n {
		s := submission("SIMULATION", []byte(nothing))
		s.Queue, s.Tier = queueNumber(i%many), tiers[i/many%len(tiers)]
		if batch = append(batch, s); len(batch) == job.MaxBatch || i == n-1 {
			if err := submitAll(ctx, q, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

// claimAll claims n jobs, so many a call.
func claimAll(ctx context.Context, q *queue.Queue, batch, n int) error {
	for claimed, number := 0, int64(1); claimed < n; number++ {
		r, err := q.Claim(ctx, 0, job.ClaimRequest{Number: number, Max: batch, Bound: math.Inf(1)})
		if err != nil {
			return err
		}
		if len(r.Leases) == 0 {
			return fmt.Errorf("%d of %d jobs were found", claimed, n)
		}
		claimed += len(r.Leases)
	}
	return nil
}
