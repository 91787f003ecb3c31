package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// ran is the result of a handler call.
type ran struct {
	result  []byte
	err     error
	verdict handler.Verdict // of err
	exits   bool            // the handler called runtime.Goexit, which ends the goroutine
}

// run runs a lease's handler. finish follows whatever the handler does, except if it ends the process.
func (p *Pool) run(h *held) (next *held, stays bool) {
	r := ran{err: errExit, verdict: handler.Verdict{RetryAfter: -1}, exits: true} // a method of a panic's value may do it
	returned := false
	after := func(error) {}
	defer func() {
		after(r.err)
		next, stays = p.finish(h, r)
	}()
	defer func() {
		if !returned { // a panic, or runtime.Goexit, for which recover returns nil
			value := recover()
			r.err, r.exits = crashed(value, debug.Stack()), value == nil
		}
	}()
	p.cfg.Observe.Started(&h.lease, h.lease.Waited())
	ctx := context.Context(&h.ctx)
	if p.cfg.Around != nil {
		ctx, after = p.cfg.Around(ctx, &h.lease)
	}
	result, err := p.cfg.Registry.Run(ctx, h.lease.Type, h.lease.Payload)
	err = handler.Contain(err) // calls methods of the handler's own error types, so it must be covered by recover
	r = ran{result: result, err: err, verdict: handler.Judge(err)}
	returned = true
	return
}

var errExit = errors.New("the handler called runtime.Goexit")

// crashed makes an error of a panic, with the handler's stack.
func crashed(value any, stack []byte) error {
	if value == nil { // recover never returns nil for a panic
		return fmt.Errorf("%w\n%s", errExit, stack)
	}
	// The lines above panic() are those of recovering; the cause is below.
	if i := bytes.Index(stack, []byte("\npanic(")); i >= 0 {
		if rest := bytes.SplitN(stack[i+1:], []byte("\n"), 3); len(rest) == 3 {
			stack = rest[2]
		}
	}
	return fmt.Errorf("panic: %s\n%s", handler.TextOf(value), stack)
}

// finish frees the slot and delivers the ending, unless the lease already has one. stays says whether the
// goroutine may run other leases; next is the lease that it runs then, nil if none is ready. The goroutine of a
// stuck handler ends, because its slot has another goroutine.
func (p *Pool) finish(h *held, r ran) (next *held, stays bool) {
	var backoff, maxRun time.Duration
	var ended error
	if r.err != nil {
		plan := p.plan(h.lease.Tier)
		maxRun = h.lease.MaxRun(plan)
		backoff = plan.BackoffOf(h.lease.Type).Delay(h.lease.RetryCount, rand.Float64())
		ended = h.ctx.cause()
	}
	e := job.Decide(reportOf(r, ended, maxRun), p.cfg.ResultLimit, backoff)
	h.ctx.free()
	p.mu.Lock()
	h.running = false
	p.running--
	if h.stuck {
		p.stuck--
	}
	if stays = !r.exits && !h.stuck; stays {
		if next = p.begin(); next == nil {
			p.idle++
		}
	}
	mine := p.end(h, e)
	if h.settled {
		p.drop(h)
	}
	more := !p.ready.empty()
	p.mu.Unlock()
	if !more { // otherwise there is no free slot for the claimer
		p.freed.Set()
	}
	p.changed.Set()
	if h.stuck {
		p.logWedged()
	}
	if mine {
		failpoint.Hit("handler.after", h.lease.ID)
		p.deliver(h)
	}
	return next, stays
}
