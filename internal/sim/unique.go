package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/tierq/tierq/internal/job"
)

// This file has unique keys: which seeds submit them, and rule S25. shadow_unique.go has what the scripts may answer.
//
// S25: no two jobs that hold one key while they live run at once, or are accepted beside each other. A job that is HELD
// is let go when the holder ends. The last input that was accepted with on after or replace is claimed after it came,
// unless its job was cancelled or killed.

// uniqueKeys is how many unique keys a seed has.
const uniqueKeys = 2

// uniques gives most submits of half of the seeds without the journal a unique key, and adds more submits: soon after
// others, while those wait or run. After a loss of Redis two jobs may hold one key (ADR 37), so the seeds with the
// journal have none.
func (p *plan) uniques(r *rand.Rand) {
	if p.journal || r.IntN(2) == 0 {
		return
	}
	var jobs []order
	for i := range p.orders {
		if o := &p.orders[i]; o.what == "submit" && o.tier != added.Tier {
			o.unique(r)
			jobs = append(jobs, *o)
		}
	}
	for i := range 4 + r.IntN(9) {
		o := jobs[r.IntN(len(jobs))]
		o.id = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", 0x400+i, 0x400+i, o.id.Partition()))
		o.at, o.process, o.once = o.at+ticks(r, 0, 30), r.IntN(len(p.slots)), job.Idempotency{}
		if o.delay = 0; r.IntN(5) == 0 {
			o.delay = ticks(r, 1, 30)
		}
		o.unique(r)
		p.orders = append(p.orders, o)
		if r.IntN(3) == 0 {
			what := []string{"cancel", "kill", "hasten"}[r.IntN(3)]
			p.orders = append(p.orders, order{at: o.at + ticks(r, 0, 20), what: what, process: o.process, id: o.id})
		}
	}
}

// unique draws the unique key of a submit; one in eight has none.
func (o *order) unique(r *rand.Rand) {
	if r.IntN(8) == 0 {
		return
	}
	while := []job.UniqueWhile{job.WhileLiving, job.WhileWaiting}[r.IntN(2)]
	o.key = job.Unique(fmt.Sprintf("%032x", 1+r.IntN(uniqueKeys)), while)
	all := []job.UniqueOn{job.UniqueReturn, job.UniqueRefuse, job.UniqueReplace, job.UniqueReplace, job.UniqueAfter}
	if o.on = all[r.IntN(len(all))]; o.on == job.UniqueReplace && r.IntN(3) == 0 {
		o.delay, o.maxWait = ticks(r, 10, 40), ticks(r, 2, 20)
	}
}

// inputOf returns the submit whose payload this is.
func inputOf(text string) job.ID {
	var p payload
	_ = json.Unmarshal([]byte(text), &p)
	return p.Of
}

// inputCame notes that the payload of a submit was accepted for a key.
func (s *shadow) inputCame(k *known, on job.UniqueOn) {
	if on == job.UniqueAfter || on == job.UniqueReplace {
		s.lastInput[k.uniqueKey()] = k.input
		delete(s.inputOver, k.input)
	}
}

// onlyHolder checks that no other living job holds the job's key while both live. It asks the states of jobs, and not
// who has the key.
func (s *shadow) onlyHolder(k *known) {
	if k.while() != job.WhileLiving {
		return
	}
	for _, other := range s.jobs {
		if other != k && other.uniqueKey() == k.uniqueKey() && other.while() == job.WhileLiving &&
			!other.status.Ended() && other.status != job.Held {
			s.wrong("S25", "%s and %s hold one unique key", k, other)
		}
	}
}

// lastInputs checks at the end that the last input of each key was claimed, or was cancelled or killed.
func (s *shadow) lastInputs() {
	for key, input := range s.lastInput {
		if !s.inputOver[input] {
			s.wrong("S25", "the last input of the unique key %s, of the submit %s, never ran after it came", key, input)
		}
	}
}
