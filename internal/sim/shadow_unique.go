package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// holding says which job holds a unique key, and which jobs wait until it ends.
type holding struct {
	holder     *known
	generation int
	behind     []*known // oldest first
}

// uniqueKey returns the hash of the job's unique key with its partition; "" = it has none.
func (k *known) uniqueKey() string {
	hash, _, ok := strings.Cut(k.unique, ".")
	if !ok {
		return ""
	}
	return fmt.Sprint(k.id.Partition(), " ", hash)
}

func (k *known) while() job.UniqueWhile {
	_, while, _ := strings.Cut(k.unique, ".")
	return job.UniqueWhile(while)
}

// classOption is what the job's class has of its unique key.
func (k *known) classOption() string {
	if k.unique == "" {
		return ""
	}
	return " uniq=" + k.unique
}

// replaceable says whether a submit may replace the job's payload.
func (k *known) replaceable() bool {
	return k.generation == 1 && !k.tried && (k.status == job.Pending || k.status == job.Scheduled || k.status == job.Held)
}

func (h *holding) lives() bool {
	return h.holder.generation == h.generation && !h.holder.status.Ended()
}

// asking is a submit with a unique key, as its submit_class has it.
type asking struct {
	unique  string
	on      job.UniqueOn
	maxWait int64
}

// optionOf returns the unique key that the rest of a class has; "" = none.
func optionOf(rest string) string {
	_, option, _ := strings.Cut(rest, " uniq=")
	return option
}

// readAsking reads the part of a submit_class behind the queue's limit: uniq=<option> on max_wait_ms held_limit.
func readAsking(kind []string) (a asking) {
	if len(kind) > 12 {
		a = asking{strings.TrimPrefix(kind[10], "uniq="), job.UniqueOn(kind[11]), number(kind[12])}
	}
	return a
}

// askHolder returns what the script has to answer to a submit with a unique key; "" = it makes a job, which is behind
// the holder of what askHolder returns, unless that is nil. k is the job as the submit wants it.
func (s *shadow) askHolder(k *known, a asking, delay int64) (text string, behind *holding) {
	h := s.unique[k.uniqueKey()]
	switch {
	case h == nil || !h.lives():
		return "", nil
	case a.on == job.UniqueReturn:
		return string(job.IsUnique) + " " + string(h.holder.id), nil
	case a.on == job.UniqueRefuse:
		return string(job.IsTaken) + " " + string(h.holder.id), nil
	}
	old := h.holder
	if a.on != job.UniqueReplace || !old.replaceable() || old.tier.Tier != k.tier.Tier || old.queue != k.queue {
		if len(h.behind) == 0 || h.behind[len(h.behind)-1].status != job.Held || !h.behind[len(h.behind)-1].replaceable() {
			return "", h
		}
		old = h.behind[len(h.behind)-1]
	}
	return s.replace(old, k, a, delay), nil
}

// replace gives a waiting job the payload and the time of a new submit, and returns what the script has to answer.
func (s *shadow) replace(old, k *known, a asking, delay int64) string {
	now, due := s.w.ms(), int64(0)
	if delay > 0 {
		due = now + delay
	}
	if a.maxWait > 0 {
		due = min(due, old.arrived+a.maxWait)
	}
	if due <= now {
		due = 0
	}
	old.tier, old.queue, old.owner, old.unique, old.input = k.tier, k.queue, k.owner, k.unique, k.input
	old.line = k.line
	old.size, old.weight = k.size, k.weight
	s.inputCame(old, a.on)
	s.w.report.Faults["replaced"]++
	switch {
	case old.status == job.Held:
		old.due = due
		return fmt.Sprint(job.Replaced, " ", old.id, " 0")
	case due > 0:
		old.status, old.due = job.Scheduled, due
	case old.status == job.Scheduled:
		old.status, old.wished = job.Pending, now
	}
	return fmt.Sprint(job.Replaced, " ", old.id, " ", due)
}

// accepted handles a new job with a unique key. Behind a holder it is HELD.
func (s *shadow) accepted(k *known, on job.UniqueOn, behind *holding) {
	if s.inputCame(k, on); behind == nil {
		s.onlyHolder(k)
		s.unique[k.uniqueKey()] = &holding{holder: k, generation: k.generation}
		return
	}
	s.w.report.Faults["behind a holder"]++
	if k.status == job.Pending {
		k.due = 0
	}
	k.status, behind.behind = job.Held, append(behind.behind, k)
}

// letsGo notes that a job lets go of its key. freeKeys frees it when the script has moved all its jobs.
func (s *shadow) letsGo(k *known) {
	if k.unique != "" {
		s.freed = append(s.freed, k)
	}
}

// freeKeys passes on the keys of which letsGo was told: the first job that is behind the holder has the key now.
func (s *shadow) freeKeys() {
	for _, k := range s.freed {
		h := s.unique[k.uniqueKey()]
		switch {
		case h == nil:
		case h.holder != k || h.generation != k.generation:
			h.behind = slices.DeleteFunc(h.behind, func(other *known) bool { return other == k })
		case len(h.behind) == 0:
			delete(s.unique, k.uniqueKey())
		default:
			next := h.behind[0]
			if next.status == job.Held {
				s.runsNext(next)
			}
			s.unique[k.uniqueKey()] = &holding{next, next.generation, h.behind[1:]}
		}
	}
	s.freed = nil
}

// runsNext makes a HELD job wait for its time, or for a worker.
func (s *shadow) runsNext(k *known) {
	if k.due > s.w.ms() {
		k.status = job.Scheduled
		return
	}
	if k.status = job.Pending; !k.tried {
		k.wished = s.w.ms()
	}
}

// takesAgain gives a job that waits again the key that it freed at its claim, or puts it behind the holder.
func (s *shadow) takesAgain(k *known) {
	if k.while() != job.WhileWaiting {
		return
	}
	if h := s.unique[k.uniqueKey()]; h == nil {
		s.unique[k.uniqueKey()] = &holding{holder: k, generation: k.generation}
	} else if h.holder != k {
		h.behind = append(h.behind, k)
	}
}

// requeued gives a job that Redis got from its row its key, or makes it HELD behind the holder.
func (s *shadow) requeued(k *known) {
	if k.unique == "" || k.status.Ended() {
		return
	}
	h := s.unique[k.uniqueKey()]
	if h != nil && h.holder != k && h.lives() {
		k.status, h.behind = job.Held, append(h.behind, k)
		s.w.report.Faults["requeued behind a holder"]++
		return
	}
	next := &holding{holder: k, generation: k.generation}
	if h != nil {
		next.behind = h.behind
	}
	s.unique[k.uniqueKey()] = next
}
