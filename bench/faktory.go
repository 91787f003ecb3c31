package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	fakPushers = 16 // connections
	fakFetches = 64 // connections
	fakWorkers = 8  // that these belong to, in the second measure; in the first they are one worker's
)

// faktoryBench compares the gateway with the server of Faktory, turn about: the same client, the same jobs.
func faktoryBench(ctx context.Context, l *lab) (figures []figure, err error) {
	servers := []string{fakGateway, fakAsItIs, fakWithAOF}
	rates := map[string][]figure{}
	for i := range servers {
		name := servers[(i+l.turn)%len(servers)]
		if rates[name], err = l.faktory(ctx, name, l.scaled(30000, 300)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range servers {
		for _, f := range rates[name] {
			figures = append(figures, figure{name + ": " + f.name, f.unit, f.value})
		}
	}
	for _, name := range servers[1:] {
		for _, f := range rates[name] {
			ours := slices.IndexFunc(rates[fakGateway], func(g figure) bool { return g.name == f.name })
			if f.unit == "jobs/s" {
				figures = append(figures, figure{f.name + ", beside " + name, "x", rates[fakGateway][ours].value / f.value})
			}
		}
	}
	return figures, nil
}

// faktory measures a server: n jobs are pushed, then fetched and ended by one worker; n more by several.
func (l *lab) faktory(ctx context.Context, name string, n int) (figures []figure, err error) {
	f, err := l.startFaktory(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	if _, err := f.pushAll(ctx, 0, warmUp); err != nil {
		return nil, err
	}
	if _, err := f.workAll(ctx, 1, warmUp); err != nil {
		return nil, err
	}
	ended := warmUp
	for _, workers := range []int{1, fakWorkers} {
		pushed, err := f.measured(ctx, n, func() (time.Duration, error) { return f.pushAll(ctx, ended, n) }, nil)
		if err != nil {
			return nil, err
		}
		worked, err := f.measured(ctx, n, func() (time.Duration, error) { return f.workAll(ctx, workers, n) },
			func() error { return f.all(ctx, ended+n) })
		if err != nil {
			return nil, err
		}
		ended += n
		if workers == 1 {
			figures = append(figures, headed("PUSH", pushed)...)
		}
		figures = append(figures, headed(fmt.Sprintf("FETCH+ACK, workers: %d", workers), worked)...)
	}
	return figures, nil
}

// headed puts what was measured before the figures' names.
func headed(what string, figures []figure) []figure {
	for i := range figures {
		figures[i].name = what + figures[i].name
	}
	return figures
}

// measured makes n calls, and then waits for what they leave to do, which counts for the CPU and not for the rate.
func (f *fakServer) measured(ctx context.Context, n int, calls func() (time.Duration, error), rest func() error) (
	[]figure, error,
) {
	redisBefore, err := f.redis.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	before, err := f.cpu()
	if err != nil {
		return nil, err
	}
	took, err := calls()
	if err != nil {
		return nil, err
	}
	if rest != nil {
		if err := rest(); err != nil {
			return nil, err
		}
	}
	after, err := f.cpu()
	if err != nil {
		return nil, err
	}
	redisAfter, err := f.redis.redisCPU(ctx)
	figures := []figure{{"", "jobs/s", perSecond(n, took)}, {", redis cpu", "us/job", micros(redisAfter-redisBefore, n)}}
	if f.pid != 0 {
		figures = append(figures, figure{", server cpu", "us/job", micros(after-before, n)})
	}
	return figures, err
}

func (f *fakServer) cpu() (time.Duration, error) {
	if f.pid == 0 {
		return 0, nil
	}
	return processCPU(f.pid)
}

// pushAll pushes n jobs whose jids begin with first, and returns how long that took.
func (f *fakServer) pushAll(ctx context.Context, first, n int) (time.Duration, error) {
	conns, end, err := dialFaktories(ctx, f.addr, fakPushers, 0)
	if err != nil {
		return 0, err
	}
	defer end()
	numbers := make([]int, fakPushers) // of the next job, by connection
	return together(ctx, fakPushers, n, func(client int) error {
		i := numbers[client]
		numbers[client]++
		return conns[client].push(fmt.Sprintf("%08x%04x%08x", first, client, i))
	})
}

// workAll fetches and ends n jobs, which wait, over connections of so many workers, and
// returns how long that took. Each job must come once.
func (f *fakServer) workAll(ctx context.Context, workers, n int) (time.Duration, error) {
	conns, end, err := dialFaktories(ctx, f.addr, fakFetches, workers)
	if err != nil {
		return 0, err
	}
	defer end()
	took, err := together(ctx, fakFetches, n, func(client int) error { return conns[client].work() })
	if err != nil {
		return 0, err
	}
	var all []string
	for _, c := range conns {
		all = append(all, c.got...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != n {
		return 0, fmt.Errorf("%d different jobs came in %d fetches", len(all), n)
	}
	return took, nil
}
