package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"time"
)

// batch is one request that carries several submits.
type batch struct {
	list    []*pending
	ctx     context.Context // of the request
	cancel  context.CancelFunc
	callers int // the callers that wait for it. The gatherer's lock guards it
}

func newBatch(list []*pending) *batch {
	n := &batch{list: list, callers: len(list)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	for _, p := range list {
		p.batch = n
	}
	return n
}

// leave notes that a caller does not wait any more. The request ends with its last caller.
func (n *batch) leave() {
	if n.callers--; n.callers == 0 {
		n.cancel()
	}
}

// newPending makes a pending submit. trace is the job's trace id. "" = a random one: the server would give all jobs
// of a batch the same.
func newPending(k *call, trace string) *pending {
	if trace == "" {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails
		trace = hex.EncodeToString(id[:])
	}
	key, _ := json.Marshal(k.key) // a string always has a text
	// The new members come last, so that an error names the same byte as in a request of its own.
	entry := bytes.TrimSuffix(bytes.Clone(k.body), []byte{'}'})
	if len(entry) > len("{") {
		entry = append(entry, ',')
	}
	entry = fmt.Appendf(entry, `"idempotencyKey":%s,"traceId":"%s"}`, key, trace)
	return &pending{call: k, trace: trace, entry: entry, result: make(chan verdict, 1)}
}

// send sends a batch and gives each of its callers a verdict.
func (b *batcher) send(n *batch) {
	end := b.travel()
	answers, header, e := b.post(n)
	if e != nil {
		b.g.learn(e, len(n.list))
	} else {
		b.g.grow(len(n.list))
	}
	for i, p := range n.list {
		switch {
		case e == nil:
			p.result <- answers[i].verdict(p.trace, header)
		case !refusesBatch(e):
			own := *e // its caller changes it
			p.result <- verdict{err: &own}
		default:
			p.result <- verdict{alone: true, unknown: mayHaveHappened(e)}
		}
	}
	n.cancel()
	runtime.Gosched() // callers that submit their next job at once join the next request
	end()
}

// post sends a batch and returns an answer for each of its submits, or the error of all.
func (b *batcher) post(n *batch) ([]wireOutcome, http.Header, *Error) {
	texts := make([][]byte, len(n.list))
	for i, p := range n.list {
		texts[i] = p.entry
	}
	k := call{
		verb: "submit", method: http.MethodPost, path: b.path + "/batch", changes: true,
		// The transport may send a request with this header, which never leaves it, again over another connection. It
		// does so with a single submit for its Idempotency-Key.
		header: http.Header{"X-Idempotency-Key": {}},
		body:   append(append([]byte{'['}, bytes.Join(texts, []byte{','})...), ']'),
	}
	resp, e := b.g.c.try(n.ctx, &k)
	if e != nil {
		return nil, nil, e
	}
	defer resp.Body.Close()
	var got struct {
		Data []wireOutcome `json:"apiResponseData"`
	}
	err := json.NewDecoder(resp.Body).Decode(&got)
	if err == nil && len(got.Data) != len(n.list) {
		err = fmt.Errorf("%d answers to %d submits", len(got.Data), len(n.list))
	}
	if err != nil {
		return nil, nil, &Error{Status: resp.StatusCode, Err: err}
	}
	if slices.ContainsFunc(got.Data, wireOutcome.refusesTrace) {
		return nil, nil, &Error{Status: http.StatusBadRequest}
	}
	return got.Data, resp.Header, nil
}

// refusesTrace reports whether the server is an older one, which does not know the traceId of an entry. It refuses all
// entries.
func (w wireOutcome) refusesTrace() bool {
	return slices.ContainsFunc(w.Fields, func(f FieldError) bool { return f.Field == "traceId" })
}

// verdict returns what an entry's caller gets: what the server would have answered to the submit alone.
func (w *wireOutcome) verdict(trace string, h http.Header) verdict {
	accepted, e := w.submitted(h)
	switch {
	case e == nil:
		accepted.TraceID = trace
	case e.Status == http.StatusRequestEntityTooLarge:
		return verdict{alone: true} // as an entry it is larger
	}
	return verdict{accepted: accepted, err: e}
}

// refusesBatch reports whether the server may have refused a batch for the number of its entries, or for one of
// them. Then each caller sends its submit alone. Other errors would have met the submits alone too.
func refusesBatch(e *Error) bool { return !passing(e) || e.Status == http.StatusTooManyRequests }

// learn makes the next batches smaller, or none for a while, after the server refused a whole one.
func (g *gatherer) learn(e *Error, n int) {
	if !refusesBatch(e) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Status == http.StatusRequestEntityTooLarge {
		g.most = max(n/2, 2)
		return
	}
	g.paused = time.Now().Add(max(e.RetryAfter, leastPause))
}

// grow takes back, step by step, what learn has cut off, while the server takes the batches.
func (g *gatherer) grow(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n == g.most && g.most < maxBatch {
		g.most++
	}
}
