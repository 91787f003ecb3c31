package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// life is one generation of a job.
type life struct {
	id         job.ID
	generation int
}

// database is what SQL holds, of all processes. Only the scheduler touches it.
type database struct {
	outcomes map[life]job.Outcome
	letters  map[life]*job.DeadLetter
}

// latest is the outcome of a job's last generation.
func (d *database) latest(id job.ID) (last job.Outcome, ok bool) {
	for l, o := range d.outcomes {
		if l.id == id && l.generation > last.Generation {
			last, ok = o, true
		}
	}
	return last, ok
}

// promised says whether a life ended as a dead letter and its requeue was promised.
func (d *database) promised(l life) bool {
	letter := d.letters[l]
	return letter != nil && !letter.Open()
}

// dead is a job with a dead letter that nobody has asked for; if there is none, the one given.
func (d *database) dead(id job.ID) job.ID {
	found := id
	for l, letter := range d.letters {
		if letter.Open() && (found == id || l.id < found) {
			found = l.id
		}
	}
	return found
}

// record is the archive's promise: the first outcome of a life stands.
func (w *World) record(batch []job.Outcome) {
	for _, o := range batch {
		l := life{o.ID, o.Generation}
		if held, there := w.sql.outcomes[l]; there {
			if held.Status != o.Status || held.Attempt != o.Attempt {
				w.fail("S12", "%s generation %d: SQL has %s of attempt %d and is told %s of %d", o.ID, o.Generation, held.Status, held.Attempt, o.Status, o.Attempt)
			}
			continue
		}
		w.shadow.recorded(&o)
		w.sql.outcomes[l] = o
		if o.Status == job.Failed {
			w.sql.letters[l] = &job.DeadLetter{Job: o.Job}
		}
		if before := w.sql.letters[life{o.ID, o.Generation - 1}]; before != nil && before.RequeuedAt.IsZero() {
			before.RequeuedAt = time.Now()
		}
	}
}

// archive is SQL as one process sees it: every statement goes through the gate.
type archive struct{ p *process }

func ask[T any](ctx context.Context, p *process, name, what string, do func(d *database) (T, error)) (T, error) {
	c := &call{proc: p, kind: toSQL, name: name, args: []string{what}, line: name}
	c.do = func() (any, error) { return do(p.world.sql) }
	reply, err := p.world.gate.pass(ctx, c)
	v, _ := reply.(T)
	if err != nil && !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrWrongState) {
		word := job.ErrUnavailable
		if name == "sql promise" && !errors.Is(err, errDial) && !errors.Is(err, errDead) {
			word = job.ErrAmbiguous
		}
		err = fmt.Errorf("%s: %w: %w", name, word, err)
	}
	return v, err
}

func (a archive) Find(ctx context.Context, id job.ID) (job.Job, error) {
	return ask(ctx, a.p, "sql find", string(id), func(d *database) (job.Job, error) {
		o, ok := d.latest(id)
		if !ok {
			return job.Job{}, job.ErrNotFound
		}
		return o.Job, nil
	})
}

func (a archive) DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error) {
	return ask(ctx, a.p, "sql letter", string(id), func(d *database) (job.DeadLetter, error) {
		o, ok := d.latest(id)
		switch {
		case !ok:
			return job.DeadLetter{}, job.ErrNotFound
		case o.Status != job.Failed:
			return job.DeadLetter{}, job.ErrWrongState
		}
		return *d.letters[life{id, o.Generation}], nil
	})
}

func (a archive) PromiseRequeue(ctx context.Context, id job.ID, generation int, request job.Request) (bool, error) {
	return ask(ctx, a.p, "sql promise", string(id)+" "+request.ID, func(d *database) (bool, error) {
		l := d.letters[life{id, generation}]
		if l != nil && l.Open() {
			l.RequestedAt, l.RequestID = time.Now(), request.ID
		}
		return l != nil && l.RequestID == request.ID, nil
	})
}

func (a archive) Requested(ctx context.Context, id job.ID, request string) (bool, error) {
	return ask(ctx, a.p, "sql requested", string(id)+" "+request, func(d *database) (bool, error) {
		for l, letter := range d.letters {
			if l.id == id && letter.RequestID == request {
				return true, nil
			}
		}
		return false, nil
	})
}

func (a archive) Requeued(ctx context.Context, letters []job.DeadLetter, _ string) error {
	_, err := ask(ctx, a.p, "sql requeued", string(letters[0].ID), func(d *database) (bool, error) {
		for i := range letters {
			if l := d.letters[life{letters[i].ID, letters[i].Generation}]; l.RequeuedAt.IsZero() {
				l.RequeuedAt = time.Now()
			}
		}
		return true, nil
	})
	return err
}

func (a archive) Promised(ctx context.Context, olderThan time.Duration, limit int) ([]job.DeadLetter, error) {
	return ask(ctx, a.p, "sql promised", "", func(d *database) ([]job.DeadLetter, error) {
		var all []job.DeadLetter
		for _, l := range d.letters {
			if !l.RequestedAt.IsZero() && l.RequeuedAt.IsZero() && time.Since(l.RequestedAt) >= olderThan {
				all = append(all, *l)
			}
		}
		slices.SortFunc(all, func(a, b job.DeadLetter) int {
			return cmp.Or(a.RequestedAt.Compare(b.RequestedAt), cmp.Compare(a.ID, b.ID))
		})
		return all[:min(len(all), limit)], nil
	})
}

// What the ledger asks for, and nothing in here does.

func (a archive) Reopen(context.Context, []string) (int64, error)                        { return 0, nil }
func (a archive) Attempts(context.Context, job.ID) ([]job.Attempt, error)                { return nil, nil }
func (a archive) CountDead(context.Context, job.Filter) (int64, error)                   { return 0, nil }
func (a archive) EachDead(context.Context, job.Filter, func(job.DeadLetter) error) error { return nil }
func (a archive) PromiseRequeues(context.Context, []job.DeadLetter, job.Request) ([]bool, error) {
	return nil, nil
}
func (a archive) List(context.Context, job.Filter, string, int) ([]job.Job, string, error) {
	return nil, "", nil
}
func (a archive) Dead(context.Context, job.Filter, string, int) ([]job.DeadLetter, string, error) {
	return nil, "", nil
}
func (a archive) DeadPage(context.Context, job.Filter, int, int) ([]job.DeadLetter, int64, error) {
	return nil, 0, nil
}
