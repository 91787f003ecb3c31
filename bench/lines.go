package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// linesBench measures what lines cost Redis: whole lives of jobs without a key, and with 1 to 5,000 keys, one after the
// other; and claims where few and many jobs wait, in few and in many lines.
func linesBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(50000, 2*job.MaxBatch)
	plain := 0.0
	for _, keys := range []int{0, 1, 10, 100, 1000, 5000} {
		s := shipped()
		s.keys = keys
		cost, err := l.live(ctx, s, n)
		if err != nil {
			return figures, err
		}
		us := micros(cost.cpu, n)
		figures = append(figures, figure{fmt.Sprintf("a life, %d keys", keys), "us/job", us})
		for i, verb := range verbs {
			figures = append(figures, figure{fmt.Sprintf("  its %s, %d keys", verb, keys), "us/job", micros(cost.verbs[i], n)})
		}
		if keys == 0 {
			plain = us
			continue
		}
		figures = append(figures, figure{fmt.Sprintf("the same with %d keys, beside none", keys), "x", us / plain})
	}
	for _, c := range []struct{ jobs, keys int }{{10_000, 0}, {10_000, 100}, {1_000_000, 100}, {1_000_000, 100_000}} {
		more, err := claimsOfLines(ctx, l, l.scaled(c.jobs, 20*job.MaxBatch), c.keys)
		if err != nil {
			return figures, err
		}
		figures = append(figures, more)
	}
	return figures, nil
}

// claimsOfLines measures claims of 100 where so many jobs wait in the lines of so many keys; 0 = in no line.
func claimsOfLines(ctx context.Context, l *lab, n, keys int) (f figure, err error) {
	clients, err := queue.Connect(l.redis.URL())
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, clients.Close()) }()
	o := queueOptions()
	o.Capacity = 2 * n
	q, err := withPlans(ctx, clients, o)
	if err != nil {
		return f, err
	}
	if err := l.empty(ctx); err != nil {
		return f, err
	}
	batch := make([]job.Submission, 0, job.MaxBatch)
	for i := range n {
		s := submission("SIMULATION", []byte(nothing))
		if keys > 0 {
			s.Line = fmt.Sprintf("k%d", i%keys)
		}
		if batch = append(batch, s); len(batch) == job.MaxBatch || i == n-1 {
			if err := submitAll(ctx, q, batch); err != nil {
				return f, err
			}
			batch = batch[:0]
		}
	}
	const claimed = 20 * job.MaxBatch
	_, before, err := l.scriptStats(ctx)
	if err == nil {
		err = claimAll(ctx, q, job.MaxBatch, claimed)
	}
	_, after, again := l.scriptStats(ctx)
	name := fmt.Sprintf("claims of 100, %d jobs in %d lines", n, keys)
	return figure{name, "us/job", micros(after-before, claimed)}, errors.Join(err, again)
}
