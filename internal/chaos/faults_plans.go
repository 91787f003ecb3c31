package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// The faults of this file change plans while the load runs: an operator stores a plan through one server, and from
// then on all servers have to show it.

// planBody is a plan in the form of the API.
type planBody struct {
	Priority            int             `json:"priority"`
	MaxRetries          int             `json:"maxRetries"`
	HeartbeatTimeoutMs  int64           `json:"heartbeatTimeoutMs"`
	MaxProcessingTimeMs int64           `json:"maxProcessingTimeMs"`
	Share               int             `json:"share"`
	Lines               job.Lines       `json:"lines"`
	Backoff             backoffBody     `json:"backoff"`
	TypeBackoff         json.RawMessage `json:"typeBackoff,omitempty"`
}

type backoffBody struct {
	BaseMs int64   `json:"baseMs"`
	Factor float64 `json:"factor"`
	CapMs  int64   `json:"capMs"`
	Jitter float64 `json:"jitter"`
}

// put is a plan that a server has stored (sure), or may have stored because its answer was lost.
type put struct {
	body string
	sure bool
}

func bodyOf(p *job.Plan) string {
	text, _ := json.Marshal(planBody{ // numbers only: it cannot fail
		Priority: p.Priority, MaxRetries: p.MaxRetries,
		HeartbeatTimeoutMs:  p.HeartbeatTimeout.Milliseconds(),
		MaxProcessingTimeMs: p.MaxProcessingTime.Milliseconds(), Share: p.Share,
		Lines:   cmp.Or(p.Lines, job.LinesOff),
		Backoff: backoffBody{p.Backoff.Base.Milliseconds(), p.Backoff.Factor, p.Backoff.Cap.Milliseconds(), p.Backoff.Jitter},
	})
	return string(text)
}

// addedPlan is the plan of every tier that tierAdded adds; the priority varies.
var addedPlan = job.Plan{
	Priority: 4, MaxRetries: 1, HeartbeatTimeout: 1200 * time.Millisecond, MaxProcessingTime: 2 * time.Second, Share: 50,
	Backoff: job.Backoff{Base: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Jitter: 0.2},
}

// planChanged is a fault: one of the first tiers gets another share or more retries.
func planChanged(ctx context.Context, w *wound) (string, error) {
	all := plans()
	p := all[w.rng.IntN(len(all))]
	if p.Tier == job.Paid { // over takes its limits from the largest share, which must stay
		p.MaxRetries += w.rng.IntN(3)
	} else {
		p.Share -= w.rng.IntN(20)
	}
	return w.putPlan(ctx, &p)
}

// tierAdded is a fault: it adds a tier, and the clients submit in it from then on.
func tierAdded(ctx context.Context, w *wound) (string, error) {
	p := addedPlan
	w.notes.Lock()
	p.Tier = job.Tier(fmt.Sprintf("ADDED_%d", len(w.put)))
	w.notes.Unlock()
	p.Priority += w.rng.IntN(5)
	evidence, err := w.putPlan(ctx, &p)
	if err == nil {
		w.load.AddTier(p.Tier)
	}
	return evidence, err
}

// putPlan asks random servers, for up to 8 s, until one has stored the plan. A plan whose answer was lost may be
// stored as well.
func (w *wound) putPlan(ctx context.Context, p *job.Plan) (string, error) {
	w.target = ""
	body, status := bodyOf(p), 0
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end) && hold(ctx, 200*time.Millisecond); {
		base := w.bases()[w.rng.IntN(len(w.servers))]
		w.tookPlan(p.Tier, put{body, false})
		var err error
		status, err = w.ask(ctx, base, http.MethodPut, "/admin/tiers/"+string(p.Tier), w.admin, body, nil)
		if err == nil && status < 300 {
			w.tookPlan(p.Tier, put{body, true})
			return fmt.Sprintf("%s is %s now", p.Tier, body), nil
		}
	}
	return fmt.Sprintf("%s was answered %d", p.Tier, status), errMissed
}

func (c *cluster) tookPlan(t job.Tier, p put) {
	c.notes.Lock()
	defer c.notes.Unlock()
	c.put[t] = p
}

// bringPlans stores the run's plans through the first server that serves. It skips plans that a server has stored, or
// may have stored. If the server dies between two plans, the next call, for the next server, stores the rest.
func (c *cluster) bringPlans(ctx context.Context, s *server) error {
	for _, p := range plans() {
		c.notes.Lock()
		_, brought := c.put[p.Tier]
		c.notes.Unlock()
		if brought {
			continue
		}
		body, status := bodyOf(&p), 0
		var err error
		end := time.Now().Add(10 * time.Second)
		for ; status != http.StatusOK && time.Now().Before(end); hold(ctx, 20*time.Millisecond) {
			if _, dead := s.died(); dead {
				return nil // a job or a failpoint killed it: the server is started again
			}
			status, err = c.ask(ctx, s.base(), http.MethodPut, "/admin/tiers/"+string(p.Tier), c.admin, body, nil)
		}
		if status != http.StatusOK {
			if _, dead := s.died(); dead {
				return nil
			}
			return fmt.Errorf("server %d: put the plan of %s: %d %w", s.n, p.Tier, status, err)
		}
		c.tookPlan(p.Tier, put{body, true})
	}
	return nil
}

// lookAtPlans asks every server for every plan that was surely stored, and records the answers for the checker.
func (c *cluster) lookAtPlans(ctx context.Context) error {
	for tier, p := range c.put {
		if !p.sure {
			continue
		}
		for _, s := range c.servers {
			seen := check.PlanSeen{At: time.Now(), Server: fmt.Sprint("server ", s.n), Tier: string(tier), Want: p.body}
			var body planBody
			status, err := c.ask(ctx, s.base(), http.MethodGet, "/admin/tiers/"+string(tier), c.admin, "", &body)
			switch {
			case err != nil || status >= http.StatusInternalServerError:
				return fmt.Errorf("look at the plan of %s: %d %w", tier, status, err)
			case status == http.StatusOK:
				body.TypeBackoff = nil
				text, _ := json.Marshal(body) // the body was just decoded
				seen.Seen = string(text)
			}
			c.beside.Plans = append(c.beside.Plans, seen)
		}
	}
	return nil
}
