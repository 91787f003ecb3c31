package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fakeJournal stores rows as SQL does, as far as a ledger can see.
type fakeJournal struct {
	mu         sync.Mutex
	rows       map[job.ID]job.JournalRow
	ended      map[job.ID]bool // have an outcome
	young      map[job.ID]bool // their rows were written just now
	cancelling []job.ID
	killing    []job.Killing
	hastening  []job.ID
	noting     func()          // called when a cancel is stored
	readRows   func()          // called after rows were read
	readRow    func()          // called before one row is read
	owing      func()          // called before rows are owed
	owed       []job.ID        // in the order of the calls
	unowed     error           // the error of Owe, which then owes nothing; nil = none
	swept      []job.ID        // where sweeps began
	asked      []string        // the incarnations whose rows were read
	ages       []time.Duration // the ages of these reads
	expired    int             // keys; DropKeys deletes one at a time
	down       error
	sql        *fakeSQL // the fake of the other tables; nil = none
}

func (j *fakeJournal) set(l job.JournalRow) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows[l.ID] = l
}

// err returns the error of a database that does not answer.
func (j *fakeJournal) err() error {
	if j.sql != nil {
		return cmp.Or(j.down, j.sql.down)
	}
	return j.down
}

func (j *fakeJournal) Runs(context.Context) (runs []string, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.rows {
		if !slices.Contains(runs, r.Incarnation) {
			runs = append(runs, r.Incarnation)
		}
	}
	return runs, j.down
}

func (j *fakeJournal) Lost(
	_ context.Context, run string, age time.Duration, after job.ID, limit int,
) (page []job.JournalRow, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked, j.ages = append(j.asked, run), append(j.ages, age)
	for _, id := range slices.Sorted(maps.Keys(j.rows)) {
		r := j.rows[id]
		if id <= after || r.Incarnation != run || j.ended[id] || age > 0 && j.young[id] || len(page) == limit {
			continue
		}
		page = append(page, job.JournalRow{
			Job:         job.Job{ID: id, Generation: r.Generation, CancelRequested: r.CancelRequested},
			Incarnation: run,
		})
	}
	return page, j.down
}

func (j *fakeJournal) Owe(_ context.Context, ids []job.ID) error {
	if j.owing != nil {
		j.owing()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.unowed != nil {
		return j.unowed
	}
	j.owed = append(j.owed, ids...)
	for _, id := range ids {
		if r, there := j.rows[id]; there && j.err() == nil {
			r.Submitting = false
			j.rows[id] = r
		}
	}
	return j.err()
}

func (j *fakeJournal) Found(_ context.Context, found []job.JournalRow, run string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range found {
		if r, there := j.rows[f.ID]; there && r.Generation == f.Generation && j.err() == nil {
			r.Incarnation, r.Submitting = run, false
			j.rows[f.ID] = r
		}
	}
	return j.err()
}

func (j *fakeJournal) Sweep(_ context.Context, after job.ID, _ int) (job.ID, int64, error) {
	j.swept = append(j.swept, after)
	return "", 0, j.down
}

func (j *fakeJournal) DropKeys(context.Context) (int64, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.down != nil || j.expired == 0 {
		return 0, false, j.down
	}
	j.expired--
	return 1, j.expired > 0, nil
}

func (j *fakeJournal) Journaled(_ context.Context, id job.ID) (job.Job, error) {
	if j.readRow != nil {
		j.readRow()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, ok := j.rows[id]; ok && !j.ended[id] {
		r.Status = job.Pending
		return r.Job, j.err()
	}
	return job.Job{}, cmp.Or(j.err(), job.ErrNotFound)
}

func (j *fakeJournal) LivingOf(_ context.Context, ids []job.ID) (rows []job.JournalRow, _ error) {
	j.mu.Lock()
	for _, id := range ids {
		if r, ok := j.rows[id]; ok && !j.ended[id] && !r.Submitting {
			rows = append(rows, r)
		}
	}
	j.mu.Unlock()
	if j.readRows != nil {
		j.readRows()
	}
	return rows, j.err()
}

func (j *fakeJournal) Cancelling(_ context.Context, id job.ID, run string) error {
	j.cancelling = append(j.cancelling, id)
	if r, there := j.rows[id]; there {
		r.CancelRequested, r.Submitting = true, false
		r.Incarnation = cmp.Or(r.Incarnation, run)
		j.rows[id] = r
	}
	if j.noting != nil {
		j.noting()
	}
	return j.err()
}

func (j *fakeJournal) Killing(_ context.Context, k job.Killing, run string) error {
	j.killing = append(j.killing, k)
	if r, there := j.rows[k.ID]; there && max(r.Generation, 1) == k.Generation {
		r.CancelRequested, r.KillReason, r.Submitting = true, k.Reason, false
		r.Incarnation = cmp.Or(r.Incarnation, run)
		j.rows[k.ID] = r
	}
	if j.noting != nil {
		j.noting()
	}
	return j.err()
}

func (j *fakeJournal) Hastening(_ context.Context, id job.ID, _ time.Time, run string) error {
	j.hastening = append(j.hastening, id)
	if r, there := j.rows[id]; there {
		r.RunAt, r.Submitting = time.Time{}, false
		r.Incarnation = cmp.Or(r.Incarnation, run)
		j.rows[id] = r
	}
	return j.err()
}

// restorer is the fake Redis that gets back what it lost.
type restorer struct {
	*fakeRedis
	others  bool // another process has the lease
	late    int  // how many calls come too late
	lost    int  // how many answers are lost
	batches []int
	looked  []int  // sizes of the batches that were looked for
	before  func() // called before a look is answered
	broken  int    // the partition that fails; -1 = none
	tries   int    // tries on the broken partition

	leaseless error           // the error of Lease; nil = none
	leases    []time.Duration // the durations of the leases that were asked for
}

func (r *restorer) Missing(ctx context.Context, ids []job.ID) (missing []job.ID, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "missing"); err != nil {
		return nil, err
	}
	r.looked = append(r.looked, len(ids))
	if r.before != nil {
		r.before()
	}
	for _, id := range ids {
		if id.Partition() == r.broken {
			r.tries++
			return nil, job.ErrUnavailable
		}
		if _, there := r.jobs[id]; !there {
			missing = append(missing, id)
		}
	}
	return missing, r.answer("missing")
}

func (r *restorer) Restore(
	ctx context.Context,
	partition int,
	batch []job.JournalRow,
	read time.Time,
) ([]job.Word, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "restore"); err != nil {
		return nil, err
	}
	if partition == r.broken {
		r.tries++
		return nil, job.ErrUnavailable
	}
	r.batches = append(r.batches, len(batch))
	words := make([]job.Word, len(batch))
	for i, l := range batch {
		old, known := r.jobs[l.ID]
		if r.word != nil {
			words[i] = r.word(l.Job)
		}
		switch {
		case words[i] != "":
		case l.ID.Partition() != partition:
			return nil, errors.New("another partition")
		case r.late > 0 || time.Since(read) > 5*time.Second:
			words[i] = job.Late
		case known && old.Generation >= l.Generation:
			words[i] = job.Duplicate
		case known && (!old.Status.Ended() || old.Status == job.NeedDiscard):
			words[i] = job.Busy
		default:
			l.Status, words[i] = job.Pending, job.OK
			l.Attempt = max(l.Attempt, old.Attempt)
			switch {
			case l.KillReason != "":
				l.Status, l.Cause, l.LastError = job.NeedDiscard, job.Killed, l.KillReason
			case l.CancelRequested:
				l.Status = job.Cancelled
			}
			r.jobs[l.ID] = l.Job
		}
	}
	r.late = max(r.late-1, 0)
	if r.lost > 0 {
		r.lost--
		return nil, job.ErrAmbiguous
	}
	return words, r.answer("restore")
}

func (r *restorer) Lease(_ context.Context, _ string, ttl time.Duration) (bool, error) {
	r.leases = append(r.leases, ttl)
	return !r.others, errors.Join(r.down, r.leaseless)
}

// journaled returns a ledger with a journal of n jobs of an earlier incarnation of Redis. The present one has none
// of them.
func journaled(n int) (*Ledger, *restorer, *fakeJournal) {
	l, _, _ := given(nil, nil)
	j := l.Rows.(*fakeJournal)
	for i := range n {
		j.rows[testID(i)] = job.JournalRow{Incarnation: "run-0", Job: is(testID(i), job.Pending, 1)}
	}
	l.Journal, l.Journaled = j, true
	return l, l.Restorer.(*restorer), j
}
