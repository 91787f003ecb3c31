package client

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// slowRequest is the time after which later submits do not wait for a request any more. They go in the next one,
	// beside it. Otherwise one request of a tier travels at a time: docs/speed/BENCH.md compares it with more.
	slowRequest = 250 * time.Millisecond
	// leastPause is the shortest time without batches after the server refused a whole batch.
	leastPause = time.Second
)

// Gather makes concurrent calls of Submit and SubmitJob travel together. While no request to its tier travels, a call
// is sent at once. Otherwise it waits until that request is answered, for 250 ms at most, and goes in one batch request
// with the other waiting calls for its tier. A lone call never waits. Where many goroutines submit at once, the
// client and the server have a fraction of the requests.
//
// Every call has its own answer, error, Idempotency-Key, TraceID, context and tries, as without Gather. A call whose
// context ends before its request is sent is not sent. A call whose context ends later returns at once with
// ErrOutcomeUnknown, and the request goes on for the other calls.
//
// A request for several calls has a context of its own: a transport of WithHTTPClient finds no values of the calls'
// contexts in it.
//
// A server that does not know the traceId of a batch's entry yet refuses such batches. Then each call is sent alone.
func Gather(on bool) Option {
	return func(c *Client) {
		c.gather = nil
		if on {
			c.gather = &gatherer{c: c, batchers: map[string]*batcher{}, most: maxBatch}
		}
	}
}

// gatherer sends the submits of one client. It has no goroutine while no request travels.
type gatherer struct {
	c *Client

	mu       sync.Mutex
	batchers map[string]*batcher // by the path of the tier's submits; only those with a request that travels
	most     int                 // the entries of one batch; at least 2
	paused   time.Time           // until then no submit joins a batch
}

// batcher holds the submits to one tier that wait while a request travels and is not slow.
type batcher struct {
	g       *gatherer
	path    string
	waiting []*pending // the gatherer's lock guards it
}

// pending is one try of one submit.
type pending struct {
	call   *call        // the submit as a request of its own
	trace  string       // the job's trace id
	entry  []byte       // the submit as an entry of a batch
	batch  *batch       // the batch that took it; nil while it waits. The gatherer's lock guards it
	result chan verdict // gets one verdict
}

// verdict is what became of a pending submit: an answer, an error, or neither if its caller must send it alone.
type verdict struct {
	accepted Submitted
	err      *Error
	alone    bool
	before   *batcher // with alone: the batcher whose submits wait for this request; nil = none
	unknown  bool     // with alone: a batch that was refused as a whole may have submitted the job
}

// submit makes a call together with others, and repeats it according to the policy.
func (g *gatherer) submit(ctx context.Context, k call, trace string) (Submitted, error) {
	out, err := repeat(ctx, g.c, &k, func() (Outcome, *Error) { return g.try(ctx, &k, trace) })
	if err != nil {
		return Submitted{}, err
	}
	return out.Submitted, out.Err
}

// try makes one try of a submit. An error in the Outcome allows no further try.
func (g *gatherer) try(ctx context.Context, k *call, trace string) (Outcome, *Error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, &Error{Err: unsent{err}}
	}
	p := newPending(k, trace)
	if b := g.add(p); b != nil {
		b.next()
	}
	v := g.await(ctx, p)
	switch {
	case v.alone:
		return g.alone(ctx, k, v)
	case v.err != nil:
		return Outcome{}, v.err
	}
	return Outcome{Submitted: v.accepted}, nil
}

// add lets a submit wait for the request that travels to its tier. If there is none, add returns a new batcher, and
// the caller must call its next.
func (g *gatherer) add(p *pending) *batcher {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Now().Before(g.paused) {
		p.result <- verdict{alone: true}
		return nil
	}
	if b := g.batchers[p.call.path]; b != nil {
		b.waiting = append(b.waiting, p)
		return nil
	}
	b := &batcher{g: g, path: p.call.path, waiting: []*pending{p}}
	g.batchers[b.path] = b
	return b
}

// next begins the next request with the waiting submits, or removes the batcher if there are none.
func (b *batcher) next() {
	b.g.mu.Lock()
	defer b.g.mu.Unlock()
	switch list := b.take(); len(list) {
	case 0:
		delete(b.g.batchers, b.path)
	case 1:
		list[0].result <- verdict{alone: true, before: b}
	default:
		go b.send(newBatch(list))
	}
}

// take removes the submits of the next request from the list.
func (b *batcher) take() []*pending {
	size, n := len("[]"), 0
	for ; n < min(len(b.waiting), b.g.most); n++ {
		if size += len(b.waiting[n].entry) + len(","); n > 0 && size > maxBatchBytes {
			break
		}
	}
	list := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	return list
}

// travel notes that a request begins. The next one begins when the caller calls end, or when the request is slow.
func (b *batcher) travel() (end func()) {
	slow := time.AfterFunc(slowRequest, b.next)
	return func() {
		if slow.Stop() {
			b.next()
		}
	}
}

// await returns the verdict about a submit, or ctx's error if that ends first.
func (g *gatherer) await(ctx context.Context, p *pending) verdict {
	select {
	case v := <-p.result:
		return v
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case v := <-p.result: // both at the same time; submits may wait for this one
		return v
	default:
	}
	if p.batch == nil {
		b := g.batchers[p.call.path]
		b.waiting = slices.DeleteFunc(b.waiting, func(w *pending) bool { return w == p })
		return verdict{err: &Error{Err: unsent{ctx.Err()}}}
	}
	p.batch.leave()
	return verdict{err: &Error{Err: ctx.Err()}}
}

// alone sends a submit as a request of its own.
func (g *gatherer) alone(ctx context.Context, k *call, v verdict) (Outcome, *Error) {
	if v.before != nil {
		defer v.before.travel()()
	}
	resp, e := g.c.try(ctx, k)
	if e != nil {
		e.Unknown = v.unknown
		return Outcome{}, e
	}
	a, err := k.read(resp)
	if err != nil {
		return Outcome{Err: err}, nil
	}
	accepted, err := k.accepted(a)
	return Outcome{Submitted: accepted, Err: err}, nil
}
