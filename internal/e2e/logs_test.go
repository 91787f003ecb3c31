package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// chatty is a job of 50 lines, and of so many ms between them.
func chatty(ms int) string {
	steps := make([]string, 0, 100)
	for n := range 50 {
		steps = append(steps, fmt.Sprintf(`{"type":"LOG","message":"line %d"},{"type":"SLEEP","durationMs":%d}`, n+1, ms))
	}
	return `{"type":"SIMULATION","payload":{"steps":[` + strings.Join(steps, ",") + `]}}`
}

// A worker with 200 jobs that log 10,000 lines is stopped past its leases, and goes on when another worker has the
// jobs: no line of a stale attempt comes behind one of the next attempt, the lines are in order, and missing ones are
// counted. A client that follows one of the jobs and is cut off ten times has each line once.
func TestLogsOfAStoppedWorker(t *testing.T) {
	heavy(t)
	c := newCluster(t)
	a := c.start("TIERQ_ROLES=api,recovery")
	zombie := c.start("TIERQ_ROLES=api,worker", "TIERQ_WORKERS=200")
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = a.submit("paid", chatty(100))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	to := sdk.New(a.base)
	defer to.Close()

	var tail sync.WaitGroup
	var tailed []sdk.LogLine
	tail.Go(func() { // cut off ten times, and then to the end
		for cut := range 11 {
			once, stop := context.WithCancel(ctx)
			f, got := sdk.LogFilter{}, 0
			if n := len(tailed); n > 0 {
				f.After = tailed[n-1].Seq
			}
			err := to.FollowLogs(once, ids[0], f, func(l sdk.LogLine) {
				if once.Err() != nil {
					return // it came too late for this connection: the next one gets it again
				}
				if tailed = append(tailed, l); got == 3 && cut < 10 {
					stop()
				}
				got++
			})
			stop()
			if err == nil {
				return
			}
		}
	})

	begun := func(id string) bool {
		page, err := to.Logs(ctx, id, sdk.LogFilter{})
		return err == nil && len(page.Items) >= 10
	}
	testkit.Eventually(t, time.Minute, "the jobs log", func() (bool, string) {
		return begun(ids[0]) && begun(ids[199]), ""
	})
	if err := zombie.Freeze(); err != nil {
		t.Fatal(err)
	}
	c.start("TIERQ_ROLES=api,worker", "TIERQ_WORKERS=200")
	second := func(id string) bool {
		page, err := to.Logs(ctx, id, sdk.LogFilter{Attempt: 2})
		return err == nil && len(page.Items) > 0
	}
	testkit.Eventually(t, time.Minute, "another worker has the jobs", func() (bool, string) {
		return second(ids[0]) && second(ids[199]), ""
	})
	if err := zombie.Thaw(); err != nil {
		t.Fatal(err)
	}
	lines, lost := 0, 0
	for _, id := range ids {
		if _, err := to.Wait(ctx, id); err != nil {
			t.Fatal(err)
		}
		page, err := to.Logs(ctx, id, sdk.LogFilter{})
		if err != nil || !page.Ended {
			t.Fatal(err, page.Ended)
		}
		got, gaps := wholeLog(t, page.Items)
		lines, lost = lines+got, lost+gaps
	}
	tail.Wait()
	page, err := to.Logs(ctx, ids[0], sdk.LogFilter{})
	if err != nil || fmt.Sprint(seqs(page.Items)) != fmt.Sprint(seqs(tailed)) {
		t.Errorf("the follower has %v, the log %v, %v", seqs(tailed), seqs(page.Items), err)
	}
	t.Logf("%d lines, %d of them lost", lines, lost)
	if lines < 10_000 {
		t.Errorf("only %d lines", lines)
	}
}

// wholeLog checks a job's log, and counts its lines and those that are lost.
func wholeLog(t *testing.T, items []sdk.LogLine) (lines, lost int) {
	t.Helper()
	last := sdk.LogLine{}
	for _, l := range items {
		number, before := int(l.Seq%1_000_000), int(last.Seq%1_000_000)
		if l.Attempt != last.Attempt {
			before = 0
		}
		switch {
		case l.Attempt < last.Attempt || l.Seq <= last.Seq:
			t.Fatalf("line %d comes behind line %d", l.Seq, last.Seq)
		case number-max(l.Lost, 1) != before:
			t.Fatalf("line %d, %d lost, comes behind line %d", l.Seq, l.Lost, last.Seq)
		case l.Lost == 0 && l.Text != fmt.Sprint("line ", number):
			t.Fatalf("line %d says %q", l.Seq, l.Text)
		}
		lines, lost, last = lines+1, lost+l.Lost, l
	}
	if last.Attempt != 2 || last.Seq != 2_000_050 {
		t.Fatalf("the last line is %d", last.Seq)
	}
	return lines, lost
}

func seqs(items []sdk.LogLine) (all []int64) {
	for _, l := range items {
		all = append(all, l.Seq)
	}
	return all
}
