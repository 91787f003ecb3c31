package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// graveyard is a fake server with many dead letters. It counts at most 10,000 of them, as the server does.
type graveyard struct {
	*fake
	dead   int
	steps  int
	before func(step int)                             // called before a step is answered; may be nil
	fail   func(w http.ResponseWriter, step int) bool // answers a step instead and returns true; may be nil
}

func newGraveyard(t *testing.T, dead int) *graveyard {
	g := &graveyard{fake: newFake(t), dead: dead}
	g.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if r.Method != http.MethodPost {
			return false
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		var asked struct {
			DryRun bool
			Limit  int
		}
		if err := json.Unmarshal([]byte(body), &asked); err != nil || asked.Limit < 1 || asked.Limit > 10_000 {
			refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
			return true
		}
		matched, requeued := min(g.dead, 10_000), 0
		if !asked.DryRun {
			g.steps++
			if g.before != nil {
				g.before(g.steps)
			}
			if g.fail != nil && g.fail(w, g.steps) {
				return true
			}
			requeued = min(g.dead, asked.Limit)
			g.dead -= requeued
		}
		reply(w, http.StatusOK, obj{"matched": matched, "requeued": requeued})
		return true
	})
	return g
}

// A requeue continues beyond the server's largest count, until no dead letter is left or the user's limit is
// reached.
func TestRequeueBeyondTheCount(t *testing.T) {
	const counted = `{"matched":10000,"matchedOrMore":true,"requeued":0,"dryRun":true}` + "\n"
	for name, tc := range map[string]struct {
		dead           int
		args, out, err string
		left           int
	}{
		"all":            {25_300, "--all --yes", "25300 of 25300 requeued\n", "", 0},
		"exactly":        {10_000, "--all --yes", "10000 of 10000 requeued\n", "", 0},
		"below":          {9_999, "--all --yes", "9999 of 9999 requeued\n", "", 0},
		"a filter":       {12_000, "--tier paid --yes", "12000 of 12000 requeued\n", "", 0},
		"a bound":        {25_300, "--all --limit 10750 --yes", "10750 requeued; more are left\n", "", 14_550},
		"a bound beyond": {12_000, "--all --limit 20000 --yes", "12000 of 12000 requeued\n", "", 0},
		"as JSON":        {12_000, "--all --yes -o ndjson", `{"matched":12000,"requeued":12000}` + "\n", "", 0},
		"only counted":   {12_000, "--all --dry-run", "10000 or more match\n", "", 12_000},
		"counted, JSON":  {12_000, "--all --dry-run -o ndjson", counted, "", 12_000},
		"few counted":    {120, "--all --dry-run", "120 match\n", "", 120},
		"nobody asked":   {12_000, "--all", "", "10000 or more dead letters match, and tierq cannot ask", 12_000},
		"bound asked":    {12_000, "--all --limit 11000", "", "11000 dead letters match, and tierq cannot ask", 12_000},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraveyard(t, tc.dead)
			end := g.cli(t, world{}, append([]string{"dead", "requeue"}, split(tc.args)...)...)
			if end.stdout != tc.out || g.dead != tc.left {
				t.Errorf("%d are left, want %d: %+v", g.dead, tc.left, end)
			}
			if !strings.Contains(end.stderr, tc.err) || (tc.err == "") != (end.stderr == "") {
				t.Errorf("%+v", end)
			}
		})
	}
}

const goesOn = " requeued before it ended; the same command again goes on with the rest"

// An error in the middle is printed with the number of requeued jobs. The same command again requeues the others,
// and none twice.
func TestRequeueStopsAndGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		error  string
		code   int
	}{
		"a refusal":     {http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY", exitUnavailable},
		"a lost answer": {http.StatusGatewayTimeout, "OUTCOME_UNKNOWN", exitTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraveyard(t, 15_000)
			g.fail = func(w http.ResponseWriter, step int) bool {
				if step != 24 {
					return false
				}
				w.Header().Set("Retry-After", "3600")
				refuse(w, tc.status, tc.error)
				return true
			}
			end := g.cli(t, world{}, "dead", "requeue", "--all", "--yes")
			if end.code != tc.code || end.stdout != "" || !strings.Contains(end.stderr, "11500"+goesOn) {
				t.Errorf("%+v", end)
			}
			for _, says := range []string{"3500 of 3500 requeued\n", "0 of 0 requeued\n"} {
				end := g.cli(t, world{}, "dead", "requeue", "--all", "--yes")
				if end.code != 0 || end.stdout != says || g.dead != 0 {
					t.Errorf("%d are left: %+v", g.dead, end)
				}
			}
		})
	}
}

// stopAtThird makes the third step hang until the test ends. came is closed when that step arrives.
func (g *graveyard) stopAtThird(t *testing.T) (came <-chan struct{}) {
	third, over := make(chan struct{}), make(chan struct{})
	g.before = func(step int) {
		if step == 3 {
			close(third)
			<-over
		}
	}
	t.Cleanup(func() { close(over) })
	return third
}

// --timeout in the middle of a requeue prints the number of requeued jobs.
func TestRequeueTimeIsUp(t *testing.T) {
	g := newGraveyard(t, 15_000)
	g.stopAtThird(t)
	end := g.cli(t, world{}, "dead", "requeue", "--all", "--yes", "--timeout", "2s")
	if end.code != exitTimeout || !strings.Contains(end.stderr, "1000"+goesOn) {
		t.Errorf("%+v", end)
	}
}

// Ctrl-C in the middle of a requeue prints the number of requeued jobs.
func TestRequeueInterrupted(t *testing.T) {
	g := newGraveyard(t, 15_000)
	third := g.stopAtThird(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "dead", "requeue", "--all", "--yes")
	child.Env = []string{childSwitch + "=client", "TIERQ_URL=" + g.URL}
	var said bytes.Buffer
	child.Stderr = &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	<-third
	if err := child.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := child.Wait()
	if code := child.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "1000"+goesOn) {
		t.Errorf("code %d, %v: %s", code, err, said.String())
	}
}

// On a terminal a line shows the progress, also if the number of dead letters is unknown.
func TestRequeueShowsProgress(t *testing.T) {
	g := newGraveyard(t, 11_000)
	end := g.cli(t, world{tty: true, stdin: "y\n"}, "dead", "requeue", "--all")
	asked := strings.Contains(end.stderr, "Requeue 10000 or more dead letters? [y/N] ")
	if end.code != 0 || !asked || !strings.Contains(end.stderr, "0 requeued") {
		t.Errorf("%+v", end)
	}
}
