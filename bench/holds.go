package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	holdsSlots  = 16
	holdsOwn    = 2    // of PAID
	holdsPublic = 1000 // jobs that wait for the other slots
)

// holdsBench measures what own slots and a pause promise. A thousand PUBLIC jobs of half a minute hold all common
// slots; how long PAID jobs, one a second, wait until they start: with slots of their own, and for comparison on an
// idle server. And how long after the answer to a pause of a tier, whose jobs are claimed as fast as they can be, the
// last claim of it is, and until the server says that it is in force.
func holdsBench(ctx context.Context, l *lab) (figures []figure, err error) {
	database, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	s, err := l.launch(ctx, "holds", "api,worker,recovery", append(env, fmt.Sprintf("TIERQ_WORKERS=%d", holdsSlots),
		"TIERQ_CAPACITY=1000000", "TIERQ_INSECURE=on"))
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	m := newMix(s.addr)
	for i, tier := range []string{"PAID", "UNPAID", "PUBLIC"} {
		own := 0
		if tier == "PAID" {
			own = holdsOwn
		}
		plan := fmt.Sprintf(`{"priority": %d, "maxRetries": 1, "heartbeatTimeoutMs": 6000, "maxProcessingTimeMs": 120000,
			"share": 100, "ownSlots": %d, "backoff": {"baseMs": 0, "factor": 1, "capMs": 0, "jitter": 0}}`, i+1, own)
		if err := m.must(ctx, http.MethodPut, "/admin/tiers/"+tier, plan, http.StatusOK); err != nil {
			return nil, err
		}
	}
	n := l.scaled(60, 5)
	for _, part := range []string{"idle", "beside 1,000 PUBLIC jobs of 30 s"} {
		if part != "idle" {
			body := fmt.Sprintf(`{"payload":{"steps":[{"type":"SLEEP","durationMs":%d}]}}`,
				max(l.scaledTime(30*time.Second), 8*time.Second).Milliseconds())
			if err := m.batchOf(ctx, "public", body, holdsPublic); err != nil {
				return nil, err
			}
			if err := pause(ctx, time.Second); err != nil {
				return nil, err
			}
		}
		// A job's arrival is in whole milliseconds, so it may be a little before the time that the database tells.
		var from string
		if err := l.db.QueryRowContext(ctx, "SELECT UTC_TIMESTAMP(6) - INTERVAL 5000 MICROSECOND").Scan(&from); err != nil {
			return nil, fmt.Errorf("read the time: %w", err)
		}
		for range n {
			if err := m.must(ctx, http.MethodPost, "/paid/submit", `{"payload":`+mixWorks+`}`, http.StatusAccepted); err != nil {
				return nil, err
			}
			if err := pause(ctx, l.scaledTime(time.Second)); err != nil {
				return nil, err
			}
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return nil, err
		}
		waits, err := l.durations(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, arrived_at, first_tried_at) FROM "+database+
			".job_results WHERE tier = 'PAID' AND arrived_at >= ?", from)
		if err != nil {
			return nil, fmt.Errorf("read the waits: %w", err)
		}
		if len(waits) != n {
			return nil, fmt.Errorf("%s: %d of %d PAID jobs have run", part, len(waits), n)
		}
		figures = append(figures, figure{"PAID waits, " + part + ", p50", "ms", millis(quantile(waits, 0.5))},
			figure{"PAID waits, " + part + ", p99", "ms", millis(quantile(waits, 0.99))})
	}
	more, err := l.pauseUnderLoad(ctx, database, m)
	return append(figures, more...), err
}

// pauseUnderLoad pauses PAID while its two own slots run its jobs as fast as they can.
func (l *lab) pauseUnderLoad(ctx context.Context, database string, m *mix) (figures []figure, err error) {
	if err := m.batchOf(ctx, "paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}}`,
		l.scaled(20000, 8000)); err != nil {
		return nil, err
	}
	if err := pause(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	if err := m.must(ctx, http.MethodPut, "/admin/paused/tier:PAID", `{"reason":"bench"}`, http.StatusOK); err != nil {
		return nil, err
	}
	answered := time.Now()
	for {
		_, answer, err := m.send(ctx, http.MethodGet, "/admin/paused", nil)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(answer, []byte(`"inForce":true`)) {
			break
		}
		if time.Since(answered) > 10*time.Second {
			return nil, fmt.Errorf("the pause is not in force: %s", answer)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return nil, err
		}
	}
	known := time.Since(answered)
	if err := pause(ctx, 3*time.Second); err != nil {
		return nil, err
	}
	var after int
	var last float64
	row := l.db.QueryRowContext(ctx, "SELECT COUNT(*), COALESCE(MAX(UNIX_TIMESTAMP(first_tried_at)), 0) FROM "+database+
		".job_results WHERE tier = 'PAID'")
	if err := row.Scan(&after, &last); err != nil {
		return nil, fmt.Errorf("read the last claim: %w", err)
	}
	if _, answer, err := m.send(ctx, http.MethodGet, "/api/stats", nil); err != nil {
		return nil, err
	} else if bytes.Contains(answer, []byte(`"tier":"PAID","depth":0,`)) {
		return nil, errors.New("no PAID job was left to be paused")
	}
	late := last*1000 - float64(answered.UnixNano())/1e6
	return []figure{
		{"a pause: last claim after its answer", "ms", late}, {"a pause: known to be in force after", "ms", millis(known)},
	}, m.must(ctx, http.MethodDelete, "/admin/paused/tier:PAID", "", http.StatusNoContent)
}

// must makes a call that is answered with a status.
func (m *mix) must(ctx context.Context, method, path, body string, want int) error {
	status, answer, err := m.send(ctx, method, path, []byte(body))
	if err == nil && status != want {
		err = fmt.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	return err
}

// batchOf submits n jobs with the same body, all of which the server must accept.
func (m *mix) batchOf(ctx context.Context, tier, body string, n int) error {
	for n > 0 {
		size := min(n, 1000)
		n -= size
		list := bytes.Repeat([]byte(","+body), size)
		list[0] = '['
		status, answer, err := m.send(ctx, http.MethodPost, "/"+tier+"/submit/batch", append(list, ']'))
		if err != nil {
			return err
		}
		if status != http.StatusAccepted || bytes.Contains(answer, []byte("errorCode")) {
			return fmt.Errorf("a batch was answered %d: %.300s", status, answer)
		}
	}
	return nil
}
