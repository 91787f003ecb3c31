package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The mix of the long run: 60 % PUBLIC, 30 % UNPAID, 10 % PAID; 5 % of all fail, one in a thousand hangs. Plans and
// retention are scaled to seconds, so that everything that has an end comes to it within the warm-up.
const (
	mixSlots    = 100
	mixWork     = 5 * time.Millisecond // what a job that neither fails nor hangs takes
	mixMaximum  = 2 * time.Second      // maxProcessingTime: a job that hangs is stopped then, twice
	mixKept     = time.Minute          // retention; the server takes no shorter one
	mixShare    = 0.7                  // of the mix's own maximum
	mixCapacity = 20000
)

// mixBench runs the mix at its own maximum for a moment, and then at 70 % of that for ten minutes, of which the first
// ones are the warm-up. What the process and Redis hold must be flat: the last third beside the first.
func mixBench(ctx context.Context, l *lab) (figures []figure, err error) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	ops, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "mix", "api,worker,recovery",
		append(env, "TIERQ_OPS_ADDR="+ops, fmt.Sprintf("TIERQ_WORKERS=%d", mixSlots),
			"TIERQ_RETENTION="+mixKept.String(), "TIERQ_FAILED_RETENTION="+mixKept.String(),
			fmt.Sprintf("TIERQ_CAPACITY=%d", mixCapacity)))
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	m := newMix(s.addr)
	if err := m.plans(ctx); err != nil {
		return nil, err
	}

	most, err := m.maximum(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("the mix's maximum: %w", err)
	}
	rate := most * mixShare
	warm, long := l.scaledTime(2*time.Minute), l.scaledTime(10*time.Minute)
	running, stop := context.WithCancel(ctx)
	defer stop()
	sending := make(chan error, 1)
	go func() { sending <- m.steady(running, rate) }()
	if err := wait(ctx, warm, sending); err != nil {
		return nil, err
	}
	var from string
	if err := l.db.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&from); err != nil {
		return nil, fmt.Errorf("read the time: %w", err)
	}
	first := m.accepted.Load()
	ended, err := l.outcomes(ctx, database)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	g, err := l.watch(ctx, ops, long, sending)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	after, err := l.outcomes(ctx, database)
	if err != nil {
		return nil, err
	}
	accepted := int(m.accepted.Load() - first)
	stop()
	if err := <-sending; err != nil {
		return nil, err
	}
	figures = []figure{
		{"the mix's maximum", "jobs/s", most},
		{"accepted, of 70 % of that", "jobs/s", perSecond(accepted, took)},
		{"ended", "jobs/s", perSecond(after-ended, took)},
		{"refused", "jobs", float64(m.refused.Load())},
	}
	waits, err := l.waits(ctx, database, from)
	if err != nil {
		return nil, err
	}
	figures = append(append(figures, waits...), g.figures()...)
	return figures, l.mixEnds(ctx, database, m)
}

// wait lets the load run for a time, unless it ends by itself.
func wait(ctx context.Context, d time.Duration, sending chan error) error {
	select {
	case err := <-sending:
		return errors.Join(errors.New("the load ended by itself"), err)
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waits are the times from arrival to the first claim of what arrived since.
func (l *lab) waits(ctx context.Context, database, from string) (figures []figure, err error) {
	for _, tier := range []string{"PAID", "UNPAID", "PUBLIC"} {
		all, err := l.durations(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, arrived_at, first_tried_at) FROM "+database+
			".job_results WHERE tier = ? AND arrived_at >= ?", tier, from)
		if err != nil {
			return nil, fmt.Errorf("read the waits: %w", err)
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("no %s job completed", tier)
		}
		figures = append(figures, figure{tier + " wait, p50", "ms", millis(quantile(all, 0.5))},
			figure{tier + " wait, p99", "ms", millis(quantile(all, 0.99))})
	}
	return figures, nil
}

// durations reads a column of microseconds.
func (l *lab) durations(ctx context.Context, query string, args ...any) (all []time.Duration, err error) {
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var us int64
		if err := rows.Scan(&us); err != nil {
			return nil, err
		}
		all = append(all, time.Duration(us)*time.Microsecond)
	}
	return all, rows.Err()
}

// outcomes counts what ended: a completed job's row is its result, any other outcome is a row of job_outcomes.
func (l *lab) outcomes(ctx context.Context, database string) (int, error) {
	return l.count(ctx, "SELECT (SELECT COUNT(*) FROM "+database+".job_results) + (SELECT COUNT(*) FROM "+database+
		".job_outcomes)")
}

// mixEnds waits until everything that was accepted has ended: one outcome each.
func (l *lab) mixEnds(ctx context.Context, database string, m *mix) error {
	got := 0
	err := until(ctx, "everything ends", func() (done bool, err error) {
		got, err = l.outcomes(ctx, database)
		return got >= int(m.accepted.Load()), err
	})
	if err == nil && (got != int(m.accepted.Load()) || m.unknown.Load() > 0) {
		err = fmt.Errorf("%d outcomes of %d accepted jobs, and of %d it is not known whether they were", got,
			m.accepted.Load(), m.unknown.Load())
	}
	if err != nil {
		return fmt.Errorf("%d outcomes: %w", got, err)
	}
	return nil
}

// scaledTime is d at -scale 1, never below three seconds.
func (l *lab) scaledTime(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*l.scale), 3*time.Second)
}
