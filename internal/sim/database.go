package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// life is one generation of a job.
type life struct {
	id         job.ID
	generation int
}

// database is the contents of SQL, shared by all processes. Only the scheduler touches it.
type database struct {
	outcomes  map[life]job.Outcome
	letters   map[life]*job.DeadLetter
	rows      map[job.ID]*row
	keys      map[string]*keyHeld
	written   map[job.ID]time.Time // when submits wrote their rows
	seen      map[sight]bool
	outliving map[job.ID]bool           // see client.outliving
	limits    map[string]job.LineLimits // of keys of lines
	times     *times                    // the schedules; nil = there are none
	batches   *batches                  // nil = there are none
	flows     map[job.ID]*flow          // nil = there are none
	cascades  map[life]bool             // whether the requeue that began a generation of a flow's job has cascade
}

// row is a journal row: a job that has not ended and that Redis must have.
type row struct {
	job.JournalRow
	recorded time.Time
}

// latest returns the outcome of a job's last generation that has one.
func (d *database) latest(id job.ID) (last job.Outcome, ok bool) {
	for l, o := range d.outcomes {
		if l.id == id && l.generation > last.Generation {
			last, ok = o, true
		}
	}
	return last, ok
}

// promised says whether a generation is a dead letter with an accepted requeue.
func (d *database) promised(l life) bool {
	letter := d.letters[l]
	return letter != nil && !letter.Open()
}

// dead returns the first job with a dead letter that was not requeued; if there is none, the given job.
func (d *database) dead(id job.ID) job.ID {
	found := job.ID("")
	for l, letter := range d.letters {
		if letter.Open() && (found == "" || l.id < found) {
			found = l.id
		}
	}
	return cmp.Or(found, id)
}

// record writes outcomes to SQL. The first outcome of a generation stands. It returns the rows of the jobs that flows
// release, and that batches owe, because of the outcomes.
func (w *World) record(batch []job.Outcome) (released []job.JournalRow) {
	var fresh, again []job.Outcome
	for _, o := range batch {
		l := life{o.ID, o.Generation}
		if held, there := w.sql.outcomes[l]; there {
			if (held.Status != o.Status || held.Attempt != o.Attempt) && w.shadow.lost[o.ID] == nil {
				w.fail("S12", "%s generation %d: SQL has %s of attempt %d and is told %s of %d", o.ID, o.Generation, held.Status,
					held.Attempt, o.Status, o.Attempt)
			}
			again = append(again, o)
			continue
		}
		fresh = append(fresh, o)
		w.shadow.recorded(&o)
		w.sql.outcomes[l] = o
		if o.Status == job.Failed {
			w.sql.letters[l] = &job.DeadLetter{Job: o.Job}
		}
		if r := w.sql.rows[o.ID]; r != nil && r.Generation <= o.Generation && !w.Journal.KeepsRows {
			delete(w.sql.rows, o.ID)
		}
	}
	return append(w.flowsTold(fresh, again), w.counted(fresh, again)...)
}

// archive is SQL as one process sees it. Every statement goes through the gate.
type archive struct{ p *process }

// answersOfSQL are errors that SQL's part answers itself.
var answersOfSQL = []error{job.ErrNotFound, job.ErrWrongState, job.ErrNoBatch, job.ErrFlowNotFound}

func ask[T any](ctx context.Context, p *process, name, what string, do func(d *database) (T, error)) (T, error) {
	c := &call{proc: p, kind: toSQL, name: name, args: []string{what}, line: name}
	c.do = func() (any, error) { return do(p.world.sql) }
	reply, err := p.world.gate.pass(ctx, c)
	v, _ := reply.(T)
	if err != nil && !slices.ContainsFunc(answersOfSQL, func(said error) bool { return errors.Is(err, said) }) {
		word := job.ErrUnavailable
		if (name == "sql promise" || c.ofJournal()) && !errors.Is(err, errDial) && !errors.Is(err, errDead) {
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

func (a archive) PromiseRequeues(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error) {
	return ask(ctx, a.p, "sql promise", string(next[0].ID)+" "+request.ID, func(d *database) ([]bool, error) {
		mine := make([]bool, len(next))
		for i := range next {
			l := d.letters[life{next[i].ID, next[i].Generation - 1}]
			if l != nil && l.Open() {
				l.RequestedAt, l.RequeuedAt, l.RequestID = time.Now(), time.Now(), request.ID
				d.rows[next[i].ID] = &row{JournalRow: next[i], recorded: time.Now()}
				a.p.world.revived(&next[i])
				a.p.world.flowRequeued(&next[i], request.Cascade)
			}
			mine[i] = l != nil && l.RequestID == request.ID
		}
		return mine, nil
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

// living returns the rows that takes accepts, by id. It leaves out rows of jobs that have ended.
func (d *database) living(takes func(r *row) bool) (rows []job.JournalRow) {
	for _, id := range slices.Sorted(maps.Keys(d.rows)) {
		if r := d.rows[id]; !d.over(r) && takes(r) {
			rows = append(rows, r.JournalRow)
		}
	}
	return rows
}

// killed says whether a generation of a job ended because it was killed.
func (d *database) killed(id job.ID) bool {
	for l, o := range d.outcomes {
		if l.id == id && o.Status == job.Failed && o.Cause == job.Killed {
			return true
		}
	}
	return false
}

// over says whether SQL has the outcome of a row's generation, or of a later one.
func (d *database) over(r *row) bool {
	last, ok := d.latest(r.ID)
	return ok && last.Generation >= r.Generation
}

func (a archive) Runs(ctx context.Context) ([]string, error) {
	return ask(ctx, a.p, "sql runs", "", func(d *database) (runs []string, _ error) {
		for _, r := range d.rows {
			runs = append(runs, r.Incarnation)
		}
		slices.Sort(runs)
		return slices.Compact(runs), nil
	})
}

func (a archive) Lost(
	ctx context.Context, run string, age time.Duration, after job.ID, limit int,
) ([]job.JournalRow, error) {
	return ask(ctx, a.p, "sql lost", run+" "+string(after), func(d *database) ([]job.JournalRow, error) {
		lost := d.living(func(r *row) bool {
			return r.Incarnation == run && r.ID > after && time.Since(r.recorded) >= age
		})
		if a.p.world.Journal.GivesNothing && run != "" {
			return nil, nil
		}
		lost = lost[:min(len(lost), limit)]
		for i := range lost {
			d.seen[sight{lost[i].ID, atTheLook}] = true
		}
		return lost, nil
	})
}

func (a archive) LivingOf(ctx context.Context, ids []job.ID) ([]job.JournalRow, error) {
	return ask(ctx, a.p, "sql living", string(ids[0]), func(d *database) ([]job.JournalRow, error) {
		living := d.living(func(r *row) bool {
			return (!r.untaken(&a.p.world.Journal) || a.p.world.Journal.OwesNothing) && slices.Contains(ids, r.ID)
		})
		for i := range living {
			d.seen[sight{living[i].ID, atTheRead}] = true
		}
		return living, nil
	})
}

func (a archive) Owe(ctx context.Context, ids []job.ID) error {
	_, err := ask(ctx, a.p, "sql owe", string(ids[0]), func(d *database) (bool, error) {
		for _, id := range ids {
			if r := d.rows[id]; r != nil && !a.p.world.Journal.OwesNothing {
				r.Submitting = false
			}
		}
		return true, nil
	})
	return err
}

func (a archive) Sweep(ctx context.Context, _ job.ID, _ int) (next job.ID, swept int64, err error) {
	if !a.p.world.plan.journal {
		return "", 0, nil
	}
	swept, err = ask(ctx, a.p, "sql sweep", "", func(d *database) (swept int64, _ error) {
		for id, r := range d.rows {
			if d.over(r) {
				delete(d.rows, id)
				swept++
			}
		}
		return swept, nil
	})
	return "", swept, err
}

func (a archive) DropKeys(ctx context.Context) (dropped int64, more bool, err error) {
	dropped, err = ask(ctx, a.p, "sql drop keys", "", func(d *database) (dropped int64, _ error) {
		for key, h := range d.keys {
			if !h.expires.After(time.Now()) {
				delete(d.keys, key)
				dropped++
			}
		}
		return dropped, nil
	})
	return dropped, false, err
}

func (a archive) Journaled(ctx context.Context, id job.ID) (job.Job, error) {
	return ask(ctx, a.p, "sql row", string(id), func(d *database) (job.Job, error) {
		r := d.rows[id]
		if r == nil || d.over(r) {
			return job.Job{}, job.ErrNotFound
		}
		j := r.Job
		switch j.Status = job.Pending; {
		case r.KillReason != "":
			j.Status, j.Cause = job.Failed, job.Killed
		case r.CancelRequested && r.Incarnation != "":
			j.Status = job.Cancelled
		}
		return j, nil
	})
}

func (a archive) Found(ctx context.Context, rows []job.JournalRow, run string) error {
	_, err := ask(ctx, a.p, "sql found", string(rows[0].ID)+" "+run, func(d *database) (bool, error) {
		for i := range rows {
			if r := d.rows[rows[i].ID]; r != nil && r.Generation == rows[i].Generation {
				r.Incarnation = run
				r.Submitting = r.Submitting && a.p.world.Journal.FoundIsNotOwed
			}
		}
		return true, nil
	})
	return err
}

func (a archive) Cancelling(ctx context.Context, id job.ID, run string) error {
	_, err := ask(ctx, a.p, "sql cancelling", string(id)+" "+run, func(d *database) (bool, error) {
		if r := d.rows[id]; r != nil {
			r.CancelRequested, r.Submitting, r.Incarnation = true, false, cmp.Or(r.Incarnation, run)
		}
		return true, nil
	})
	return err
}

func (a archive) Killing(ctx context.Context, k job.Killing, run string) error {
	_, err := ask(ctx, a.p, "sql killing", string(k.ID)+" "+run, func(d *database) (bool, error) {
		if r := d.rows[k.ID]; r != nil && max(r.Generation, 1) == k.Generation && !a.p.world.Journal.KillsNothing {
			r.CancelRequested, r.KillReason, r.Submitting, r.Incarnation = true, k.Reason, false, cmp.Or(r.Incarnation, run)
		}
		return true, nil
	})
	return err
}

func (a archive) Hastening(ctx context.Context, id job.ID, arrived time.Time, run string) error {
	_, err := ask(ctx, a.p, "sql hastening", string(id)+" "+run, func(d *database) (bool, error) {
		if r := d.rows[id]; r != nil {
			r.RunAt, r.Submitting, r.Incarnation = time.Time{}, false, cmp.Or(r.Incarnation, run)
			if r.ArrivedAt.IsZero() {
				r.ArrivedAt = arrived
			}
		}
		return true, nil
	})
	return err
}

// The ledger's interfaces demand these methods; the simulation does not use them.

func (a archive) AdoptPromises(context.Context, func(job.Tier) int) (int, error)         { return 0, nil }
func (a archive) Dismiss(context.Context, job.ID, string) (bool, error)                  { return false, nil }
func (a archive) Attempts(context.Context, job.ID) ([]job.Attempt, error)                { return nil, nil }
func (a archive) CountDead(context.Context, job.Filter) (int64, error)                   { return 0, nil }
func (a archive) EachDead(context.Context, job.Filter, func(job.DeadLetter) error) error { return nil }
func (a archive) List(context.Context, job.Filter, string, int) ([]job.Job, string, error) {
	return nil, "", nil
}
func (a archive) Dead(context.Context, job.Filter, string, int) ([]job.DeadLetter, string, error) {
	return nil, "", nil
}
func (a archive) DeadPage(context.Context, job.Filter, int, int) ([]job.DeadLetter, int64, error) {
	return nil, 0, nil
}
