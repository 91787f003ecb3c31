package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/queue"
)

// fragmentsBench fills a Redis with a million jobs, one of ten of which is delayed by hours, drains the others, and
// waits until what is kept of them has expired: what Redis then holds, and what of the machine's memory it takes. Where
// Redis has active defragmentation, it is then on for some seconds.
func fragmentsBench(ctx context.Context, l *lab) (figures []figure, err error) {
	retention := time.Duration(l.scaled(20_000, 500)) * time.Millisecond
	p, err := openPool(ctx, retention)
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return nil, err
	}
	n := l.scaled(1_000_000, 1000)
	state := func(name string) error {
		m, err := p.memory(ctx)
		figures = append(figures, m.figures(name)...)
		return err
	}
	for p.n < n*9/10 {
		if _, err := p.put(ctx, 90, 0, mixed...); err != nil {
			return nil, err
		}
		if _, err := p.put(ctx, 10, 10*time.Hour, mixed...); err != nil {
			return nil, err
		}
		p.n += 90
	}
	if err := state("filled: "); err != nil {
		return nil, err
	}
	if err := p.drainAll(ctx); err != nil {
		return nil, err
	}
	if err := state("drained, ended jobs kept: "); err != nil {
		return nil, err
	}
	err = until(ctx, "what is kept of ended jobs expires", func() (bool, error) {
		slices := p.client.Scan(ctx, 0, queue.Key(0, "ended")+"*", 10_000).Iterator()
		return !slices.Next(ctx), slices.Err()
	})
	if err != nil {
		return nil, err
	}
	if err := state("expired, a tenth lives: "); err != nil {
		return nil, err
	}
	if err := p.client.ConfigSet(ctx, "activedefrag", "yes").Err(); err != nil {
		return append(figures, figure{"active defragmentation: this Redis has none", "", 0}), nil
	}
	for _, s := range [][2]string{{"active-defrag-ignore-bytes", "1mb"}, {"active-defrag-threshold-lower", "5"}} {
		if err := p.client.ConfigSet(ctx, s[0], s[1]).Err(); err != nil {
			return nil, fmt.Errorf("set %s: %w", s[0], err)
		}
	}
	stall, err := p.stall(ctx, func() error {
		select {
		case <-time.After(retention):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, err
	}
	figures = append(figures, figure{"active defragmentation: longest stall", "ms", millis(stall)})
	return figures, state("active defragmentation: ")
}

// memory is what Redis says of its memory, by INFO's names.
type memory map[string]float64

func (p *pool) memory(ctx context.Context) (memory, error) {
	text, err := p.client.Info(ctx, "memory").Result()
	if err != nil {
		return nil, fmt.Errorf("info memory: %w", err)
	}
	m := memory{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = v
		}
	}
	return m, nil
}

// figures are what is used, what the process takes of the machine, and the second over the first.
func (m memory) figures(name string) []figure {
	used, resident := m["used_memory"], m["used_memory_rss"]
	return []figure{
		{name + "used", "MiB", used / (1 << 20)}, {name + "resident", "MiB", resident / (1 << 20)},
		{name + "resident over used", "x", resident / max(used, 1)},
		{name + "the allocator's fragmentation", "x", m["allocator_frag_ratio"]},
	}
}
