package leasing

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A lease lives as long as its tier's heartbeat timeout, and 5 s at least, unless the worker asks for another length.
func TestLeaseOfTier(t *testing.T) {
	t.Parallel()
	eachWorld(t, 1, func(t *testing.T, w *world) {
		for tier, want := range map[job.Tier]time.Duration{
			job.Paid: 15 * time.Second, job.Unpaid: 6 * time.Second, job.Public: 5 * time.Second,
		} {
			w.into(t, 0, "films", tier, 2)
			for _, asked := range []time.Duration{0, time.Hour} {
				c := claim("c"+string(tier)+asked.String(), 1, 0, "films")
				if c.Lease = asked; asked > 0 {
					want = asked
				}
				l := w.claims(t, c)[0]
				if l.Tier != tier || l.For != want || !near(l.Until, want) {
					t.Errorf("%s, asked %s: a lease of %s until %s, want %s", l.Tier, asked, l.For, l.Until, want)
				}
				deadline := w.Snapshot(t).Sets["heartbeat_deadlines"][string(l.ID)] - float64(l.StartedAt.UnixMilli())
				if deadline != float64(want.Milliseconds()) {
					t.Errorf("%s, asked %s: the deadline in Redis is %v ms ahead", tier, asked, deadline)
				}
			}
		}
	})
}

// The time of an attempt counts from when the job was handed out, also for a claim that waited, and for the repeated
// one it is what is left.
func TestAttemptsTime(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		eachWorld(t, partitions, func(t *testing.T, w *world) {
			answers := make(chan []job.WorkerLease, 1)
			go func() { answers <- w.claims(t, claim("c1", 1, 20*time.Second, "films")) }()
			<-time.After(700 * time.Millisecond)
			handed := time.Now()
			w.into(t, 0, "films", job.Public, 1)
			l := (<-answers)[0]
			if late := l.Ends.Sub(handed.Add(10 * time.Second)); late < 0 || late > 5*time.Second {
				t.Errorf("the attempt ends %s after 10 s from the submit", late)
			}
			<-time.After(time.Second)
			again := w.claims(t, claim("c1", 1, 0, "films"))[0]
			if moved := again.Ends.Sub(l.Ends); moved < -500*time.Millisecond || moved > 900*time.Millisecond ||
				!again.StartedAt.Equal(l.StartedAt) {
				t.Errorf("asked again, the attempt ends %s later", moved)
			}
		})
	}
}

// The table of times in docs/WORKERS.md has the times of the default plans.
func TestTimesPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/WORKERS.md")
	if err != nil {
		t.Fatal(err)
	}
	var beats, leases []string
	rows := map[string]bool{}
	for _, p := range job.DefaultPlans() {
		rows[fmt.Sprintf("| %s | %g s |", p.Tier, p.MaxProcessingTime.Seconds())] = true
		beats = append(beats, fmt.Sprintf("%g", p.HeartbeatTimeout.Seconds()))
		leases = append(leases, fmt.Sprintf("%g", p.Lease().Seconds()))
	}
	lease := strings.Join(leases, ", ") + " s"
	for kind, lasts := range map[string]string{
		"built-in types, and handlers linked with `server`": strings.Join(beats, ", ") + " s",
		"HTTP: your own, with or without a library":         lease + ", or `leaseSeconds`",
		"push, while the post is open":                      lease, "push, after your 202": lease,
	} {
		rows["| "+kind+" | "+lasts+" |"] = true
	}
	for row := range rows {
		if !strings.Contains(string(page), row) {
			t.Errorf("WORKERS.md has no row %q", row)
		}
	}
}
