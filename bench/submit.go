package main

import (
	"context"
	"errors"
	"fmt"
)

// submitBench sends single submits over 1 and over 64 connections, to a server with some more settings.
func submitBench(ctx context.Context, l *lab, settings ...string) (figures []figure, err error) {
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "submit", "api", append(env, settings...))
	if err != nil {
		return nil, err
	}
	total := 0
	for _, c := range []struct{ connections, n int }{{1, l.scaled(20000, 200)}, {64, l.scaled(200000, 2000)}} {
		more, err := l.submits(ctx, s.addr, c.connections, c.n)
		if err != nil {
			_, stopping := s.stop()
			return nil, errors.Join(err, stopping)
		}
		figures = append(figures, more...)
		total += c.n
	}
	cpu, err := s.stop()
	if err != nil {
		return nil, err
	}
	if cpu > 0 {
		figures = append(figures, figure{"server cpu per submit, start included", "us", micros(cpu, total)})
	}
	queued, err := l.counter(ctx, "fresh")
	if err != nil {
		return nil, err
	}
	if want := total + warmUp*2; queued != want {
		return nil, fmt.Errorf("%d jobs are queued after %d submits were accepted", queued, want)
	}
	return figures, nil
}

// warmUp is how many submits go before each measured part.
const warmUp = 100

func (l *lab) submits(ctx context.Context, addr string, connections, n int) ([]figure, error) {
	body := request(addr, `{"type":"SIMULATION","payload":`+nothing+`}`)
	if _, _, err := load(ctx, addr, connections, warmUp, body); err != nil {
		return nil, err
	}
	before, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	took, times, err := load(ctx, addr, connections, n, body)
	if err != nil {
		return nil, err
	}
	after, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d connections: ", connections)
	return []figure{
		{name + "submits", "per s", perSecond(n, took)},
		{name + "p50", "ms", millis(quantile(times, 0.5))},
		{name + "p99", "ms", millis(quantile(times, 0.99))},
		{name + "redis cpu per submit", "us", micros(after-before, n)},
	}, nil
}
