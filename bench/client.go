package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/tierq/tierq/client"
)

// clientBench sends submits with the Go client: as single requests, gathered, and as batches of its SubmitBatch. Each
// has a server of its own.
func clientBench(ctx context.Context, l *lab) (figures []figure, err error) {
	for _, c := range []struct {
		name    string
		gathers bool
		n       int
		send    sending
	}{
		{"plain, 1 goroutine", false, l.scaled(10000, 100), submitBy(1)},
		{"gathering, 1 goroutine", true, l.scaled(10000, 100), submitBy(1)},
		{"plain, 64 goroutines", false, l.scaled(100000, 1000), submitBy(64)},
		{"gathering, 64 goroutines", true, l.scaled(200000, 1000), submitBy(64)},
		{"SubmitBatch, 1 goroutine", false, l.scaled(200000, batchSize), submitBatches},
	} {
		more, err := l.submitsOf(ctx, sdk.Gather(c.gathers), c.n, c.send)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, f := range more {
			f.name = c.name + ": " + f.name
			figures = append(figures, f)
		}
	}
	return figures, nil
}

// sending submits n jobs with a client, and returns the ids of the jobs and how long each call took.
type sending func(ctx context.Context, c *sdk.Client, n int) (ids []string, times []time.Duration, err error)

// submitsOf measures n submits of one client to a new server, after a few that do not count.
func (l *lab) submitsOf(ctx context.Context, option sdk.Option, n int, send sending) (figures []figure, err error) {
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "client", "api", env)
	if err != nil {
		return nil, err
	}
	c := sdk.New("http://"+s.addr, option)
	defer c.Close()
	figures, err = l.sendMeasured(ctx, c, n, send)
	cpu, stopping := s.stop()
	if err := errors.Join(err, stopping); err != nil {
		return nil, err
	}
	queued, err := l.counter(ctx, "fresh")
	if err == nil && queued != n+warmUp {
		err = fmt.Errorf("%d jobs are queued after %d submits were accepted", queued, n+warmUp)
	}
	return append(figures, figure{"server cpu per submit, start included", "us", micros(cpu, n+warmUp)}), err
}

func (l *lab) sendMeasured(ctx context.Context, c *sdk.Client, n int, send sending) ([]figure, error) {
	if _, _, err := send(ctx, c, warmUp); err != nil {
		return nil, err
	}
	before, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ids, times, err := send(ctx, c, n)
	took := time.Since(began)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	if distinct := len(slices.Compact(ids)); distinct != n {
		return nil, fmt.Errorf("%d ids of %d submits", distinct, n)
	}
	after, err := l.redisCPU(ctx)
	return []figure{
		{"submits", "per s", perSecond(n, took)},
		{"p50", "ms", millis(quantile(times, 0.5))},
		{"p99", "ms", millis(quantile(times, 0.99))},
		{"redis cpu per submit", "us", micros(after-before, n)},
	}, err
}

// submitBy submits with so many goroutines, each with one call under way at a time.
func submitBy(goroutines int) sending {
	return func(ctx context.Context, c *sdk.Client, n int) ([]string, []time.Duration, error) {
		var next atomic.Int64
		times, ids, errs := make([]time.Duration, n), make([]string, n), make([]error, goroutines)
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for i := next.Add(1) - 1; i < int64(n) && errs[g] == nil; i = next.Add(1) - 1 {
					sent := time.Now()
					ids[i], errs[g] = c.Submit(ctx, sdk.Paid, "SIMULATION", json.RawMessage(nothing))
					times[i] = time.Since(sent)
				}
			})
		}
		group.Wait()
		return ids, times, errors.Join(errs...)
	}
}

// submitBatches submits full batches, one after the other, as `tierq submit --count` does.
func submitBatches(ctx context.Context, c *sdk.Client, n int) (ids []string, times []time.Duration, err error) {
	list := slices.Repeat([]sdk.Submission{{Type: "SIMULATION", Payload: json.RawMessage(nothing)}}, batchSize)
	for len(ids) < n {
		sent := time.Now()
		outcomes, err := c.SubmitBatch(ctx, sdk.Paid, list[:min(batchSize, n-len(ids))])
		if err != nil {
			return nil, nil, err
		}
		times = append(times, time.Since(sent))
		for _, o := range outcomes {
			if o.Err != nil {
				return nil, nil, o.Err
			}
			ids = append(ids, o.JobID)
		}
	}
	return ids, times, nil
}
