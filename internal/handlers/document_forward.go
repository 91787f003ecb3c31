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

// atOnce is how many endpoints of one document are called at the same time, callTime how long each call may take.
const (
	atOnce   = 4
	callTime = 10 * time.Second
)

// stepOf is an endpoint's step, by its place in the payload.
type stepOf struct {
	i int
	step
}

// forward brings a document to its endpoints. What an endpoint has answered is saved before the next answer is looked
// at, so that a later attempt goes on from there, also after a crash; what was sent but not saved is found by the
// lookup that precedes each submission.
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
		for ; len(answers) > 0; seen++ { // one save for all that came meanwhile
			a = <-answers
			steps[a.i] = a.step
		}
		if ctx.Err() != nil {
			continue // the answers are late, and so would be the save
		}
		if unsaved = save(ctx, steps); errors.Is(unsaved, handler.ErrLeaseLost) {
			stop() // somebody else may be at it
		}
	}
	switch {
	case errors.Is(unsaved, handler.ErrLeaseLost):
		return Forwarded{}, unsaved
	case ctx.Err() != nil:
		return Forwarded{}, context.Cause(ctx)
	}
	out, err := forwarded(in, steps, run.StartedAt.Sub(run.FirstTriedAt))
	if err != nil && unsaved != nil { // the store was away: whoever goes on looks everything up again
		return out, errors.Join(err, unsaved)
	}
	return out, err
}

// ask calls the endpoints that have not ended, and those that may have become MANAGED since they acknowledged the
// document. It returns a channel with room for all answers, and their number.
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

// one is one endpoint's turn: look up and, if it does not know the document, submit.
func (o outgoing) one(ctx context.Context, in Forward, endpoint string, before step) step {
	now := o.call(ctx, endpoint, Request{Method: http.MethodGet, URL: lookupURL(endpoint, in.DocumentID)}, lookedUp)
	switch {
	case before.Status == docSubmitted && now.Status != docManaged && now.Status != docRejected:
		before.wait = now.wait
		return before // it has the document: what it does not say yet takes nothing away from that
	case now.Status != docUnknown:
		return now
	}
	body, err := json.Marshal(struct {
		DocumentID  string          `json:"documentId"`
		ContentType string          `json:"contentType"`
		Body        json.RawMessage `json:"body"`
	}{in.DocumentID, in.ContentType, in.Body})
	if err != nil {
		return step{Status: docRejected, Said: "could not be sent the body"} // checked at submit
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

// saved reads the checkpoint of an earlier attempt. Without one, or with one of another shape, every endpoint is
// asked: the lookups tell.
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
	e.SetEscapeHTML(false) // it would let a checkpoint grow sixfold
	if err := e.Encode(steps); err != nil {
		return fmt.Errorf("save progress: %w", err)
	}
	if err := handler.Checkpoint(ctx, text.Bytes()); err != nil {
		return fmt.Errorf("save progress: %w", err)
	}
	return nil
}

// forwarded is what the steps mean for the job, waited after its first attempt began:
//
//	some FAILED             an error: it costs a retry; after the last one the job is FAILED. If others are
//	                        TRY_AGAIN_LATER, when they ask
//	some SUBMITTED          with "until": "MANAGED", at its bound, whoever is busy: permanent: FAILED
//	some TRY_AGAIN_LATER    later, at the longest time asked for: it costs nothing
//	some SUBMITTED          with "until": "MANAGED", before the bound: later, ever more rarely
//	all REJECTED            permanent: FAILED
//	otherwise               COMPLETED with every endpoint's status: some may be REJECTED, which the note says
func forwarded(in Forward, steps []step, waited time.Duration) (Forwarded, error) {
	of := map[DocStatus][]string{}
	var busy, wait time.Duration // what those ask for that are busy, and any
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

// rejectedBy says which endpoints rejected the document.
func rejectedBy(in Forward, steps []step) string {
	var hosts []string
	for i, s := range steps {
		if s.Status == docRejected {
			hosts = append(hosts, hostOf(in.Endpoints[i]))
		}
	}
	return fmt.Sprintf("rejected by %d of %d endpoints: %s", len(hosts), len(steps), strings.Join(hosts, ", "))
}

// firstLook and rarestLook bound how long a document that was received is left alone before it is looked at again. A
// look costs no more than one
// of rareLooks of the time that the job has waited: each is a "later", of which a job has a hundred.
const (
	firstLook  = time.Second
	rarestLook = 5 * time.Minute
	rareLooks  = 12
)

// nextLook is in how long those that say SUBMITTED are looked at again: after as long as the job waits already, so
// that the pauses double up to the rarest look, or when an endpoint asked for it; and once more at the bound, behind
// which it is 0.
func (f *Forward) nextLook(waited, asked time.Duration) time.Duration {
	return min(max(firstLook, min(waited, max(rarestLook, waited/rareLooks)), asked), max(f.patience()-waited, 0))
}

// patience is how long the job waits for MANAGED.
func (f *Forward) patience() time.Duration {
	if f.UntilSeconds == 0 {
		return defaultUntil * time.Second
	}
	return time.Duration(f.UntilSeconds) * time.Second
}
