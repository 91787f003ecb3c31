package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drainBench lets one server process drain what was queued before it started, with the default retention and with none.
func drainBench(ctx context.Context, l *lab) (figures []figure, err error) {
	for _, retention := range []string{"24h", "0s"} {
		more, err := l.drain(ctx, retention)
		if err != nil {
			return nil, fmt.Errorf("retention %s: %w", retention, err)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

func (l *lab) drain(ctx context.Context, retention string) ([]figure, error) {
	n := l.scaled(200000, 2000)
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	before, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.enqueue(ctx, n); err != nil {
		return nil, err
	}
	queued, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	callsBefore, _, err := l.scriptStats(ctx)
	if err != nil {
		return nil, err
	}
	launched := time.Now()
	s, err := l.launch(ctx, "drain-"+retention, "worker,recovery", append(env, "TIERQ_WORKERS=100", "TIERQ_RETENTION="+retention))
	if err != nil {
		return nil, err
	}
	took, drained, watching := l.watchDrain(ctx, s, n)
	cpu, stopping := s.stop()
	if err := errors.Join(watching, stopping); err != nil {
		return nil, err
	}
	if drained == 0 { // all at the first look: the start is in it
		took, drained = time.Since(launched), n
	}
	after, err := l.redisCPU(ctx)
	if err != nil {
		return nil, err
	}
	calls, _, err := l.scriptStats(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.allThere(ctx, database, n); err != nil {
		return nil, err
	}
	name := "retention " + retention + ": "
	figures := []figure{
		{name + "drained, rows in MariaDB", "jobs/s", perSecond(drained, took)},
		{name + "redis cpu per whole life", "us/job", micros(after-before, n)},
		{name + "claim, complete and acknowledge, jobs a call", "jobs", 3 * float64(n) / float64(calls-callsBefore)},
		{name + "redis cpu of the submit by 100", "us/job", micros(queued-before, n)},
	}
	if cpu > 0 {
		figures = append(figures, figure{name + "server cpu, start included", "us/job", micros(cpu, n)})
	}
	return figures, nil
}

// watchDrain returns how many jobs were acknowledged after the first ones were seen to be, and in what time.
func (l *lab) watchDrain(ctx context.Context, s *server, n int) (took time.Duration, drained int, err error) {
	var began time.Time
	first := 0
	err = until(ctx, "drain", func() (bool, error) {
		select {
		case <-s.done:
			return false, errors.New("the server ended")
		default:
		}
		done, err := l.counter(ctx, "acknowledged")
		if err != nil {
			return false, err
		}
		if done > 0 && began.IsZero() {
			began, first = time.Now(), done
		}
		return done >= n, nil
	})
	return time.Since(began), n - first, err
}

// allThere counts the rows: one per job, in both tables, and nothing failed.
func (l *lab) allThere(ctx context.Context, database string, n int) error {
	for table, want := range map[string]int{"job_results": n, "job_outcomes": n, "failed_jobs": 0} {
		rows, err := l.count(ctx, "SELECT COUNT(*) FROM "+database+"."+table)
		if err != nil {
			return err
		}
		if rows != want {
			return fmt.Errorf("%s has %d rows, not %d", table, rows, want)
		}
	}
	return nil
}
