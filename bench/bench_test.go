package main

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Every bench runs at smoke size and has all of its figures. TestPeers runs the bench peers; benches that run only when
// they are named are left out. The test asserts no speed. Each bench checks its own counts.
func TestSmoke(t *testing.T) {
	t.Parallel()
	testkit.Calm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	var out bytes.Buffer
	results, err := measure(ctx, options{only: regexp.MustCompile("^([^p]|pr)"), scale: 0.001, runs: 1}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for name, figures := range map[string][]string{
		"submit": {"1 connections: submits", "64 connections: submits", "64 connections: p99",
			"64 connections: redis cpu per submit"},
		"client": {"plain, 1 goroutine: submits", "gathering, 1 goroutine: p50", "plain, 64 goroutines: p99",
			"gathering, 64 goroutines: submits", "gathering, 64 goroutines: redis cpu per submit",
			"SubmitBatch, 1 goroutine: submits"},
		"drain": {"100 slots, retention 24h: drained, rows in MariaDB",
			"300 slots, retention 0s: drained, rows in MariaDB", "300 slots, retention 24h: redis cpu per whole life"},
		"embedded": {"drained, rows in SQLite"},
		"wakeup":   {"same process: sent to start, p50", "by the doorbell: sent to start, p99"},
		"flood": {
			"quiet: PAID accepted, p50", "limited flood: p99 beside quiet", "limited flood: PUBLIC refused",
			"unlimited flood: PUBLIC accepted", "busy documents: p99 beside quiet", "busy documents: PUBLIC refused",
		},
		"outside": {"the pool: drained", "a Go worker: drained", "a Node worker: drained",
			"ends, one a request, 64 connections", "20 held claims: resident",
			"20 workers' heartbeats: cpu of Redis", "picked up over HTTP, answered to start, p99"},
		"faktory": {"tierq: PUSH", "Faktory, AOF: PUSH, redis cpu", "PUSH, beside Faktory",
			"FETCH+ACK, workers: 1, beside Faktory", "FETCH+ACK, workers: 8, beside Faktory, AOF"},
		"memory": {"queued", "acknowledged, kept 24 h"},
		"growth": {"whole lives, 2 servers beside 1", "drained, 2 servers beside 1"},
		"layout": {"a shipped: cpu", "a shipped: cpu of claim", "c a slice per job: ended"},
	} {
		for _, figure := range figures {
			if results[name] == nil || len(results[name].values[figure]) != 1 {
				t.Errorf("%s has no figure %q", name, figure)
			} else if v := results[name].median(figure); v <= 0 {
				t.Errorf("%s: %s is %v", name, figure, v)
			}
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestLayouts(t *testing.T) {
	for _, v := range layouts {
		if _, err := v.derive(); err != nil {
			t.Error(err)
		}
	}
	if _, err := (layout{name: "stale", edits: map[string][]string{"claim": {"no such line", ""}}}).derive(); err == nil {
		t.Error("an edit that finds nothing passed")
	}
}

func TestMedian(t *testing.T) {
	table := newTable()
	for _, v := range []float64{30, 10, 20} {
		table.add([]figure{{"rate", "per s", v}})
	}
	if got := table.median("rate"); got != 20 {
		t.Errorf("the median of 30, 10, 20 is %v", got)
	}
}

func TestQuantile(t *testing.T) {
	d := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
}
