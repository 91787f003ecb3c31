package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// lifeSteps are what is compared at each depth.
var lifeSteps = []string{"submit 100", "claim 100", "complete 100", "acknowledge 100"}

// deepBench fills one Redis with 1, 5 and 10 million waiting jobs. At each depth it submits, claims, completes and
// acknowledges jobs, turn about with a Redis whose queue is empty: a ratio is the deep one's rate over the empty one's.
// Then it drains all of them. A stall is the longest that Redis kept another client's PING waiting meanwhile.
func deepBench(ctx context.Context, l *lab) (figures []figure, err error) {
	empty, err := openPool(ctx, 0)
	defer func() { err = errors.Join(err, empty.close()) }()
	if err != nil {
		return nil, err
	}
	deep, err := openPool(ctx, 0)
	defer func() { err = errors.Join(err, deep.close()) }()
	if err != nil {
		return nil, err
	}
	before, err := deep.memory(ctx)
	if err != nil {
		return nil, err
	}
	for _, millions := range []int{1, 5, 10} {
		n := l.scaled(millions*1_000_000, millions*1000)
		name := fmt.Sprintf("%d waiting: ", n)
		filling, err := deep.stall(ctx, func() error { return deep.fill(ctx, n) })
		if err != nil {
			return nil, err
		}
		m, err := deep.memory(ctx)
		if err != nil {
			return nil, err
		}
		working, err := deep.stall(ctx, func() error {
			return turnAbout([]*pool{empty, deep}, l.scaled(40, 2), func(p *pool) error { return p.drain(ctx, 4) })
		})
		if err != nil {
			return nil, err
		}
		for _, step := range lifeSteps {
			figures = append(figures, figure{name + step + ", rate beside empty", "x", empty.each(step) / deep.each(step)})
		}
		clear(empty.spent)
		clear(deep.spent)
		figures = append(figures,
			figure{name + "memory", "B/job", (m["used_memory"] - before["used_memory"]) / float64(n)},
			figure{name + "longest stall, filling", "ms", millis(filling)},
			figure{name + "longest stall, at work", "ms", millis(working)})
	}
	n := deep.n
	began := time.Now()
	draining, err := deep.stall(ctx, func() error { return deep.drainAll(ctx) })
	if err != nil {
		return nil, err
	}
	after, err := deep.memory(ctx)
	figures = append(figures, figure{"drained: rate, one connection", "jobs/s", perSecond(n, time.Since(began))},
		figure{"drained: longest stall", "ms", millis(draining)})
	return append(figures, after.figures("drained: ")...), err
}

// each is the time that one call of a step took, in microseconds.
func (p *pool) each(step string) float64 {
	c := p.spent[step]
	return micros(c.took, c.times)
}

// fill brings the waiting jobs to n, as fillPool mixes them, and remembers none of them.
func (p *pool) fill(ctx context.Context, n int) error {
	for p.n < n {
		more := min(job.MaxBatch, n-p.n)
		if _, err := p.put(ctx, more, 0, mixed...); err != nil {
			return err
		}
		p.n += more
	}
	return nil
}

// drainAll claims, completes and acknowledges every job that waits, and counts them.
func (p *pool) drainAll(ctx context.Context) error {
	plain := func(_ string, _ int, do func() error) error { return do() }
	for p.n > 0 {
		most := min(job.MaxBatch, p.n)
		if err := p.claim(ctx, most); err != nil {
			return err
		}
		if err := p.finish(ctx, plain); err != nil {
			return err
		}
		p.n -= most
	}
	return nil
}

// stall does something, and returns the longest time that a PING took meanwhile. Another connection sends one each
// millisecond.
func (p *pool) stall(ctx context.Context, do func() error) (longest time.Duration, err error) {
	client := redis.NewClient(&redis.Options{Addr: p.server.Addr(), Protocol: 2, PoolSize: 1})
	defer client.Close()
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for watching.Err() == nil {
			sent := time.Now()
			if err := client.Ping(ctx).Err(); err != nil {
				ended <- fmt.Errorf("ping: %w", err)
				return
			}
			longest = max(longest, time.Since(sent))
			select {
			case <-time.After(time.Millisecond):
			case <-watching.Done():
			}
		}
		ended <- nil
	}()
	err = do()
	stop()
	err = errors.Join(err, <-ended)
	return longest, err
}
