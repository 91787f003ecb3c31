package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// sets have the jobs that have not ended, those that SQL does not have yet, and the places that it has not confirmed.
var sets = []string{"queue", "scheduled", "expiries", "heartbeat_deadlines", "run_deadlines", "outbox",
	"reserving"}

// rests says whether nothing is left to do.
func (w *World) rests() bool {
	if !w.healed() || w.isFull() || len(w.ghosts) > 0 || len(w.restarts) > 0 {
		return false
	}
	for _, c := range w.clients {
		if !c.done {
			return false
		}
	}
	return w.restless() == ""
}

// restless names what is not at rest; "" = everything is.
func (w *World) restless() string {
	var left []string
	for _, p := range w.processes {
		if !p.alive() || p.draining {
			left = append(left, p.nonce+" is not back")
		}
	}
	for p := range w.plan.partitions {
		keys := []string{queue.Key(p, "queues") + otherQueue, queue.Key(p, "lines") + "waiting"}
		for _, set := range sets {
			keys = append(keys, queue.Key(p, set))
		}
		for _, key := range keys {
			if w.store.mini.Exists(key) {
				left = append(left, key)
			}
		}
	}
	if len(left) == 0 {
		left = w.unsynced()
	}
	left = append(left, w.unfired()...)
	for id, r := range w.sql.rows {
		submitting := ""
		if r.Submitting {
			submitting = ", still its submit's"
		}
		left = append(left, fmt.Sprintf("the row of %s generation %d%s", id, r.Generation, submitting))
	}
	return strings.Join(left, ", ")
}

// direct returns a client that does not stop at the gate, for the checks.
func (w *World) direct() *redis.Client {
	return newClient(func(_ context.Context, c *call) (any, error) {
		if c.name != "" && !c.script() {
			return w.store.do(c.args...)
		}
		if c.source == "" {
			return nil, refusal("NOSCRIPT No matching script.")
		}
		return w.store.eval(c.source, c.args[:c.keys], c.args[c.keys:])
	})
}

// check compares the store with the audit's rules, and each job with the shadow. At the end it also checks that
// every promise was kept.
func (w *World) check(end bool) {
	client := w.direct()
	defer func() { _ = client.Close() }()
	there := map[job.ID]bool{}
	for p := range w.plan.partitions {
		s, err := queuetest.Read(context.Background(), client, p)
		if err != nil {
			w.fail("audit", "%v", err)
			return
		}
		for _, wrong := range s.Audit() {
			w.fail("S1 S6 S9 S10", "audit: %s", wrong)
		}
		for _, owner := range []string{"ann", "bob"} {
			if want := w.shadow.living(p, owner); s.Owners[owner] != int64(want) {
				w.fail("S9", "%d jobs of %s are counted as living, %d are", s.Owners[owner], owner, want)
			}
		}
		w.shadow.parked(s, p)
		for id, h := range s.Jobs {
			k := w.shadow.jobs[job.ID(id)]
			if k == nil {
				w.fail("S3", "%s is in the store, and nobody submitted it", id)
				continue
			}
			there[k.id] = true
			if k.forgotten {
				w.fail("S12", "%s: it was forgotten, and the store has it", k)
			}
			if state := s.State(k.id); state != k.status || number(h["attempt"]) != int64(k.attempt) ||
				number(h["retries"]) != int64(k.retries) || !state.Ended() && number(h["crashes"]) != int64(k.crashes) {
				w.fail("S12", "%s: in the store it is %s, attempt %q, %q retries, %q crashes", k, state, h["attempt"],
					h["retries"], h["crashes"])
			}
		}
	}
	for id, k := range w.shadow.jobs {
		if !there[id] && !k.acked {
			w.fail("S1", "%s: it is not in the store any more", k)
		}
	}
	w.journaled()
	if end {
		w.oneEach()
		w.settled()
	}
}

// settled checks that every generation of every job has one outcome, and that every client got a true answer.
func (w *World) settled() {
	for _, k := range w.shadow.all() {
		for g := 1; g <= k.generation; g++ {
			o, ok := w.sql.outcomes[life{k.id, g}]
			if !ok {
				w.fail("S1 S2", "%s: generation %d has no outcome", k, g)
			}
			if g < k.generation && o.Status != job.Failed && !w.sql.ofFlow(life{k.id, g}) {
				w.fail("S2", "%s: generation %d ended %s, and yet there is another", k, g, o.Status)
			}
		}
	}
	for l := range w.sql.outcomes {
		if w.shadow.of(l.id) == nil && !w.sql.ofFlow(l) {
			w.fail("S3", "%s has an outcome, and nobody submitted it", l.id)
		}
	}
	promised := map[job.ID]map[string]bool{} // by request: a repeated request is one promise
	for _, c := range w.clients {
		k := w.shadow.of(c.id)
		last, _ := w.sql.latest(c.id)
		switch {
		case c.what == "submit" && c.fate == taken && c.first != "":
			if w.shadow.of(c.first) == nil {
				w.fail("S13", "%s: the first job does not exist", c)
			}
		case c.what == "submit" && c.fate == taken && k == nil:
			w.fail("S1", "%s: it does not exist", c)
		case c.what == "submit" && c.fate == refused && k != nil && !w.sql.outliving[c.id]:
			w.fail("S3", "%s: it ran all the same", c)
		case c.what == "cancel" && c.fate == taken && last.Status != job.Cancelled && w.shadow.lost[c.id] == nil &&
			!w.sql.wasCancelled(c.id):
			w.fail("S2", "%s: it ended %s", c, last.Status)
		case c.what == "kill" && c.fate == taken && !w.sql.killed(c.id):
			w.fail("S2", "%s: it has no dead letter that says so; it ended %s", c, last.Status)
		case c.what == "requeue" && c.fate == taken:
			if promised[c.id] == nil {
				promised[c.id] = map[string]bool{}
			}
			promised[c.id][c.request] = true
		}
	}
	for id, requests := range promised {
		if k := w.shadow.of(id); k == nil || len(requests) > k.generation-1 {
			w.fail("L1", "%s: %d promises of a new life were made, and not all kept", k, len(requests))
		}
	}
	w.onTime()
	w.onlyUnborn()
	w.batchesEnded()
	w.flowsEnded()
	w.shadow.lastInputs()
	w.forgotten()
}

// forgotten checks that no key of any job is left when all times to live have ended.
func (w *World) forgotten() {
	w.store.mini.FastForward(25 * time.Hour)
	for _, key := range w.store.mini.Keys() {
		_, name, _ := strings.Cut(key, "}:")
		switch name {
		case "counters", "clock", "epoch", "doorbell", "doorbell:" + otherQueue,
			"suspects:crashed", "suspects:stuck", "system:config", "lines:virtual", "lines:limits":
		default:
			if name == "reserved" && w.Flows { // of jobs that never came: the audit gives their places back
				continue
			}
			if strings.HasPrefix(name, "lines:tags:") || name == "lines:keys" && w.onlyRates(key) {
				continue
			}
			w.fail("S10 X2", "%s is kept for ever", key)
		}
	}
}
