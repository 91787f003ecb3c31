package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// depthBench measures what each thing that tierq asks of Redis costs it with few jobs and with many, turn about: first
// with so many waiting, then with as many scheduled and as many ended ones beside them. A ratio is the cost with few
// over the cost with many: 1 is flat, and 0.8 the goal for claims and drain.
func depthBench(ctx context.Context, l *lab) (figures []figure, err error) {
	pools := make([]*pool, 2)
	for i, n := range []int{l.scaled(10_000, 500), l.scaled(1_000_000, 1000)} {
		pools[i], err = fillPool(ctx, n)
		defer func() { err = errors.Join(err, pools[i].close()) }()
		if err != nil {
			return nil, err
		}
	}
	few, many := pools[0], pools[1]
	figures = []figure{{"few", "jobs", float64(few.n)}, {"many", "jobs", float64(many.n)}}

	if err := turnAbout(pools, l.scaled(10, 1), func(p *pool) error { return p.drain(ctx, 4) }); err != nil {
		return nil, err
	}
	figures = append(figures, compared("waiting only, ", few, many)...)
	for _, p := range pools {
		if err := p.crowd(ctx); err != nil {
			return nil, err
		}
		if err := p.client.SlowLogReset(ctx).Err(); err != nil {
			return nil, fmt.Errorf("empty the slow log: %w", err)
		}
	}
	if err := turnAbout(pools, l.scaled(10, 1), func(p *pool) error { return p.round(ctx, 4) }); err != nil {
		return nil, err
	}
	figures = append(figures, compared("", few, many)...)
	slow, err := many.slow(ctx)
	return append(figures, slow...), err
}

// turnAbout measures both pools, one after the other, so many times; the first time, which fills the caches, does not
// count.
func turnAbout(pools []*pool, times int, do func(*pool) error) error {
	for i := range times + 1 {
		for _, p := range pools {
			if err := do(p); err != nil {
				return fmt.Errorf("%d jobs: %w", p.n, err)
			}
			if i == 0 {
				clear(p.spent)
			}
		}
	}
	return nil
}

// compared is what was measured, and forgets it.
func compared(prefix string, few, many *pool) (figures []figure) {
	var a, b cost
	for _, what := range few.order {
		f, m := few.spent[what], many.spent[what]
		figures = append(figures, figure{prefix + what + ": few", "cpu us", micros(f.cpu, f.times)},
			figure{prefix + what + ": many", "cpu us", micros(m.cpu, m.times)},
			figure{prefix + what + ": ratio", "x", micros(f.cpu, f.times) / max(micros(m.cpu, m.times), 0.01)})
		if slices.Contains([]string{"claim 100", "complete 100", "acknowledge 100"}, what) {
			a, b = a.plus(f), b.plus(m)
		}
	}
	for _, p := range []*pool{few, many} {
		clear(p.spent)
		p.order = nil
	}
	return append(figures, figure{prefix + "drain, claim to acknowledge: ratio of cpu", "x",
		micros(a.cpu, a.times) / micros(b.cpu, b.times)},
		figure{prefix + "drain, claim to acknowledge: ratio of rates", "x",
			micros(a.took, a.times) / micros(b.took, b.times)})
}

type cost struct {
	cpu, took time.Duration
	times     int
}

func (c cost) plus(d cost) cost { return cost{c.cpu + d.cpu, c.took + d.took, c.times + d.times} }

// measure adds what it costs Redis to do something so many times.
func (p *pool) measure(ctx context.Context, what string, times int, do func() error) error {
	before, err := p.cpu(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for range times {
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	took := time.Since(began)
	after, err := p.cpu(ctx)
	if _, known := p.spent[what]; !known && !slices.Contains(p.order, what) {
		p.order = append(p.order, what)
	}
	p.spent[what] = p.spent[what].plus(cost{after - before, took, times})
	return err
}

// cpu is what Redis' main thread has used: scripts and commands run nowhere else.
func (p *pool) cpu(ctx context.Context) (time.Duration, error) {
	text, err := p.client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, fmt.Errorf("info cpu: %w", err)
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		for _, field := range []string{"used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"} {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), field); ok {
				n, err := strconv.ParseFloat(v, 64)
				if err != nil {
					return 0, fmt.Errorf("info cpu: %w", err)
				}
				sum += n
			}
		}
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// slow is how many commands took Redis 10 ms or longer, by their names. On a machine that does other things too, most
// of them waited for a core.
func (p *pool) slow(ctx context.Context) ([]figure, error) {
	entries, err := p.client.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read the slow log: %w", err)
	}
	figures := []figure{{"commands of 10 ms or more", "", float64(len(entries))}}
	longest := time.Duration(0)
	for _, e := range entries {
		longest = max(longest, e.Duration)
	}
	return append(figures, figure{"the longest of them", "ms", millis(longest)}), nil
}
