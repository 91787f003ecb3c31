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

// uniques gives most submits of half of the seeds a unique key, and adds more submits: soon after others, while those
// wait or run.
func (p *plan) uniques(r *rand.Rand) {
	if r.IntN(2) == 0 {
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

// excuseInputs handles the last inputs when Redis forgets everything. With the journal they come back with the rows.
// Two replacements at once may have reached SQL in the other order (ADR 37), and a submit without an answer promises
// nothing.
func (w *World) excuseInputs() {
	for key, input := range w.shadow.lastInput {
		if w.shadow.inputOver[input] {
			continue
		}
		if w.shadow.overtaken[input] || !w.sql.hasInput(input) && !w.answeredAlone(input) {
			delete(w.shadow.lastInput, key)
		}
	}
}

// overtakes notes that the payload of an earlier submit replaces, in a row, the last input of a key.
func (s *shadow) overtakes(was, by job.ID) {
	for _, last := range s.lastInput {
		if last == was && was != by {
			s.overtaken[was] = true
		}
	}
}

// hasInput says whether a row has the payload of a submit.
func (d *database) hasInput(input job.ID) bool {
	for _, r := range d.rows {
		if !d.over(r) && inputOf(string(r.Payload)) == input {
			return true
		}
	}
	return false
}

// answeredAlone says whether a submit was answered, and no other submit with a unique key was under way at that time.
func (w *World) answeredAlone(id job.ID) bool {
	var of *client
	for _, c := range w.clients {
		if c.what == "submit" && c.id == id {
			of = c
		}
	}
	if of == nil || !of.done || of.fate != taken {
		return false
	}
	for _, c := range w.clients {
		apart := c.began.IsZero() || c.began.After(of.ended) || c.done && c.fate != unknown && c.ended.Before(of.began)
		if c != of && c.what == "submit" && c.key != "" && !apart {
			return false
		}
	}
	return true
}

// lastInputs checks at the end that the last input of each key was claimed, or was cancelled or killed.
func (s *shadow) lastInputs() {
	for key, input := range s.lastInput {
		if !s.inputOver[input] {
			s.wrong("S25", "the last input of the unique key %s, of the submit %s, never ran after it came", key, input)
		}
	}
}
