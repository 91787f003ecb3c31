package sim

import (
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// forgetAll is a restart of Redis that keeps nothing. Calls on their way to Redis are lost too.
func (w *World) forgetAll() {
	w.losses++
	w.store.mini.FlushAll()
	for p := range w.plan.partitions {
		w.nameData(p, fmt.Sprint("after ", w.losses))
	}
	kept := w.ghosts[:0]
	for _, g := range w.ghosts {
		if g.kind == toSQL {
			kept = append(kept, g)
		}
	}
	w.ghosts = kept
	w.excuseInputs()
	w.shadow.lose()
}

// lose handles a Redis that forgot everything.
func (s *shadow) lose() {
	for id, k := range s.jobs {
		k.lease = nil
		s.lost[id] = k
	}
	clear(s.jobs)
	clear(s.clock)
	clear(s.claims)
	clear(s.elsewhere)
	clear(s.once)
	clear(s.unique)
	clear(s.lines)
}

// of returns a job in its state, or in the state in which Redis lost it; nil = the job was not submitted.
func (s *shadow) of(id job.ID) *known {
	if k := s.jobs[id]; k != nil {
		return k
	}
	return s.lost[id]
}

// all returns all jobs, with those that Redis lost.
func (s *shadow) all() map[job.ID]*known {
	all := map[job.ID]*known{}
	for id := range s.lost {
		all[id] = s.of(id)
	}
	for id, k := range s.jobs {
		all[id] = k
	}
	return all
}
