package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
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

// unknownQueue is how long a claim is repeated that the server answers with UNKNOWN_QUEUE: another process may have
// declared the queue a moment ago.
const unknownQueue = 10 * time.Second

// claim makes a claim and repeats it until it is answered; the answer is nil if it was given up. It carries the
// reports that wait. The time is the one from which the times of the answer count. The error ends the worker.
func (w *Worker) claim(ctx, calls context.Context, c *claimBody, by *claimer) (*claimAnswer, time.Time, error) {
	first := time.Now()
	carried := w.takeReports(by)
	for failures := 1; ; failures++ {
		sent := time.Now()
		c.Reports = texts(carried)
		var answer claimAnswer
		err := w.call(ctx, "claim", c, &answer, claimWait+callTime)
		if err == nil {
			by.unknown = time.Time{}
			again, err := w.acknowledge(carried, answer.Reported)
			if w.putBack(again); err != nil {
				w.log.Warn("reports were not carried out, and are sent again", "reports", len(again), "err", err)
			}
			return &answer, answer.since(sent), nil
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
		if err := by.refused(err, c, withReports); err != nil {
			return nil, sent, err
		}
		if refused, _ := errors.AsType[*refusal](err); refused == nil || !refused.final() || !withReports {
			w.log.Warn("a claim failed, and is made again", "err", err)
			wait := pause(failures, err)
			if !by.unknown.IsZero() {
				wait = min(wait, time.Second)
			}
			rest(ctx, wait)
		}
		if time.Since(first) > claimLife {
			return nil, sent, nil // the next claim has another id
		}
	}
}

// refused returns the error that ends the worker, if a claim's error does: the first claim is refused, or the queue is
// not known for a while.
func (c *claimer) refused(err error, body *claimBody, withReports bool) error {
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return nil
	}
	if refused.ErrorCode != "UNKNOWN_QUEUE" {
		c.unknown = time.Time{}
		if refused.final() && !c.taken && !withReports && refused.Status != http.StatusNotFound {
			return fmt.Errorf("worker: %w", err)
		}
		return nil
	}
	if c.unknown.IsZero() {
		c.unknown = time.Now()
	}
	if c.second || time.Since(c.unknown) < unknownQueue {
		return nil
	}
	queue := body.Queues[0]
	for _, name := range body.Queues {
		if strings.Contains(refused.Detail, strconv.Quote(name)) {
			queue = name
		}
	}
	return fmt.Errorf("worker: %w; declare the queue first: tierq queues declare %s --type %s", err, queue, c.w.firstType)
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
	for _, j := range answer.Jobs {
		if j == nil {
			continue
		}
		a := &attempt{Job: j.Job, lease: lease{Sealed: j.Sealed}, w: w, done: true, beatAt: time.Now().Add(time.Hour)}
		w.mu.Lock()
		first := w.leases.first(j.Sealed)
		if first {
			w.held[j.Sealed] = a
		}
		w.mu.Unlock()
		if first {
			w.putBack([]*report{newReport(a, &entry{Lease: j.Sealed, Released: &released{}})})
		}
	}
}
