package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// embeddedBench submits jobs over HTTP to a server in embedded mode whose handlers wait, then lets them go. Its Redis
// cannot be reached from outside: the drain is measured by its rows in SQLite.
func embeddedBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(10000, 500) // what the default capacity lets in
	data, err := os.MkdirTemp(l.dir, "embedded-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	gate := make(chan struct{})
	handlers := func(r *handler.Registry) {
		handler.Register(r, "BENCH", func(ctx context.Context, in stamp) (stamp, error) {
			select {
			case <-gate:
				return in, nil
			case <-ctx.Done():
				return in, context.Cause(ctx)
			}
		})
	}
	s, err := inside([]string{
		"TIERQ_DATA_DIR=" + data, "TIERQ_ADDR=" + addr, "TIERQ_WORKERS=100", fmt.Sprintf("TIERQ_CAPACITY=%d", max(n, 1000)),
		"TIERQ_LOG_LEVEL=warn",
	}, handlers)
	if err != nil {
		return nil, err
	}
	s.addr = addr
	if err := s.answers(ctx); err != nil {
		return nil, err
	}
	if l.profile != "" {
		if s, err = l.profiled("embedded", s); err != nil {
			return nil, err
		}
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	// the driver comes with the archive
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(data, "tierq.sqlite")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	defer db.Close()

	took, times, err := load(ctx, addr, 64, n, request(addr, `{"type":"BENCH","payload":`+pad(`{"n":1}`)+`}`))
	if err != nil {
		return nil, err
	}
	close(gate)
	released := time.Now()
	var began time.Time
	first := 0
	err = until(ctx, "drain", func() (bool, error) {
		var rows int
		if err := db.QueryRowContext(ctx, "SELECT COALESCE(MAX(rowid), 0) FROM job_results").Scan(&rows); err != nil {
			return false, fmt.Errorf("count rows: %w", err)
		}
		if rows > 0 && began.IsZero() {
			began, first = time.Now(), rows
		}
		return rows >= n, nil
	})
	if err != nil {
		return nil, err
	}
	drained := n - first
	if drained == 0 {
		began, drained = released, n
	}
	rate := perSecond(drained, time.Since(began))
	var rows int
	if err := db.QueryRowContext(ctx,
		"SELECT COUNT(*) FROM job_results").Scan(&rows); err != nil {
		return nil, fmt.Errorf("count rows: %w", err)
	}
	if rows != n {
		return nil, fmt.Errorf("%d rows for %d jobs", rows, n)
	}
	return []figure{
		{"64 connections: submits", "per s", perSecond(n, took)},
		{"64 connections: p99", "ms", millis(quantile(times, 0.99))},
		{"drained, rows in SQLite", "jobs/s", rate},
	}, nil
}
