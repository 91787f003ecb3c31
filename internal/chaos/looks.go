package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// This file audits the running system: a snapshot of each partition has to pass the audit of the tests, and the
// servers are asked for passes of their own audit.

// often returns the time between two audits. A run gets several, and they do not keep Redis busy.
func (c *cluster) often() time.Duration { return min(max(c.Over/6, 4*time.Second), 25*time.Second) }

// looks audits all partitions again and again until ctx ends. A look that fails because Redis is away is repeated
// and is no finding.
func (c *cluster) looks(ctx context.Context) {
	for hold(ctx, c.often()) {
		for p := range c.Partitions {
			for !c.look(ctx, p) && hold(ctx, time.Second) {
			}
		}
	}
}

func (c *cluster) look(ctx context.Context, partition int) (seen bool) {
	within, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	l := check.Look{From: time.Now(), Partition: partition}
	s, err := queuetest.Read(within, c.rdb, partition)
	if l.To = time.Now(); err != nil {
		c.say("no look at partition %d: %v", partition, err)
		return false
	}
	l.Wrong, l.Over = s.Audit(), c.over(s)
	c.say("looked at %d jobs of partition %d in %s: %d findings", len(s.Jobs), partition,
		l.To.Sub(l.From).Round(time.Millisecond), len(l.Wrong)+len(l.Over))
	c.notes.Lock()
	defer c.notes.Unlock()
	c.beside.Looks = append(c.beside.Looks, l)
	return true
}

// over returns the limits that a partition exceeds. Only jobs of generation 1 that a client submitted count,
// because the server never refuses callbacks, requeued jobs and the then jobs of batches, and asks for room some time
// before the job of a schedule takes it. Against the capacity only jobs count that were neither claimed before nor
// delayed.
func (c *cluster) over(s queuetest.Snapshot) (wrong []string) {
	ready, owned := 0, map[string]int{}
	for id, h := range s.Jobs {
		state := s.State(job.ID(id))
		if h["generation"] != "1" || h["type"] != check.Type && h["type"] != check.Elsewhere ||
			h["owner"] == c.scheduleKey.ID || strings.Contains(h["options"], `"thenOf"`) {
			continue
		}
		if state == job.Pending && h["first"] == "" && h["due"] == "" {
			ready++
		}
		if state == job.Pending || state == job.Scheduled || state == job.Processing {
			owned[h["owner"]]++
		}
	}
	limit := 0
	for _, p := range plans() {
		limit = max(limit, c.Capacity*p.Share/100/c.Partitions, 1)
	}
	if ready > limit {
		wrong = append(wrong, fmt.Sprintf("%d jobs wait that were never claimed, there is room for %d", ready, limit))
	}
	for n, k := range c.keys {
		if part := (quotas[n]-1)/c.Partitions + 1; owned[k.ID] > part && !c.Clean {
			wrong = append(wrong, fmt.Sprintf("%d jobs of the key %s are under way, it may have %d", owned[k.ID], k.ID, part))
		}
	}
	return wrong
}

// passes asks the servers for passes of their audit until ctx ends.
func (c *cluster) passes(ctx context.Context) {
	dice := rand.New(rand.NewPCG(c.Seed, 500))
	for hold(ctx, c.often()) {
		for !c.pass(ctx, c.servers[dice.IntN(len(c.servers))]) && hold(ctx, time.Second) {
		}
	}
}

// pass asks one server for a pass of its audit and records the result. It returns false if no answer came.
// Findings of such a pass are lost: the server has repaired them, so the next pass does not find them.
func (c *cluster) pass(ctx context.Context, s *server) (made bool) {
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p := check.Pass{From: time.Now()}
	var answer struct {
		Report struct {
			Whole    bool
			Problem  string
			Totals   []job.FindingTotal
			Findings []struct {
				JobID        *job.ID
				Result       job.Word
				Kind, Detail string
			}
		}
	}
	status, err := c.ask(within, s.base(), http.MethodPost, "/admin/consistency", c.admin, "", &answer)
	if p.To = time.Now(); err != nil || status != http.StatusOK {
		c.say("server %d made no pass: %d %v", s.n, status, err)
		return false
	}
	r := &answer.Report
	p.Whole = r.Whole
	for _, t := range r.Totals {
		f := check.Found{Result: t.Result, Kind: t.Kind, Count: int(t.Count)}
		for _, one := range r.Findings {
			if one.Result == f.Result && one.Kind == f.Kind {
				f.Detail = fmt.Sprintf("%s (%s)", one.Detail, deref(one.JobID))
				break
			}
		}
		p.Found = append(p.Found, f)
	}
	c.say("server %d made a pass in %s, whole: %t %s, %d kinds of findings", s.n, p.To.Sub(p.From).Round(time.Millisecond),
		r.Whole, r.Problem, len(p.Found))
	c.notes.Lock()
	defer c.notes.Unlock()
	c.beside.Passes = append(c.beside.Passes, p)
	return true
}

func deref(id *job.ID) job.ID {
	if id == nil {
		return "no job"
	}
	return *id
}
