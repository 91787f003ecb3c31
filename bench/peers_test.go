package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// nones says which disciplines an engine has not; every other figure is there. What an engine is not listed with, it
// may or may not have.
var nones = map[string][]string{
	tierqName: {},
	forgets: {enqueue1, enqueue16, enqueue64, bulkRate, pickup50, pickup99, result50, result99, durable50,
		durable99, bytesQueued},
	"bare protocol": {pickup50, pickup99, result50, result99, durable50, durable99, bytesQueued},
	"asynq":         {bulkRate, result50, result99, durable50, durable99},
	"asynq, results kept": {enqueue1, enqueue16, enqueue64, bulkRate, pickup50, pickup99, result50, result99, durable50,
		durable99, bytesQueued},
}

// Every engine does all its work at the smallest size, and each count is right: that is checked inside. An engine that
// is not here is named as left out.
func TestPeers(t *testing.T) {
	t.Parallel()
	testkit.Calm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	var out bytes.Buffer
	smallest := options{only: regexp.MustCompile("^peers$"), scale: 0.001, runs: 1}
	results, err := measure(ctx, smallest, &out)
	for tries := 1; tries < 4 && errors.Is(err, errRefused); tries++ {
		t.Logf("the machine was too busy: %v", err)
		out.Reset()
		results, err = measure(ctx, smallest, &out)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	said, table := out.String(), results["peers"]
	for _, make := range peers {
		name := make().name()
		if strings.Contains(said, errLeftOut.Error()+": "+name) ||
			regexp.MustCompile(`(?m)^ +`+regexp.QuoteMeta(name)+` +`+errLeftOut.Error()).MatchString(said) {
			if nones[name] != nil {
				t.Errorf("%s was left out, and needs nothing that is not here", name)
			}
			continue
		}
		if len(table.values[cell(drainRate, name)]) != 1 && name != riverCopies {
			t.Errorf("%s did not drain, and is not named as left out", name)
		}
		if nones[name] == nil {
			continue
		}
		for _, d := range disciplines {
			for _, n := range d.names {
				if got, want := len(table.values[cell(n.name, name)]), 1; slices.Contains(nones[name], n.name) != (got == 0) ||
					got > want {
					t.Errorf("%s of %s has %d figures", n.name, name, got)
				}
			}
		}
	}
	for _, g := range goals {
		if !strings.Contains(said, "["+g.why+"]") {
			t.Errorf("the goal %q is not in the report", g.why)
		}
	}
	if t.Failed() {
		t.Log(said)
	}
}

func TestVerdict(t *testing.T) {
	table := newTable()
	for _, run := range [][3]float64{{100, 20, 0.2}, {100, 30, 0.9}, {90, 18, 0.3}} {
		table.add([]figure{{cell("work", "tierq"), "", run[0]}, {cell("work", "Peer 1.0"), "", run[1]},
			{cell("wait", "tierq"), "", run[2]}})
	}
	names := []string{"tierq", "Peer 1.0", "Other"}
	for want, g := range map[string]goal{
		"met    work: tierq / peer >= 4.00 5.00 (5.00 3.33 5.00)": {"work", "tierq", "peer", 4, 0, ""},
		"missed work: tierq / peer >= 6.00 5.00 (5.00 3.33 5.00)": {"work", "tierq", "peer", 6, 0, ""},
		"met    work: tierq >= 100.0 100.0 (100.0 100.0 90.00)":   {"work", "tierq", "", 100, 0, ""},
		"missed work: tierq >= 101.0 100.0 (100.0 100.0 90.00)":   {"work", "tierq", "", 101, 0, ""},
		"met    wait: tierq <= 0.30 0.30 (0.20 0.90 0.30)":        {"wait", "tierq", "", 0, 0.3, ""},
		"missed wait: tierq <= 0.29 0.30 (0.20 0.90 0.30)":        {"wait", "tierq", "", 0, 0.29, ""},
		"?      work: tierq / other >= 4.00 not measured":         {"work", "tierq", "other", 4, 0, ""},
		"?      work: tierq / nobody >= 4.00 not measured":        {"work", "tierq", "nobody", 4, 0, ""},
	} {
		word, rest := g.verdict(table, names)[:7], g.verdict(table, names)[7:]
		got := word + strings.Join(strings.Fields(strings.TrimSuffix(rest, "[]")), " ")
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestTogether(t *testing.T) {
	made := make([]int, 4)
	if _, err := together(t.Context(), 4, 100, func(c int) error { made[c]++; return nil }); err != nil {
		t.Fatal(err)
	}
	if sum := made[0] + made[1] + made[2] + made[3]; sum != 100 {
		t.Errorf("%d calls of 100", sum)
	}
	broken := errors.New("broken")
	if _, err := together(t.Context(), 2, 10, func(int) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("an error became %v", err)
	}
}

// A job that starts twice is no pick-up, and one that starts before its answer was read took no time.
func TestPickups(t *testing.T) {
	const n = 5
	for name, twice := range map[string]bool{"once": false, "twice": true} {
		t.Run(name, func(t *testing.T) {
			starts := make(chan start, 2*(n+warmSubmits))
			times, err := pickups(t.Context(), 10000, n, starts, func(i int) (time.Time, error) {
				now := time.Now()
				starts <- start{i, now.Add(time.Duration(i-warmSubmits-2) * time.Second)}
				if twice && i == 3 {
					starts <- start{i, now}
				}
				return now, nil
			})
			if twice {
				if err == nil {
					t.Error("a second start passed")
				}
				return
			}
			if want := []time.Duration{0, 0, 0, time.Second, 2 * time.Second}; err != nil || !slices.Equal(times, want) {
				t.Errorf("got %v, %v, want %v", times, err, want)
			}
		})
	}
}
