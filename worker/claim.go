package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// mostClaim is how many jobs a claim asks for.
const mostClaim = 100

// claimWait is how long the server holds a claim while there is no job.
const claimWait = 20 * time.Second

// claimLife is how long a claim is repeated with its id. The server remembers it for a minute.
const claimLife = 45 * time.Second

// claimBody is the body of a claim.
type claimBody struct {
	Worker  string            `json:"worker"`
	Queues  []string          `json:"queues"`
	Tiers   []string          `json:"tiers,omitempty"`
	Max     int               `json:"max"`
	Wait    int64             `json:"wait"` // seconds
	Lease   int64             `json:"leaseSeconds,omitempty"`
	ID      string            `json:"claimId"`
	Repeat  int               `json:"repeat,omitempty"` // how often the claim was sent before
	Info    infoBody          `json:"info"`
	Reports []json.RawMessage `json:"reports,omitempty"`
}

// infoBody is what the worker says of itself, for operators.
type infoBody struct {
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid"`
	Version  string `json:"version,omitempty"`
	Language string `json:"language"`
	Slots    int    `json:"slots"`
	Running  int    `json:"running"`
}

// info returns what the worker says of itself.
func (w *Worker) info() infoBody {
	host, _ := os.Hostname()
	if host = clean(host); len(host) > 64 {
		host = host[:64]
	}
	return infoBody{host, os.Getpid(), w.version, "go", w.places, w.running()}
}

// claimed is a job in the answer to a claim.
type claimed struct {
	Job
	lease
}

type claimAnswer struct {
	State        string     `json:"state"`
	RetryAfterMs int64      `json:"retryAfterMs"`
	Reported     []reported `json:"reported"`
	Jobs         []claimed  `json:"jobs"`
}

// claim makes a claim and repeats it until it is answered; the answer is nil if it was given up. It carries the
// reports that wait. sent is when the call that was answered was sent. The error is the refusal of a first claim.
func (w *Worker) claim(ctx, calls context.Context, c *claimBody, by *claimer) (*claimAnswer, time.Time, error) {
	first := time.Now()
	carried := w.takeReports(by)
	for failures := 1; ; failures++ {
		sent := time.Now()
		c.Reports = texts(carried)
		var answer claimAnswer
		err := w.call(ctx, "claim", c, &answer, claimWait+callTime)
		if err == nil {
			again, err := w.acknowledge(carried, answer.Reported)
			if w.putBack(again); err != nil {
				w.log.Warn("reports were not carried out, and are sent again", "reports", len(again), "err", err)
			}
			return &answer, sent, nil
		}
		c.Repeat++
		// The reports go alone from here: if they are why the claim is refused, the next one is not.
		w.putBack(carried)
		withReports := len(carried) > 0
		carried = nil
		if ctx.Err() != nil {
			w.giveBack(calls, c)
			return nil, sent, nil //nolint:nilerr // the claim failed because Run ends
		}
		var refused *refusal
		final := errors.As(err, &refused) && refused.final()
		if final && !by.taken && !withReports && refused.Status != http.StatusNotFound {
			return nil, sent, fmt.Errorf("worker: %w", err)
		}
		if !final || !withReports {
			w.log.Warn("a claim failed, and is made again", "err", err)
			rest(ctx, pause(failures, err))
		}
		if time.Since(first) > claimLife {
			return nil, sent, nil // the next claim has another id
		}
	}
}

// giveBack repeats a claim whose answer the worker did not wait for, and releases the jobs that the claim has got.
func (w *Worker) giveBack(calls context.Context, c *claimBody) {
	again := *c
	again.Max, again.Wait, again.Reports = 1, 0, nil
	var answer claimAnswer
	if err := w.call(calls, "claim", &again, &answer, callTime); err != nil {
		w.log.Warn("the last claim was not answered; if it got jobs, they wait for the end of their leases", "err", err)
		return
	}
	for i := range answer.Jobs {
		j := &answer.Jobs[i]
		a := &attempt{Job: j.Job, lease: j.lease, w: w, done: true, beatAt: time.Now().Add(time.Hour)}
		text := encoded(entry{Lease: a.Sealed, Released: &released{}})
		w.mu.Lock()
		w.held[a.Sealed] = a
		w.mu.Unlock()
		w.putBack([]*report{{attempt: a, text: text}})
	}
}
