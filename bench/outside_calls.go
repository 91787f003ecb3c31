package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/worker"
)

// claimOver claims jobs over HTTP, at most 100, and returns their leases. It does not wait for jobs.
func claimOver(ctx context.Context, addr, name string, most int) (leases []string, err error) {
	body := fmt.Sprintf(`{"worker":%q,"queues":[%q],"max":%d,"leaseSeconds":3600}`, name, outsideQueue, most)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/worker/claim",
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer a.Body.Close()
	var answer struct {
		Jobs []struct {
			Lease string `json:"lease"`
		} `json:"jobs"`
	}
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("claim: %s", a.Status)
	}
	if err := json.NewDecoder(a.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	for _, j := range answer.Jobs {
		leases = append(leases, j.Lease)
	}
	return leases, nil
}

// workerCall is a call of a worker as bytes on the wire.
func workerCall(addr, verb, body string) []byte {
	return fmt.Appendf(nil, "POST /api/worker/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", verb, addr, len(body), body)
}

// ends claims jobs and then ends each by a request of its own, over 64 connections.
func (l *lab) ends(ctx context.Context, database string, s *server) ([]figure, error) {
	const connections = 64
	n := l.scaled(50000, 300)
	if err := l.enqueueOutside(ctx, n); err != nil {
		return nil, err
	}
	var requests [][]byte
	for len(requests) < n {
		leases, err := claimOver(ctx, s.addr, "ends", 100)
		if err != nil {
			return nil, err
		}
		if len(leases) == 0 {
			return nil, fmt.Errorf("%d of %d jobs were claimed", len(requests), n)
		}
		for _, lease := range leases {
			requests = append(requests, workerCall(s.addr, "complete", fmt.Sprintf(`{"lease":%q,"result":{}}`, lease)))
		}
	}
	before, err := processCPU(s.pid)
	if err != nil {
		return nil, err
	}
	var next atomic.Int64
	errs := make(chan error, connections)
	var group sync.WaitGroup
	began := time.Now()
	for range connections {
		group.Go(func() {
			c, err := dial(ctx, s.addr)
			if err != nil {
				errs <- err
				return
			}
			defer c.conn.Close()
			defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
			for i := next.Add(1) - 1; int(i) < n; i = next.Add(1) - 1 {
				status, body, err := c.ask(requests[i])
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("an end is answered %d %s", status, body)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	close(errs)
	for err := range errs {
		return nil, err
	}
	after, err := processCPU(s.pid)
	if err != nil {
		return nil, err
	}
	if err := until(ctx, "the rows", func() (bool, error) {
		rows, err := l.count(ctx, "SELECT COUNT(*) FROM "+database+".job_results")
		return rows == n, err
	}); err != nil {
		return nil, err
	}
	return []figure{
		{"ends, one a request, 64 connections", "per s", perSecond(n, took)},
		{"cpu of the server per end", "us", micros(after-before, n)},
	}, nil
}

// held measures what claims that wait cost one process.
func (l *lab) held(ctx context.Context, _ string, s *server) ([]figure, error) {
	n, rest := l.scaled(2000, 20), time.Duration(l.scaled(20, 1))*time.Second
	empty, err := resident(s.pid)
	if err != nil {
		return nil, err
	}
	var waiting []*caller
	defer func() {
		for _, c := range waiting {
			_ = c.conn.Close() // its claim ends with it
		}
	}()
	for i := range n {
		c, err := dial(ctx, s.addr)
		if err != nil {
			return nil, err
		}
		waiting = append(waiting, c)
		body := fmt.Sprintf(`{"worker":"held-%d","queues":[%q],"wait":"60s","claimId":"c%d"}`, i, outsideQueue, i)
		if _, err := c.conn.Write(workerCall(s.addr, "claim", body)); err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
	}
	if err := pause(ctx, min(rest, 5*time.Second)); err != nil { // they arrive, and the garbage of that is collected
		return nil, err
	}
	before, err := processCPU(s.pid)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, rest); err != nil {
		return nil, err
	}
	after, err := processCPU(s.pid)
	if err != nil {
		return nil, err
	}
	full, err := resident(s.pid)
	if err != nil {
		return nil, err
	}
	for i, c := range waiting {
		if c.reader.Buffered() > 0 {
			return nil, fmt.Errorf("claim %d does not wait any more", i)
		}
	}
	return []figure{
		{fmt.Sprintf("%d held claims: cpu at rest", n), "% core", 100 * (after - before).Seconds() / rest.Seconds()},
		{fmt.Sprintf("%d held claims: resident", n), "MiB", full / (1 << 20)},
		{"a held claim: resident", "KiB", (full - empty) / 1024 / float64(n)},
	}, nil
}

// resident reads how many bytes of memory a process has.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read a process' memory: %w", err)
	}
	_, after, found := bytes.Cut(text, []byte("VmRSS:"))
	fields := strings.Fields(string(after))
	if !found || len(fields) < 2 {
		return 0, errors.New("read a process' memory: /proc says too little")
	}
	kib, err := strconv.Atoi(fields[0])
	return float64(kib) * 1024, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pickupOutside measures from the answer of a submit to the start of its handler, in a worker of this process whose
// claim waits.
func (l *lab) pickupOutside(ctx context.Context, _ string, s *server) ([]figure, error) {
	n := l.scaled(2000, 60)
	type start struct {
		n  int
		at time.Time
	}
	starts := make(chan start, 2*n)
	w := worker.New("http://"+s.addr, []string{outsideQueue}, worker.WithConcurrency(outsideSlots))
	worker.Handle(w, "NOOP", func(_ context.Context, in stamp) (stamp, error) {
		starts <- start{in.N, time.Now()}
		return in, nil
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	sent, answered, err := paced(ctx, s.addr, "NOOP", outsideQueue, n)
	fromSent, fromAnswer := []time.Duration{}, []time.Duration{}
	for i := 0; i < n && err == nil; i++ {
		select {
		case at := <-starts:
			if at.n >= warmSubmits {
				fromSent, fromAnswer = append(fromSent, at.at.Sub(sent[at.n])), append(fromAnswer, at.at.Sub(answered[at.n]))
			}
		case <-time.After(patience):
			err = fmt.Errorf("%d of %d jobs started", i, n)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	stop()
	if stopping := <-ended; err == nil {
		err = stopping
	}
	return []figure{
		{"picked up over HTTP, answered to start, p50", "ms", millis(quantile(fromAnswer, 0.5))},
		{"picked up over HTTP, answered to start, p99", "ms", millis(quantile(fromAnswer, 0.99))},
		{"picked up over HTTP, sent to start, p50", "ms", millis(quantile(fromSent, 0.5))},
		{"picked up over HTTP, sent to start, p99", "ms", millis(quantile(fromSent, 0.99))},
	}, err
}
