package sim

import (
	"fmt"
	"time"

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
	w.noteRunning()
	w.shadow.lose()
}

// gone is the holder of the attempts that noteRunning notes. It sends no heartbeat any more. Its token is that of the
// pool of an embedded server, which died, or that of an external worker.
const (
	gone      = "gone"
	goneOwn   = gone + ":0"
	goneLease = gone + ":c1.0-a"
)

// noteRunning notes in the rows which jobs run when Redis forgets everything, if the seed does so: in an embedded
// server each claim is in the journal. Jobs with a unique key are left out.
func (w *World) noteRunning() {
	for id, r := range w.sql.rows {
		k := w.shadow.jobs[id]
		if !w.plan.notes || k == nil || k.unique != "" || k.generation != max(r.Generation, 1) {
			continue
		}
		if k.status == job.Processing {
			r.Worker, r.Attempt, r.RetryCount = gone, k.attempt, k.retries
			if r.Token = ""; id[len(id)-3]%2 == 0 { // the last two digits are the partition
				r.Token, r.LeaseFor = goneLease, job.LeastLease
			}
			r.FirstTriedAt, r.StartedAt = time.UnixMilli(k.first), time.UnixMilli(k.lease.since)
		} else if r.Worker == gone {
			r.Worker, r.Attempt, r.RetryCount, r.FirstTriedAt, r.StartedAt = "", 0, 0, time.Time{}, time.Time{}
			r.Token = ""
		}
	}
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
	clear(s.spent)
	clear(s.places)
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
