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

// fakeJournal keeps rows as SQL does, as far as a ledger can tell.
type fakeJournal struct {
	mu         sync.Mutex
	rows       map[job.ID]job.JournalRow
	ended      map[job.ID]bool // have an outcome
	keys       []job.KeyKept
	cancelling []job.ID
	kept       []job.KeyKept // beside the rows'
	noting     func()        // with a cancel
	readRows   func()        // after rows were read
	readRow    func()        // before one row is read
	swept      []job.ID      // where sweeps began
	asked      []string      // the runs whose rows were read
	expired    int           // keys; DropKeys deletes one at a time
	down       error
	sql        *fakeSQL // the rest of the database; nil = none
}

func (j *fakeJournal) set(l job.JournalRow) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows[l.ID] = l
}

// err is why the database does not answer.
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

func (j *fakeJournal) Lost(_ context.Context, run string, after job.ID, limit int) (page []job.JournalRow, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, run)
	for _, id := range slices.Sorted(maps.Keys(j.rows)) {
		if r := j.rows[id]; id > after && r.Incarnation == run && !j.ended[id] && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, j.down
}

func (j *fakeJournal) Found(_ context.Context, ids []job.ID, run string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		if r, there := j.rows[id]; there && j.err() == nil {
			r.Incarnation = run
			j.rows[id] = r
		}
	}
	return j.err()
}

func (j *fakeJournal) Sweep(_ context.Context, after job.ID, _ int) (job.ID, int64, error) {
	j.swept = append(j.swept, after)
	return "", 0, j.down
}

func (j *fakeJournal) Keys(_ context.Context, after string, limit int) (page []job.KeyKept, _ error) {
	for _, k := range j.keys {
		if k.Key > after && len(page) < limit {
			page = append(page, k)
		}
	}
	return page, j.down
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

func (j *fakeJournal) Known(_ context.Context, ids []job.ID) ([]bool, error) {
	known := make([]bool, len(ids))
	for i, id := range ids {
		_, living := j.rows[id]
		known[i] = living || j.ended[id]
	}
	return known, j.down
}

func (j *fakeJournal) Accept(_ context.Context, rows []job.JournalRow) error {
	if j.down == nil {
		for _, r := range rows {
			j.rows[r.ID] = r
		}
	}
	return j.down
}

func (j *fakeJournal) AcceptKeys(_ context.Context, keys []job.KeyKept) error {
	j.kept = append(j.kept, keys...)
	return j.down
}

func (j *fakeJournal) LivingOf(_ context.Context, ids []job.ID) (rows []job.JournalRow, _ error) {
	j.mu.Lock()
	for _, id := range ids {
		if r, ok := j.rows[id]; ok && !j.ended[id] {
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
		r.CancelRequested = true
		r.Incarnation = cmp.Or(r.Incarnation, run)
		j.rows[id] = r
	}
	if j.noting != nil {
		j.noting()
	}
	return j.err()
}

// restorer is the fake Redis, given back what it lost.
type restorer struct {
	*fakeRedis
	others  bool // another process has the lease
	late    int  // so many calls come too late
	lost    int  // so many answers are lost
	keys    []string
	marked  []string // the runs that have all keys
	batches []int
	looked  []int  // batches that were looked for
	before  func() // a look is answered
	broken  int    // the partition that fails; -1 = none
	tries   int    // of it

	full      int   // the partition, from 1, whose server takes no writes; 0 = none
	leaseless error // where the lease is nobody answers
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
			if l.CancelRequested {
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

func (r *restorer) RestoreKeys(_ context.Context, keys []job.KeyKept, home func(string) int) error {
	for _, k := range keys {
		r.keys = append(r.keys, k.Key)
		if home(k.Key) >= 2 {
			return errors.New("another partition")
		}
	}
	return r.down
}

func (r *restorer) MarkKeys(_ context.Context, runs []string) (marked []int, err error) {
	if r.down != nil {
		return nil, r.down
	}
	r.marked = slices.Clone(runs)
	for p, run := range runs {
		if p == r.full-1 {
			r.marked[p], err = "", job.ErrUnavailable
		} else if run != "" {
			marked = append(marked, p)
		}
	}
	return marked, err
}

func (r *restorer) Lease(context.Context, string, time.Duration) (bool, error) {
	return !r.others, errors.Join(r.down, r.leaseless)
}

// journaled is a ledger with a journal of n jobs of an earlier run of Redis, which has none of them.
func journaled(n int) (*Ledger, *restorer, *fakeJournal) {
	l, _, _ := given(nil, nil)
	j := l.Rows.(*fakeJournal)
	for i := range n {
		j.rows[testID(i)] = job.JournalRow{Incarnation: "run-0", Job: is(testID(i), job.Pending, 1)}
	}
	l.Journal = j
	return l, l.Restorer.(*restorer), j
}
