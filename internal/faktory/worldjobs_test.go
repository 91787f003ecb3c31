package faktory

import (
	"context"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// jobsOf is a world as the ledger shows it: Find has another signature there.
type jobsOf struct{ *world }

func (w jobsOf) Find(_ context.Context, id job.ID) (job.Job, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range [][]job.Job{w.waiting, w.ready} {
		for i := range all {
			if all[i].ID == id {
				return all[i], nil
			}
		}
	}
	for i := range w.dead {
		if w.dead[i].ID == id {
			return w.dead[i].Job, nil
		}
	}
	return job.Job{}, job.ErrNotFound
}

func (w jobsOf) Whole(_ context.Context, j job.Job) (job.Job, bool, error) { return j, true, nil }

func (w jobsOf) Attempts(_ context.Context, id job.ID) (all []job.Attempt, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		if l.ID == id && l.LastError != "" {
			all = append(all, job.Attempt{Number: 1, Outcome: string(job.HandlerError), Error: l.LastError,
				FinishedAt: l.ArrivedAt})
		}
	}
	return all, nil
}

func (w jobsOf) List(_ context.Context, f job.Filter, _ string, _ int) (found []job.Job, next string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Clone(w.waiting)
	for _, l := range w.leases {
		l.Status = job.Processing
		all = append(all, l.Job)
	}
	for i := range all {
		if f.Takes(&all[i]) {
			all[i].Payload = nil
			found = append(found, all[i])
		}
	}
	return found, "", nil
}

func (w jobsOf) asked(what string, id job.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, what+" "+string(id[len(id)-1:]))
	w.waiting = slices.DeleteFunc(w.waiting, func(j job.Job) bool { return j.ID == id })
	w.world.dead = slices.DeleteFunc(w.world.dead, func(d job.DeadLetter) bool { return d.ID == id })
	return nil
}

func (w jobsOf) Cancel(_ context.Context, id job.ID, _ string) (job.Word, error) {
	return job.WasCancelled, w.asked("cancel", id)
}

func (w jobsOf) EachDead(_ context.Context, _ job.Filter, yield func(job.DeadLetter) error) error {
	w.mu.Lock()
	all := slices.Clone(w.world.dead)
	w.mu.Unlock()
	for _, d := range all {
		if err := yield(d); err != nil {
			return err
		}
	}
	return nil
}

func (w jobsOf) IsDead(context.Context, job.ID) (bool, error) { return true, nil }
func (w jobsOf) Requeue(_ context.Context, id job.ID, _ job.Request) error {
	return w.asked("requeue", id)
}
func (w jobsOf) Kill(_ context.Context, id job.ID, _ string) error    { return w.asked("kill", id) }
func (w jobsOf) Hasten(_ context.Context, id job.ID) error            { return w.asked("hasten", id) }
func (w jobsOf) Dismiss(_ context.Context, id job.ID, _ string) error { return w.asked("dismiss", id) }
