package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// The shares of the batches, or of their members, that have a property.
const (
	batchesOpen      = 0.1 // are never sealed
	batchesCancelled = 0.1 // are cancelled instead of sealed
	batchesStuck     = 0.3 // owe the then job only if all members succeed
	batchesTold      = 0.4 // have a callback
	membersFail      = 0.1 // of the members, beside Mix.Fail: fail until they are dead letters
	membersExpire    = 0.1
	mostMembers      = 12
	batchLooks       = 0.1 // of the polls: a batch is looked at instead of a job
)

// batches has the batches that were made, for lookAtBatch.
type batches struct {
	mu   sync.Mutex
	all  []madeBatch
	then map[job.ID]bool // then jobs that an answer named
}

type madeBatch struct {
	id   job.ID
	name string
	key  int // the index of its API key
}

func (b *batches) add(m madeBatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, m)
}

// pick returns a random batch: mostly one of the latest.
func (b *batches) pick(dice *rand.Rand) (madeBatch, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.all)
	if n == 0 {
		return madeBatch{}, false
	}
	if dice.IntN(4) > 0 {
		return b.all[n-1-dice.IntN(min(n, 20))], true
	}
	return b.all[dice.IntN(n)], true
}

// isNew says whether no answer has named this then job before.
func (b *batches) isNew(id job.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.then == nil {
		b.then = map[job.ID]bool{}
	}
	was := b.then[id]
	b.then[id] = true
	return !was
}

type batchBody struct {
	Name string   `json:"name"`
	Tier job.Tier `json:"tier"`
	Call string   `json:"callbackUrl,omitempty"`
	Then thenBody `json:"then"`
}

type thenBody struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
	On      job.ThenOn      `json:"on"`
}

// group makes a batch, submits its members, and seals it. Some batches are cancelled instead, and some stay open. The
// last members are submitted beside the seal, and now and then a late member after it. refused is true if no batch was
// made.
func (l *Load) group(ctx context.Context, tier job.Tier, dice *rand.Rand) (refused bool) {
	key := min(flowKey, max(len(l.Keys)-1, 0))
	m, ok := l.makeBatch(ctx, tier, key, dice)
	if !ok {
		return true
	}
	l.batches.add(m)
	l.Batches.Add(1)
	wishes := make([]wish, dice.IntN(mostMembers+1))
	for i := range wishes {
		wishes[i] = l.member(tier, m, dice)
	}
	last := len(wishes) - min(len(wishes), dice.IntN(3))
	if before := wishes[:last]; len(before) > 1 && dice.IntN(2) == 0 {
		l.batch(ctx, l.base(dice), before, dice)
	} else {
		for i := range before {
			l.single(ctx, &before[i], dice)
		}
	}
	var beside sync.WaitGroup
	for i := range wishes[last:] {
		dice := rand.New(rand.NewPCG(dice.Uint64(), dice.Uint64()))
		beside.Go(func() { l.single(ctx, &wishes[last:][i], dice) })
	}
	switch roll := dice.Float64(); {
	case roll < batchesOpen:
	case roll < batchesOpen+batchesCancelled:
		l.changeBatch(ctx, check.CancelBatch, "cancel", m, 10, dice)
	default:
		l.changeBatch(ctx, check.SealBatch, "seal", m, 20, dice)
	}
	beside.Wait()
	if dice.IntN(4) == 0 {
		late := l.member(tier, m, dice)
		l.single(ctx, &late, dice)
		l.follow(ctx, &late, dice)
	}
	for i := range wishes {
		l.follow(ctx, &wishes[i], dice)
	}
	return false
}

// makeBatch makes a batch, under an Idempotency-Key and up to ten times until an answer comes. It returns false if no
// answer had the batch.
func (l *Load) makeBatch(ctx context.Context, tier job.Tier, key int, dice *rand.Rand) (m madeBatch, ok bool) {
	p := Payload{Key: fmt.Sprintf("%d-%d", l.Seed, l.numbers.Add(1)), File: l.Runs,
		SleepMs: dice.IntN(int(l.MaxSleep.Milliseconds()) + 1), Fail: []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 6}[dice.IntN(10)]}
	text, _ := json.Marshal(p) // texts and numbers only: it cannot fail
	m = madeBatch{name: fmt.Sprint(l.Seed, "-batch-", p.Key), key: key}
	op := check.Op{Kind: check.MakeBatch, Key: p.Key, Trace: m.name, Batch: m.name, Once: m.name, Tier: tier,
		Type: check.Type, Sum: Sum(inOrder(text)), Fails: p.Fail, On: job.ThenFinished}
	if dice.Float64() < batchesStuck {
		op.On = job.ThenSucceeded
	}
	b := batchBody{Name: m.name, Tier: tier, Then: thenBody{check.Type, text, op.On}}
	var asked check.Asked
	if len(l.Keys) > 0 {
		asked.Owner = l.Keys[key].ID
	}
	l.askedFor(p.Key, asked)
	if l.Receiver != "" && dice.Float64() < batchesTold {
		b.Call, asked.Call = l.Receiver, true
		l.askedFor(m.name, asked)
	}
	body, _ := json.Marshal(b)
	header := map[string]string{"X-Trace-Id": m.name, "Idempotency-Key": m.name}
	for range 10 {
		op.Server = l.base(dice)
		a := l.do(ctx, http.MethodPost, op.Server+"/api/batches", l.key(key), body, header, &op)
		var made struct {
			BatchID job.ID `json:"batchId"`
		}
		if a.fate() == check.OK {
			_ = json.Unmarshal(a.text, &made) // call has decoded the whole body before
		}
		op.ID = made.BatchID
		l.wrote(&op)
		if op.Fate != check.Unknown || !wait(ctx, time.Duration(dice.IntN(500))*time.Millisecond) {
			break
		}
	}
	m.id = op.ID
	return m, op.Fate == check.OK
}

// inOrder returns an object with its members in the order of their names, as a handler sees the payload of a then job
// without the counts.
func inOrder(object []byte) []byte {
	members := map[string]json.RawMessage{}
	_ = json.Unmarshal(object, &members) // it was marshalled
	text, _ := json.Marshal(members)
	return text
}

// member makes a random job that is a member of a batch. Some fail until they are dead letters, and some expire if no
// worker claims them soon.
func (l *Load) member(tier job.Tier, m madeBatch, dice *rand.Rand) wish {
	w := l.wish(tier, m.key, dice)
	w.op.Line, w.body.Line = "", ""
	w.op.Batch, w.body.Batch = m.name, m.id
	if dice.Float64() < membersFail {
		p := readPayload(w.body.Payload)
		p.Fail = 6 // one more than the most retries of a tier
		w.body.Payload, _ = json.Marshal(p)
		w.op.Sum, w.op.Fails = Sum(w.body.Payload), p.Fail
	}
	if dice.Float64() < membersExpire {
		w.body.Expires = w.body.Delay + 0.01 + 0.2*dice.Float64()
	}
	return w
}

// changeBatch seals or cancels a batch. It makes up to tries requests until an answer of 2xx comes.
func (l *Load) changeBatch(ctx context.Context, kind, verb string, m madeBatch, tries int, dice *rand.Rand) {
	op := check.Op{Kind: kind, ID: m.id, Batch: m.name}
	for range tries {
		l.change(ctx, l.base(dice), http.MethodPost, "/api/batches/"+string(m.id)+"/"+verb, l.key(m.key), &op)
		if op.Fate == check.OK || !wait(ctx, time.Duration(dice.IntN(500))*time.Millisecond) {
			return
		}
	}
}
