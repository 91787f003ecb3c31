package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drains are the settings that the bench drains with: as many slots as one claim takes, enough to keep three claims
// busy, and the latter without retention.
var drains = []struct {
	slots     int
	retention string
}{{100, "24h"}, {300, "24h"}, {300, "0s"}}

// drainBench lets one server process drain what was queued before it started.
func drainBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(200000, 2000)
	for _, set := range drains {
		database, env, err := l.fresh(ctx)
		if err != nil {
			return nil, err
		}
		d, err := l.drainOnce(ctx, database, env, n, set.slots, set.retention)
		name := fmt.Sprintf("%d slots, retention %s: ", set.slots, set.retention)
		if err != nil {
			return nil, fmt.Errorf("%s%w", name, err)
		}
		figures = append(figures, d.figures(name, n)...)
	}
	return figures, nil
}

// drainRun is what a server did with n jobs that waited.
type drainRun struct {
	jobs  int // ended within took
	took  time.Duration
	redis time.Duration // CPU of the whole life, queueing included
	queue time.Duration // of that, the queueing
	cpu   time.Duration // of the server, its start included; 0 if it ran inside this process
	calls int64         // of claim, complete and acknowledge
	sql   time.Duration // CPU of mariadbd
	files float64       // bytes of its tables
}

// drainOnce queues n jobs by the submit script, 100 a call, starts a server with roles worker,recovery, and waits until
// the last job is acknowledged. The stores are those that fresh returned, and empty.
func (l *lab) drainOnce(ctx context.Context, database string, env []string, n, slots int, retention string) (d drainRun,
	err error) {
	before, err := l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	if err := l.enqueue(ctx, n); err != nil {
		return d, err
	}
	queued, err := l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	callsBefore, _, err := l.scriptStats(ctx)
	if err != nil {
		return d, err
	}
	sqlBefore, err := l.sqlCPU()
	if err != nil {
		return d, err
	}
	launched := time.Now()
	s, err := l.launch(ctx, "drain-"+retention, "worker,recovery",
		append(env, fmt.Sprintf("TIERQ_WORKERS=%d", slots), "TIERQ_RETENTION="+retention))
	if err != nil {
		return d, err
	}
	var watching, stopping error
	d.took, d.jobs, watching = l.watchDrain(ctx, s, n)
	d.cpu, stopping = s.stop()
	if err := errors.Join(watching, stopping); err != nil {
		return d, err
	}
	if d.jobs == 0 { // all at the first look: the start is in it
		d.took, d.jobs = time.Since(launched), n
	}
	after, err := l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	calls, _, err := l.scriptStats(ctx)
	if err != nil {
		return d, err
	}
	d.redis, d.queue, d.calls = after-before, queued-before, calls-callsBefore
	sqlAfter, err := l.sqlCPU()
	if err != nil {
		return d, err
	}
	files, err := l.count(ctx, "SELECT SUM(FILE_SIZE) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE '"+
		database+"/%'")
	if err != nil {
		return d, err
	}
	d.sql, d.files = sqlAfter-sqlBefore, float64(files)
	return d, l.allThere(ctx, database, n)
}

func (d drainRun) figures(name string, n int) []figure {
	figures := []figure{
		{name + "drained, rows in MariaDB", "jobs/s", perSecond(d.jobs, d.took)},
		{name + "redis cpu per whole life", "us/job", micros(d.redis, n)},
		{name + "claim, complete and acknowledge, jobs a call", "jobs", 3 * float64(n) / float64(d.calls)},
		{name + "redis cpu of the submit by 100", "us/job", micros(d.queue, n)},
		{name + "mariadb cpu", "us/job", micros(d.sql, n)},
		{name + "mariadb files", "bytes/job", d.files / float64(n)},
	}
	if d.cpu > 0 {
		figures = append(figures, figure{name + "server cpu, start included", "us/job", micros(d.cpu, n)})
	}
	return figures
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

// allThere counts the rows: one per job, its result, and nothing failed.
func (l *lab) allThere(ctx context.Context, database string, n int) error {
	for table, want := range map[string]int{"job_results": n, "job_outcomes": 0, "failed_jobs": 0} {
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
