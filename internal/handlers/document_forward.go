package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// atOnce is the number of endpoints of one document that are called at the same time. callTime limits each call.
const (
	atOnce   = 4
	callTime = 10 * time.Second
)

// stepOf is the step of the i-th endpoint of the payload.
type stepOf struct {
	i int
	step
}

// forward sends a document to its endpoints. It saves the answers that have arrived before it reads the next one,
// so that a later attempt continues from there, also after a crash. If a document was sent but the answer was not
// saved, the lookup before each submission finds the document at the endpoint.
func (o outgoing) forward(ctx context.Context, in Forward) (Forwarded, error) {
	run, _ := handler.Running(ctx)
	steps := saved(run.Saved, len(in.Endpoints))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers, asked := o.ask(ctx, in, steps)
	var unsaved error
	for seen := 0; seen < asked; seen++ {
		a := <-answers
		steps[a.i] = a.step
		for ; len(answers) > 0; seen++ { // one save for all answers that have arrived
			a = <-answers
			steps[a.i] = a.step
		}
		if ctx.Err() != nil {
			continue // the answers are too late, and a save would be too
		}
		if unsaved = save(ctx, steps); errors.Is(unsaved, handler.ErrLeaseLost) {
			stop() // another attempt may be running
		}
	}
	switch {
	case errors.Is(unsaved, handler.ErrLeaseLost):
		return Forwarded{}, unsaved
	case ctx.Err() != nil:
		return Forwarded{}, context.Cause(ctx)
	}
	out, err := forwarded(in, steps, run.StartedAt.Sub(run.FirstTriedAt))
	if err != nil && unsaved != nil { // the store was away: the next attempt looks everything up again
		return out, errors.Join(err, unsaved)
	}
	return out, err
}

// ask calls the endpoints that have no final status. An endpoint that has acknowledged the document is among them,
// because it may be MANAGED by now. ask returns a channel with room for all answers, and their number.
func (o outgoing) ask(ctx context.Context, in Forward, steps []step) (<-chan stepOf, int) {
	answers, places := make(chan stepOf, len(steps)), make(chan struct{}, atOnce)
	n := 0
	for i, s := range steps {
		if s.Status == docManaged || s.Status == docRejected {
			continue
		}
		n++
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			answers <- stepOf{i, o.one(ctx, in, in.Endpoints[i], s)}
		}()
	}
	return answers, n
}

// one handles one endpoint: it looks the document up and submits it if the endpoint does not know it.
func (o outgoing) one(ctx context.Context, in Forward, endpoint string, before step) step {
	now := o.call(ctx, endpoint, Request{Method: http.MethodGet, URL: lookupURL(endpoint, in.DocumentID)}, lookedUp)
	switch {
	case before.Status == docSubmitted && now.Status != docManaged && now.Status != docRejected:
		before.wait = now.wait
		return before // it acknowledged the document, and no other answer revokes that
	case now.Status != docUnknown:
		return now
	}
	body, err := json.Marshal(struct {
		DocumentID  string          `json:"documentId"`
		ContentType string          `json:"contentType"`
		Body        json.RawMessage `json:"body"`
	}{in.DocumentID, in.ContentType, in.Body})
	if err != nil {
		return step{Status: docRejected, Said: "could not be sent the body"} // cannot happen: checked at submit
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return o.call(ctx, endpoint, Request{Method: http.MethodPost, URL: submitURL(endpoint), Header: header, Body: body},
		submitted)
}

func (o outgoing) call(ctx context.Context, endpoint string, r Request, read func(Response, time.Time) step) step {
	run, _ := handler.Running(ctx)
	r.Timeout, r.TraceID = callTime, run.TraceID
	answer, err := o.send.Do(ctx, r)
	if err != nil {
		return unanswered(hostOf(endpoint), err)
	}
	return read(answer, time.Now())
}

// saved reads the checkpoint of an earlier attempt. Without a checkpoint, or with one of another shape, it returns
// empty steps: the lookups then find what was submitted.
func saved(checkpoint []byte, endpoints int) []step {
	var steps []step
	if json.Unmarshal(checkpoint, &steps) != nil || len(steps) != endpoints {
		return make([]step, endpoints)
	}
	return steps
}

func save(ctx context.Context, steps []step) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // HTML escapes would let a checkpoint grow sixfold
	if err := e.Encode(steps); err != nil {
		return fmt.Errorf("save progress: %w", err)
	}
	if err := handler.Checkpoint(ctx, text.Bytes()); err != nil {
		return fmt.Errorf("save progress: %w", err)
	}
	return nil
}

// forwarded turns the steps into the job's result or error. waited is the time since the job's first attempt
// began. The first line that applies counts:
//
//	some FAILED             an error: it costs a retry; after the last one the job is FAILED. If others are
//	                        TRY_AGAIN_LATER, the retry comes at the time they asked for
//	some SUBMITTED          with "until": "MANAGED", at its limit, even if others are busy: permanent: FAILED
//	some TRY_AGAIN_LATER    later, at the longest time asked for: it costs no retry
//	some SUBMITTED          with "until": "MANAGED", before the limit: later, with growing pauses
//	all REJECTED            permanent: FAILED
//	otherwise               COMPLETED with every endpoint's status; the note names those that are REJECTED
func forwarded(in Forward, steps []step, waited time.Duration) (Forwarded, error) {
	of := map[DocStatus][]string{}
	var busy, wait time.Duration // the longest wait asked for by busy endpoints, and by any
	out := Forwarded{Endpoints: make([]Endpoint, len(steps))}
	for i, s := range steps {
		if wait = max(wait, s.wait); s.Status == docBusy {
			busy = max(busy, s.wait)
		}
		of[s.Status] = append(of[s.Status], hostOf(in.Endpoints[i])+" "+s.Said)
		out.Endpoints[i] = Endpoint{URL: in.Endpoints[i], Status: s.Status, Detail: s.Detail}
		if s.Detail == "" {
			out.Endpoints[i].Detail = s.Said
		}
	}
	some := func(status DocStatus, verb string) string {
		return fmt.Sprintf("%d of %d endpoints %s: %s", len(of[status]), len(steps), verb, strings.Join(of[status], "; "))
	}
	failed := errors.New(some(docFailed, "failed"))
	waits := in.Until == docManaged && len(of[docSubmitted]) > 0
	switch {
	case len(of[docFailed]) > 0 && busy > 0:
		return Forwarded{}, handler.RetryAfter(busy, failed)
	case len(of[docFailed]) > 0:
		return Forwarded{}, failed
	case waits && waited >= in.patience():
		why := some(docSubmitted, "still say SUBMITTED after "+waited.Round(time.Second).String())
		if busy > 0 {
			why += "; " + some(docBusy, "say TRY_AGAIN_LATER")
		}
		return Forwarded{}, handler.Permanent(errors.New(why))
	case busy > 0 && waits:
		why := some(docBusy, "say TRY_AGAIN_LATER") + "; " + some(docSubmitted, "say SUBMITTED")
		return Forwarded{}, handler.LaterBecause(max(busy, in.nextLook(waited, wait)), why)
	case busy > 0:
		return Forwarded{}, handler.LaterBecause(busy, some(docBusy, "say TRY_AGAIN_LATER"))
	case waits:
		return Forwarded{}, handler.LaterBecause(in.nextLook(waited, wait), some(docSubmitted, "say SUBMITTED"))
	case len(of[docRejected]) == len(steps):
		reasons := strings.Join(of[docRejected], "; ")
		return Forwarded{}, handler.Permanent(fmt.Errorf("every endpoint rejects the document: %s", reasons))
	case len(of[docRejected]) > 0:
		out.Note = cut(rejectedBy(in, steps), job.MaxNote)
	}
	return out, nil
}

// rejectedBy returns a note that names the endpoints that rejected the document.
func rejectedBy(in Forward, steps []step) string {
	var hosts []string
	for i, s := range steps {
		if s.Status == docRejected {
			hosts = append(hosts, hostOf(in.Endpoints[i]))
		}
	}
	return fmt.Sprintf("rejected by %d of %d endpoints: %s", len(hosts), len(steps), strings.Join(hosts, ", "))
}

// firstLook and rarestLook limit the pause before a received document is looked up again. For a long wait the
// limit grows to a part of the time waited, one rareLooks-th: each lookup is a "later", and a job may have only a
// hundred of those.
const (
	firstLook  = time.Second
	rarestLook = 5 * time.Minute
	rareLooks  = 12
)

// nextLook returns the pause before the endpoints that say SUBMITTED are asked again. The pause is as long as the
// job has already waited, so that the pauses double up to their limit, or as long as an endpoint asked for. The
// last lookup comes at the time limit of the wait, after which nextLook is 0.
func (f *Forward) nextLook(waited, asked time.Duration) time.Duration {
	return min(max(firstLook, min(waited, max(rarestLook, waited/rareLooks)), asked), max(f.patience()-waited, 0))
}

// patience is the time limit of the wait for MANAGED.
func (f *Forward) patience() time.Duration {
	if f.UntilSeconds == 0 {
		return defaultUntil * time.Second
	}
	return time.Duration(f.UntilSeconds) * time.Second
}
