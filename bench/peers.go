package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pickupRate is how many jobs a second the latencies are measured at.
const pickupRate = 200

// A discipline is one kind of work that every contender is asked for. run appends figures under its names; errNone if
// the engine has no such thing.
type discipline struct {
	run   func(context.Context, *field, contender) ([]float64, error)
	names []named
}

// named is a figure's name and unit; less says that less of it is better.
type named struct {
	name, unit string
	less       bool
}

var disciplines = []discipline{
	{enqueueWith(1, 20000), []named{{enqueue1, "per s", false}}},
	{enqueueWith(16, 100000), []named{{enqueue16, "per s", false}}},
	{enqueueWith(64, 100000), []named{{enqueue64, "per s", false}}},
	{measureBulk, []named{{bulkRate, "jobs/s", false}}},
	{measureDrain, []named{{drainRate, "jobs/s", false}, {redisCPU, "us", true}}},
	{measurePickup, []named{{pickup50, "ms", true}, {pickup99, "ms", true}}},
	{measureResult, []named{{result50, "ms", true}, {result99, "ms", true}, {durable50, "ms", true},
		{durable99, "ms", true}}},
	{measureBytes, []named{{bytesQueued, "B", true}}},
}

const (
	enqueue1    = "enqueue, 1 client"
	enqueue16   = "enqueue, 16 clients"
	enqueue64   = "enqueue, 64 clients"
	bulkRate    = "bulk enqueue"
	drainRate   = "drain"
	redisCPU    = "Redis CPU per job, whole life"
	pickup50    = "pick-up at 200/s, p50"
	pickup99    = "pick-up at 200/s, p99"
	result50    = "sent to result read, p50"
	result99    = "sent to result read, p99"
	durable50   = "sent to row in SQL, p50"
	durable99   = "sent to row in SQL, p99"
	bytesQueued = "memory per queued job"
)

// resulter is a contender whose results can be waited for.
type resulter interface {
	// results submits n jobs, one after the other, each once the one before is in SQL. It returns each one's time from its
	// sending until its result was read, and until its row could be.
	results(ctx context.Context, n int) (readable, durable []time.Duration, err error)
}

// field is who takes part.
type field struct {
	l        *lab
	in       []contender
	abouts   []string // who takes part and how, and who does not and why
	settings map[string][]string
}

// peersBench asks every contender for the same work, measure by measure, each in its turn; each run begins with another
// one.
func peersBench(ctx context.Context, l *lab) (figures []figure, err error) {
	if l.field == nil {
		f := &field{l: l, settings: map[string][]string{}}
		l.field = f
		if err := f.open(ctx); err != nil {
			return nil, err
		}
	}
	f := l.field
	l.report = f.report
	for _, m := range disciplines {
		for i := range f.in {
			c := f.in[(i+l.turn)%len(f.in)]
			values, err := f.ask(ctx, m, c)
			if errors.Is(err, errNone) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", m.names[0].name, c.name(), err)
			}
			for k, v := range values {
				// 0 = it has no Redis. A pick-up of 0 is one that began before the answer was read
				if v > 0 || m.names[k].name != redisCPU {
					figures = append(figures, figure{cell(m.names[k].name, c.name()), m.names[k].unit, v})
				}
			}
		}
	}
	return figures, nil
}

// cell names a measure of a contender among the figures.
func cell(measure, contender string) string { return measure + ": " + contender }

func (f *field) open(ctx context.Context) error {
	for _, make := range peers {
		c := make()
		about, err := c.open(ctx, f.l)
		switch {
		case errors.Is(err, errLeftOut):
			f.abouts = append(f.abouts, fmt.Sprintf("%-20s %v", c.name(), err))
			if err := c.close(); err != nil {
				return fmt.Errorf("close %s: %w", c.name(), err)
			}
			continue
		case err != nil:
			return errors.Join(fmt.Errorf("open %s: %w", c.name(), err), c.close())
		}
		f.in = append(f.in, c)
		f.abouts = append(f.abouts, fmt.Sprintf("%-20s %s", c.name(), about))
	}
	return nil
}

func (f *field) close() error {
	var errs []error
	for _, c := range f.in {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

func (f *field) ask(ctx context.Context, m discipline, c contender) ([]float64, error) {
	if err := c.reset(ctx); err != nil {
		return nil, fmt.Errorf("reset: %w", err)
	}
	return m.run(ctx, f, c)
}

func enqueueWith(clients, n int) func(context.Context, *field, contender) ([]float64, error) {
	return func(ctx context.Context, f *field, c contender) ([]float64, error) {
		n := f.l.scaled(n, 200)
		took, err := c.enqueue(ctx, clients, n)
		return []float64{perSecond(n, took)}, err
	}
}

func measureBulk(ctx context.Context, f *field, c contender) ([]float64, error) {
	n := f.l.scaled(200000, 1000)
	took, err := c.bulk(ctx, n)
	return []float64{perSecond(n, took)}, err
}

func measureDrain(ctx context.Context, f *field, c contender) ([]float64, error) {
	n := f.l.scaled(200000, 1000)
	d, err := c.drain(ctx, n)
	if err != nil {
		return nil, err
	}
	if d.setting != "" {
		f.settings[c.name()] = append(f.settings[c.name()], d.setting)
	}
	jobs := d.jobs
	if jobs == 0 {
		jobs = n
	}
	return []float64{perSecond(jobs, d.took), micros(d.cpu, n)}, nil
}

func measurePickup(ctx context.Context, f *field, c contender) ([]float64, error) {
	times, err := c.pickup(ctx, pickupRate, f.l.scaled(2000, 40))
	return []float64{millis(quantile(times, 0.5)), millis(quantile(times, 0.99))}, err
}

func measureResult(ctx context.Context, f *field, c contender) ([]float64, error) {
	r, ok := c.(resulter)
	if !ok {
		return nil, errNone
	}
	readable, durable, err := r.results(ctx, f.l.scaled(2000, 40))
	return []float64{
		millis(quantile(readable, 0.5)), millis(quantile(readable, 0.99)), millis(quantile(durable, 0.5)),
		millis(quantile(durable, 0.99)),
	}, err
}

func measureBytes(ctx context.Context, f *field, c contender) ([]float64, error) {
	bytes, err := c.queuedBytes(ctx, f.l.scaled(50000, 500))
	return []float64{bytes}, err
}
