package main

import (
	"testing"
	"time"
)

// The deep bench at smoke size: every job that was queued was drained, and every figure is there.
func TestDeepSmoke(t *testing.T) {
	t.Parallel()
	figures, err := deepBench(t.Context(), &lab{options: options{scale: 0.001}})
	if err != nil {
		t.Fatal(err)
	}
	positive(t, figures, "1000 waiting: claim 100, rate beside empty", "5000 waiting: memory",
		"10000 waiting: longest stall, at work", "10000 waiting: acknowledge 100, rate beside empty",
		"drained: rate, one connection", "drained: resident")
}

func TestFragmentsSmoke(t *testing.T) {
	t.Parallel()
	figures, err := fragmentsBench(t.Context(), &lab{options: options{scale: 0.001}})
	if err != nil {
		t.Fatal(err)
	}
	positive(t, figures, "filled: used", "drained, ended jobs kept: used", "expired, a tenth lives: resident over used")
}

func positive(t *testing.T, figures []figure, names ...string) {
	t.Helper()
	got := map[string]float64{}
	for _, f := range figures {
		got[f.name] = f.value
	}
	for _, name := range names {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

// A Redis that answers no client for 300 ms has a stall of about that.
func TestStall(t *testing.T) {
	t.Parallel()
	p, err := openPool(t.Context(), 0)
	defer func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	const long = 300 * time.Millisecond
	longest, err := p.stall(t.Context(), func() error {
		if err := p.client.Do(t.Context(), "CLIENT", "PAUSE", long.Milliseconds(), "ALL").Err(); err != nil {
			return err
		}
		return p.client.Ping(t.Context()).Err()
	})
	if err != nil || longest < long*2/3 {
		t.Fatalf("the longest stall is %v, %v", longest, err)
	}
}
