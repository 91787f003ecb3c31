package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// Faktory says how clients that speak Faktory's protocol reach the servers. The zero value has no such clients.
type Faktory struct {
	Addrs      func() []string // the servers' current addresses for this protocol
	Workers    int
	WorkerKeys []Key // each with its password for the gateway as the text
	Keys       []Key // of the clients that push: those of Options.Keys, with their passwords
	// Held returns the names of the attempts of a job that a worker holds, see job.HeldField. The protocol does not tell a
	// worker which attempt it has got.
	Held   func(ctx context.Context, key, wid, jid string) ([]string, error)
	Lease  time.Duration // how long a lease lives at least
	Linger time.Duration // for how long leases are extended after the last connection of their worker has closed
}

// OverFaktory counts what the clients that speak Faktory's protocol did.
type OverFaktory struct{ Pushed, Jobs, Vanished, Late, Dropped, Twice atomic.Int64 }

// faktoryWorker is a worker that speaks Faktory's protocol. Each of its commands goes to a random server. It has one
// job at a time. After an answer that it did not get it ends, and another worker with another wid follows it: an ACK
// names a job and no attempt, so that a late one of the same wid may end the job's next attempt.
type faktoryWorker struct {
	*Load
	key   Key
	wid   string
	dice  *rand.Rand
	conns map[string]*faktoryConn // by address
	seen  map[string]bool         // the attempts that it has had
	last  *task                   // the latest job; nil = none
}

// workFaktory runs one worker after another until ctx ends. A late worker ends beside the next one, in group.
func (l *Load) workFaktory(ctx context.Context, n int, group *sync.WaitGroup) {
	dice := l.dice(5000 + n)
	for life := 1; ctx.Err() == nil; life++ {
		w := &faktoryWorker{
			Load: l, key: l.Faktory.WorkerKeys[n%len(l.Faktory.WorkerKeys)], wid: fmt.Sprintf("f%dx%d", n, life),
			dice: rand.New(rand.NewPCG(dice.Uint64(), dice.Uint64())), conns: map[string]*faktoryConn{}, seen: map[string]bool{},
		}
		if late := w.live(ctx); late != nil {
			group.Go(late)
		}
		wait(ctx, time.Duration(dice.IntN(200))*time.Millisecond)
	}
}

// live fetches and works until the worker ends. It returns what the worker does later, nil for nothing.
func (w *faktoryWorker) live(ctx context.Context) (late func()) {
	defer w.hangUp()
	for ctx.Err() == nil {
		c := w.conn(ctx)
		if c == nil {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		if w.dice.Float64() < beats {
			if _, err := c.ask("BEAT", map[string]string{"wid": w.wid}); err != nil {
				return nil
			}
		}
		sent := time.Now()
		if c.say("FETCH", check.Queue) != nil {
			return nil
		}
		if w.sometimes(w.dice, hangsUp/2) {
			w.OverFaktory.Dropped.Add(1)
			wait(ctx, time.Duration(w.dice.IntN(40))*time.Millisecond)
			return nil
		}
		r, err := c.hear()
		if err != nil {
			return nil // if the answer had a job, its lease runs out
		}
		if r.kind != '$' || r.text == "" {
			wait(ctx, time.Duration(10+w.dice.IntN(100))*time.Millisecond)
			continue
		}
		t, p := w.take(ctx, r.text, sent)
		if t == nil || w.sometimes(w.dice, vanishes) {
			w.OverFaktory.Vanished.Add(1)
			return nil
		}
		if w.sometimes(w.dice, silent) {
			w.OverFaktory.Late.Add(1)
			return func() { w.late(ctx, t, p) }
		}
		if !wait(ctx, time.Duration(p.SleepMs)*time.Millisecond) || !w.report(ctx, t, p) {
			return nil
		}
	}
	return nil
}

// take begins a job. It returns nil if Redis does not tell which attempt this is: Redis is away, or has forgotten.
func (w *faktoryWorker) take(ctx context.Context, text string, sent time.Time) (*task, *Payload) {
	var j struct {
		Jid  string
		Args []json.RawMessage
	}
	if json.Unmarshal([]byte(text), &j) != nil || len(j.Args) == 0 {
		j.Args = []json.RawMessage{json.RawMessage(text)} // its sum is wrong, and its jid is nobody's
	}
	sum := Sum(j.Args[0])
	if strings.HasPrefix(j.Jid, jidPrefix) { // what the gateway adds stands behind what was pushed
		sum = Sum([]byte(text[:max(strings.LastIndex(text, `,"enqueued_at":`), 0)] + "}"))
	}
	t := &task{Jid: j.Jid}
	if !w.identify(ctx, t) {
		return nil, nil
	}
	p := readPayload(j.Args[0])
	w.OverFaktory.Jobs.Add(1)
	w.last = t
	w.begin(t, &check.Run{
		ID: t.JobID, Key: p.Key, Attempt: t.Attempt, Worker: w.wid, Sum: sum, Began: time.Now(),
		Held: sent.Add(w.Faktory.Lease),
	})
	return t, &p
}

// identify asks Redis which job and which attempt the worker has.
func (w *faktoryWorker) identify(ctx context.Context, t *task) bool {
	within, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	for {
		fields, err := w.Faktory.Held(within, w.key.ID, w.wid, t.Jid)
		for _, field := range fields {
			id, number, _ := strings.Cut(field, ":")
			if n, _ := strconv.Atoi(number); n > t.Attempt && !w.seen[field] {
				t.JobID, t.Attempt = job.ID(id), n
			}
		}
		if err == nil {
			w.seen[job.HeldField(t.JobID, t.Attempt)] = true
			return t.Attempt > 0
		}
		if !wait(within, 50*time.Millisecond) {
			return false
		}
	}
}

// late reports a job after its lease has run out, or shortly before that, and again and again: the next worker may have
// it at one of these moments.
func (w *faktoryWorker) late(ctx context.Context, t *task, p *Payload) {
	defer w.hangUp()
	silence := w.Faktory.Linger + w.Faktory.Lease + time.Duration(w.dice.IntN(8000))*time.Millisecond
	for range 8 {
		if !wait(ctx, silence) || !w.report(ctx, t, p) {
			return
		}
		silence = 600 * time.Millisecond
	}
}

// report ends an attempt: it sends ACK or FAIL until an answer comes, and sometimes once more after that. It returns
// false if an answer was not got: the worker has to end.
func (w *faktoryWorker) report(ctx context.Context, t *task, p *Payload) (sure bool) {
	verb := "ACK"
	if t.Attempt <= p.Fail || w.sometimes(w.dice, fails) {
		verb = "FAIL"
	}
	if !t.ended {
		sum := ""
		if verb == "ACK" {
			sum = resultSum(nil)
		}
		w.end(t, sum)
		t.ended, t.verb = true, verb
	}
	verb, sure = t.verb, true
	for first := true; ctx.Err() == nil; first = false {
		r, answered := w.tell(ctx, t, verb, first)
		if sure = sure && answered; r.kind == '+' || strings.HasPrefix(r.text, "ERR Job not found") {
			break
		}
		wait(ctx, time.Duration(50+w.dice.IntN(200))*time.Millisecond)
	}
	if w.dice.Float64() < twice {
		w.OverFaktory.Twice.Add(1)
		if w.dice.IntN(3) == 0 {
			verb = []string{"ACK", "FAIL"}[w.dice.IntN(2)]
		}
		_, answered := w.tell(ctx, t, verb, false)
		sure = sure && answered
	}
	return sure
}

// tell sends an ACK or a FAIL once, and records the call. Of the first calls some hang up at once. answered is false if
// a server may yet execute the call.
func (w *faktoryWorker) tell(ctx context.Context, t *task, verb string, first bool) (r faktoryReply, answered bool) {
	c := w.conn(ctx)
	if c == nil {
		return r, true // nothing was sent
	}
	call := check.WorkerCall{Verb: "complete", Result: resultSum(nil), Sent: time.Now()}
	body := map[string]string{"jid": t.Jid}
	if verb == "FAIL" {
		call.Verb, call.Result = "fail", ""
		body["errtype"], body["message"] = "Chaos", "it was to fail"
	}
	err := c.say(verb, body)
	if err == nil && first && w.sometimes(w.dice, hangsUp) {
		w.OverFaktory.Dropped.Add(1)
		err = errFaktory
	}
	if err == nil {
		r, err = c.hear()
	}
	if err != nil {
		w.drop(c)
	}
	call.Word = r.text
	w.told(t, &call)
	return r, err == nil
}

// conn returns a connection to a random server; nil if there is none.
func (w *faktoryWorker) conn(ctx context.Context) *faktoryConn {
	addrs := w.Faktory.Addrs()
	addr := addrs[w.dice.IntN(len(addrs))]
	if c := w.conns[addr]; c != nil {
		return c
	}
	c, err := dialFaktory(ctx, addr, w.key, w.wid, w.Timeout)
	if err != nil {
		return nil
	}
	w.conns[addr] = c
	return c
}

func (w *faktoryWorker) drop(c *faktoryConn) {
	c.close()
	for addr, one := range w.conns {
		if one == c {
			delete(w.conns, addr)
		}
	}
}

// hangUp closes all connections, half of them after END. The servers extend the lease of the last job for a while.
func (w *faktoryWorker) hangUp() {
	for _, c := range w.conns {
		if w.dice.IntN(2) == 0 {
			_ = c.say("END", "") // the connection closes either way
		}
		w.drop(c)
	}
	if w.last != nil {
		w.letGo(w.last, time.Now().Add(w.Faktory.Linger+w.Faktory.Lease))
	}
}
