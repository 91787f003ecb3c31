package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// wish is one job to be submitted: the body of its request, and the op for the history.
type wish struct {
	op   check.Op
	body body
	key  int // the index of its API key
	// pushed: it goes over Faktory's protocol.
	pushed bool
}

type body struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	Delay   float64         `json:"delaySeconds,omitempty"`
	Once    string          `json:"idempotencyKey,omitempty"` // set in the entries of a batch only
	Call    string          `json:"callbackUrl,omitempty"`
	Queue   string          `json:"queue,omitempty"`
	Unique  *unique         `json:"unique,omitempty"`
	Line    string          `json:"key,omitempty"`
	Batch   job.ID          `json:"batch,omitempty"`
	Expires float64         `json:"expiresIn,omitempty"`
}

const (
	largestBatch = 20
	largestPad   = 2000 // bytes
)

// submitter submits until no job is left. A refused job does not count: after a moment another takes its place. So does
// a push without an answer, because it is not repeated.
func (l *Load) submitter(ctx context.Context, dice *rand.Rand) {
	for {
		n := 1
		if dice.Float64() < l.Mix.Batch/(largestBatch/2) { // so that Batch is a share of the jobs, not of the requests
			n = 2 + dice.IntN(largestBatch-1)
		}
		if n = l.take(n); n == 0 || !l.pace.wait(ctx, n) {
			return
		}
		if several := l.several(dice); n == 1 && several != nil {
			if several(ctx, l.tier(dice), dice) {
				l.left.Add(1)
				if !wait(ctx, time.Duration(20+dice.IntN(80))*time.Millisecond) {
					return
				}
			}
			continue
		}
		wishes := make([]wish, n)
		tier, key := l.tier(dice), dice.IntN(max(len(l.Keys), 1))
		for i := range wishes {
			wishes[i] = l.wish(tier, key, dice)
		}
		if n == 1 && dice.Float64() < l.Mix.Unique {
			wishes[0] = l.uniqueWish(tier, key, dice)
		}
		if n == 1 && wishes[0].body.Unique == nil && wishes[0].body.Line == "" &&
			l.pushes(&wishes[0], dice) {
			l.push(ctx, &wishes[0], dice)
		} else if n == 1 {
			l.single(ctx, &wishes[0], dice)
		} else {
			l.batch(ctx, l.base(dice), wishes, dice)
		}
		refused := 0
		for i := range wishes {
			w := &wishes[i]
			l.follow(ctx, w, dice)
			if w.op.Fate == check.Fail || w.pushed && w.op.Fate == check.Unknown {
				refused++
			}
		}
		l.left.Add(int64(refused))
		if refused > 0 && !wait(ctx, time.Duration(20+dice.IntN(80))*time.Millisecond) {
			return
		}
	}
}

// several returns the function that submits a flow, or a batch with its members, in place of one job; nil = one job.
func (l *Load) several(dice *rand.Rand) func(context.Context, job.Tier, *rand.Rand) (refused bool) {
	switch roll := dice.Float64(); {
	case roll < l.Mix.Flow:
		return l.flow
	case roll < l.Mix.Flow+l.Mix.Group:
		return l.group
	}
	return nil
}

// take reserves up to n of the jobs that are left, and returns how many.
func (l *Load) take(n int) int {
	for {
		left := l.left.Load()
		got := int(min(left, int64(n)))
		if got <= 0 {
			return 0
		}
		if l.left.CompareAndSwap(left, left-int64(got)) {
			return got
		}
	}
}

// wish makes a random job.
func (l *Load) wish(tier job.Tier, key int, dice *rand.Rand) wish {
	is := func(share float64) bool { return dice.Float64() < share }
	n := l.numbers.Add(1)
	p := Payload{Key: fmt.Sprintf("%d-%d", l.Seed, n), File: l.Runs,
		SleepMs: dice.IntN(int(l.MaxSleep.Milliseconds()) + 1)}
	if is(0.2) {
		p.Pad = strings.Repeat("pad \u00e9\u2028<&> ", dice.IntN(largestPad/16))
	}
	if is(l.Mix.Fail) {
		p.Fail = []int{1, 6}[dice.IntN(2)] // 6 is one more than the most retries of a tier
	}
	if is(l.Mix.Later) {
		p.Later = 1
	}
	kind, elsewhere := check.Type, l.Outsiders > 0 && is(l.Mix.Elsewhere)
	if elsewhere { // outsiders do not know of "later"
		kind, p.Later = check.Elsewhere, 0
	}
	hangs := !elsewhere && is(l.Mix.Hang)
	if hangs {
		p.HangMs = int(l.HangFor.Milliseconds())
	}
	text, _ := json.Marshal(p) // texts and numbers only: it cannot fail
	w := wish{
		op: check.Op{
			Kind: "submit", Key: p.Key, Trace: p.Key, Tier: tier, Type: kind, Sum: Sum(text), Fails: max(p.Fail, p.Later),
			Crashes: p.Crash, Hangs: hangs,
		},
		body: body{Type: kind, Payload: text},
		key:  key,
	}
	if elsewhere && is(0.5) { // else the type alone names the queue
		w.body.Queue = check.Queue
	}
	if l.lined(&w, dice) {
		return w
	}
	if is(l.Mix.Delay) {
		w.op.Delay = time.Duration(1+dice.IntN(int(l.MaxDelay.Milliseconds()))) * time.Millisecond
		w.body.Delay = w.op.Delay.Seconds()
	}
	if is(l.Mix.Once) {
		w.op.Once = l.once(p.Key, key, dice)
	}
	asked := check.Asked{Call: l.Receiver != "" && is(l.Mix.Call)}
	if asked.Call {
		w.body.Call = l.Receiver
	}
	if len(l.Keys) > 0 {
		asked.Owner = l.Keys[key].ID
	}
	l.askedFor(p.Key, asked)
	return w
}

// single submits one job. A job with an Idempotency-Key is submitted up to four times until an answer comes.
func (l *Load) single(ctx context.Context, w *wish, dice *rand.Rand) {
	for range 4 {
		l.submit(ctx, l.base(dice), w)
		if w.op.Once == "" || w.op.Fate != check.Unknown || !wait(ctx, time.Duration(dice.IntN(500))*time.Millisecond) {
			return
		}
	}
}

// follow handles a submitted job: it records the id and the key, submits some jobs again, and cancels some.
func (l *Load) follow(ctx context.Context, w *wish, dice *rand.Rand) {
	if w.op.ID == "" || w.op.Fate == check.Fail || w.op.Unique.StandIn {
		return
	}
	l.known.add(w.op.ID, w.key)
	if w.body.Unique != nil {
		return // a cancel might hit the payload of a later submit
	}
	if w.op.Once != "" && w.op.Fate == check.OK && l.KeyLife > 0 {
		l.used.add(usedKey{w.op.Once, w.key, w.op.Answered})
	}
	if w.op.Once != "" && dice.Float64() < l.Mix.Again {
		l.submit(ctx, l.base(dice), &wish{op: w.op, body: w.body, key: w.key})
	}
	if w.op.Fate == check.OK && dice.Float64() < l.Mix.Cancel {
		l.cancel(ctx, w.op.ID, dice)
	}
}
