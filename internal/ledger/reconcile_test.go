package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fakeJournal keeps rows as SQL does, as far as a ledger can tell.
type fakeJournal struct {
	mu         sync.Mutex
	rows       map[job.ID]job.Living
	ended      map[job.ID]bool // have an outcome
	keys       []job.KeyKept
	cancelling []job.ID
	swept      []job.ID // where sweeps began
	asked      []string // the runs whose rows were read
	down       error
}

func (j *fakeJournal) Runs(context.Context) (runs []string, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.rows {
		if !slices.Contains(runs, r.RunID) {
			runs = append(runs, r.RunID)
		}
	}
	return runs, j.down
}

func (j *fakeJournal) Lost(_ context.Context, run string, after job.ID, limit int) (page []job.Living, _ error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, run)
	for _, id := range slices.Sorted(maps.Keys(j.rows)) {
		if r := j.rows[id]; id > after && r.RunID == run && !j.ended[id] && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, j.down
}

func (j *fakeJournal) Found(_ context.Context, ids []job.ID, run string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, id := range ids {
		r := j.rows[id]
		r.RunID = run
		j.rows[id] = r
	}
	return j.down
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

func (j *fakeJournal) DropKeys(context.Context) (int64, error) { return 0, j.down }

func (j *fakeJournal) Journaled(_ context.Context, id job.ID) (job.Job, error) {
	if r, ok := j.rows[id]; ok {
		r.Status = job.Pending
		return r.Job, j.down
	}
	return job.Job{}, cmp.Or(j.down, job.ErrNotFound)
}

func (j *fakeJournal) Known(_ context.Context, ids []job.ID) ([]bool, error) {
	known := make([]bool, len(ids))
	for i, id := range ids {
		_, living := j.rows[id]
		known[i] = living || j.ended[id]
	}
	return known, j.down
}

func (j *fakeJournal) Accept(_ context.Context, rows []job.Living) error {
	if j.down == nil {
		for _, r := range rows {
			j.rows[r.ID] = r
		}
	}
	return j.down
}

func (j *fakeJournal) Cancelling(_ context.Context, id job.ID) error {
	j.cancelling = append(j.cancelling, id)
	return j.down
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
	broken  int // the partition that fails; -1 = none
	tries   int // of it

	full      int   // the partition, from 1, whose server takes no writes; 0 = none
	leaseless error // where the lease is nobody answers
}

func (r *restorer) Restore(ctx context.Context, partition int, batch []job.Living) ([]job.Word, error) {
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
		switch {
		case l.ID.Partition() != partition:
			return nil, errors.New("another partition")
		case r.late > 0:
			words[i] = job.Late
		case known && old.Generation >= l.Generation:
			words[i] = job.Duplicate
		case known:
			words[i] = job.Busy
		default:
			l.Status, words[i] = job.Pending, job.OK
			r.jobs[l.ID] = l.Job
		}
	}
	r.late = max(r.late-1, 0)
	if r.lost > 0 {
		r.lost--
		return nil, job.ErrAmbiguous
	}
	return words, nil
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
	l, r, _ := given(nil, nil)
	j := &fakeJournal{rows: map[job.ID]job.Living{}, ended: map[job.ID]bool{}}
	for i := range n {
		j.rows[testID(i)] = job.Living{RunID: "run-0", Job: is(testID(i), job.Pending, 1)}
	}
	redis := &restorer{fakeRedis: r, broken: -1}
	l.Journal, l.Restorer = j, redis
	return l, redis, j
}

func reconcile(t *testing.T, l *Ledger, want int) {
	t.Helper()
	got, done, err := l.Reconcile(t.Context())
	if err != nil || !done || got != want {
		t.Fatalf("restored %d, done %v, %v; want %d", got, done, err, want)
	}
}

// Everything that Redis forgot comes back once; what is there stays, what has ended stays away, and the rows learn of the new run.
func TestReconcile_F17_F19(t *testing.T) {
	l, r, j := journaled(2*reconcilePage + 3)
	r.jobs[testID(5)] = is(testID(5), job.Processing, 1) // it survived
	j.ended[testID(6)] = true
	j.keys = []job.KeyKept{{Idempotency: job.Idempotency{Key: "0000"}}, {Idempotency: job.Idempotency{Key: "0001"}}}
	reconcile(t, l, 2*reconcilePage+1)
	if r.jobs[testID(5)].Status != job.Processing || r.jobs[testID(6)].ID != "" {
		t.Errorf("touched: %v %v", r.jobs[testID(5)], r.jobs[testID(6)])
	}
	if !slices.Equal(slices.Sorted(slices.Values(r.keys)), []string{"0000", "0001"}) || len(j.swept) != 1 {
		t.Errorf("keys %v, swept from %v", r.keys, j.swept)
	}
	if !slices.Equal(r.marked, []string{"run-1", "run-1"}) {
		t.Errorf("the keys are there in the runs %q", r.marked)
	}
	calls := len(r.batches)
	reconcile(t, l, 0)
	if len(r.batches) != calls || len(r.keys) != 2 {
		t.Error("all of it was sent again although nothing had changed")
	}
	clear(r.jobs)
	r.run = "run-2"
	reconcile(t, l, 2*reconcilePage+2)
}

// Of two servers one fails over: only its partition's rows and keys are looked for again, and nothing of the other is held up while it is away.
func TestReconcile_ThePartitionThatFailedOver(t *testing.T) {
	l, r, j := journaled(20) // testID gives even ones to partition 0
	j.keys = []job.KeyKept{{Idempotency: job.Idempotency{Key: "0000"}}, {Idempotency: job.Idempotency{Key: "0001"}}}
	homes := []int{job.Home("0000", 2), job.Home("0001", 2)}
	r.runs = map[int]string{0: "run-a", 1: "run-b"}
	reconcile(t, l, 20)
	reconcile(t, l, 0)

	// Away: its rows are not looked at, the other's are as they were, and it is said.
	r.runs, r.known, r.batches, j.asked = map[int]string{0: "run-a", 1: ""}, []string{"run-a", "run-b"}, nil, nil
	if n, done, err := l.Reconcile(t.Context()); n != 0 || done || !errors.Is(err, job.ErrUnavailable) || len(r.batches) != 0 {
		t.Errorf("away: %d restored, done %v, %v, batches %v", n, done, err, r.batches)
	}
	if !slices.Equal(j.asked, nil) {
		t.Errorf("the rows of %q were read although they live as far as is known", j.asked)
	}
	j.rows[testID(20)] = job.Living{Job: is(testID(20), job.Pending, 1)} // owed: no Redis had it yet
	if n, done, err := l.Reconcile(t.Context()); n != 1 || done || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("owed to the other one: %d restored, done %v, %v", n, done, err)
	}
	r.batches = nil
	// A process that never saw it: the same.
	fresh := New(l.Options)
	r.known[1] = ""
	if n, done, err := fresh.Reconcile(t.Context()); n != 0 || done || !errors.Is(err, job.ErrUnavailable) || len(r.batches) != 0 {
		t.Errorf("away, never seen: %d restored, done %v, %v, batches %v", n, done, err, r.batches)
	}
	if want := []string{"run-a", ""}; !slices.Equal(r.marked, want) {
		t.Errorf("marked %q, want %q", r.marked, want)
	}

	// Promoted without three of its jobs. Until the old one cannot answer any more, they are asked about and not noted.
	for _, n := range []int{3, 5, 7} {
		delete(r.jobs, testID(n))
	}
	r.keys = nil
	r.runs, r.known = map[int]string{0: "run-a", 1: "run-c"}, []string{"run-a", "run-b"}
	reconcile(t, l, 3)
	reconcile(t, l, 0)
	r.known = nil
	r.batches = nil
	reconcile(t, l, 0)
	if !slices.Equal(r.batches, []int{10}) {
		t.Errorf("batches %v: the other partition was asked, or the rows were not", r.batches)
	}
	reconcile(t, l, 0)
	if len(r.batches) != 1 {
		t.Error("asked again although all of it was noted")
	}
	var want []string
	for i, home := range homes {
		if home == 1 {
			want = append(want, j.keys[i].Key)
		}
	}
	if !slices.Equal(r.keys, slices.Repeat(want, 3)) {
		t.Errorf("keys %v, want %v three times", r.keys, want)
	}
	for id, row := range j.rows {
		if want := []string{"run-a", "run-c"}[id.Partition()]; row.RunID != want {
			t.Errorf("%s names %s, want %s", id, row.RunID, want)
		}
	}
}

// A server that fails in the middle of it costs its own partition the rest of the look, and no other.
func TestReconcile_AServerFailsMeanwhile(t *testing.T) {
	l, r, j := journaled(2*reconcilePage + 4)
	r.broken = 1
	n, done, err := l.Reconcile(t.Context())
	if n != reconcilePage+2 || done || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%d restored, done %v, %v", n, done, err)
	}
	if tries := r.tries; tries != 1 {
		t.Errorf("the broken one was asked %d times", tries)
	}
	r.broken = -1
	reconcile(t, l, reconcilePage+2)
	if len(r.jobs) != len(j.rows) {
		t.Errorf("%d of %d", len(r.jobs), len(j.rows))
	}
}

// Answers that are lost and calls that come late are repeated; a store that is down is an error, and the next call goes on.
// A server that takes no mark, or that has the lease and is away, keeps no job of another from coming back.
func TestReconcile_OneSickServer(t *testing.T) {
	for name, hurt := range map[string]func(*restorer){
		"full":                func(r *restorer) { r.full = 1 },
		"the lease's is away": func(r *restorer) { r.leaseless = job.ErrAmbiguous },
	} {
		t.Run(name, func(t *testing.T) {
			l, r, _ := journaled(20)
			hurt(r)
			n, done, err := l.Reconcile(t.Context())
			if n != 20 || done || err == nil {
				t.Errorf("%d restored, done %v, %v; want all 20, and the error", n, done, err)
			}
		})
	}
}

func TestReconcile_Repeats_F27(t *testing.T) {
	l, r, j := journaled(3)
	r.late, r.lost = 1, 1
	if got, done, err := l.Reconcile(t.Context()); err != nil || !done || len(r.jobs) != 3 {
		t.Fatalf("restored %d, done %v, %v: %d there", got, done, err, len(r.jobs))
	}
	clear(r.jobs)
	r.run, r.down = "run-2", job.ErrUnavailable
	if _, done, err := l.Reconcile(t.Context()); done || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Redis down: done %v, %v", done, err)
	}
	r.down, j.down = nil, job.ErrUnavailable
	if _, done, err := l.Reconcile(t.Context()); done || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("SQL down: done %v, %v", done, err)
	}
	j.down, r.others = nil, true
	if n, done, err := l.Reconcile(t.Context()); done || err != nil || n != 0 {
		t.Errorf("another's turn: %d, done %v, %v", n, done, err)
	}
	r.others = false
	reconcile(t, l, 3)
}

// A job that somebody was told is cancelled is cancelled again when it comes back.
func TestReconcile_Cancels(t *testing.T) {
	l, r, j := journaled(2)
	row := j.rows[testID(0)]
	row.CancelRequested = true
	j.rows[testID(0)] = row
	reconcile(t, l, 2)
	if r.jobs[testID(0)].Status != job.Cancelled || r.jobs[testID(1)].Status != job.Pending {
		t.Errorf("%s, %s", r.jobs[testID(0)].Status, r.jobs[testID(1)].Status)
	}
	if _, err := l.Cancel(t.Context(), testID(1)); err != nil || !slices.Equal(j.cancelling, []job.ID{testID(1)}) {
		t.Errorf("%v, the journal heard of %v", err, j.cancelling)
	}
	j.down = job.ErrUnavailable
	if word, err := l.Cancel(t.Context(), testID(0)); err != nil || word != job.WasCancelled {
		t.Errorf("the journal down: %s, %v", word, err)
	}
}

// Between Redis' loss and the reconcile a poll is answered from the row.
func TestFind_Journaled_S16(t *testing.T) {
	l, _, j := journaled(1)
	if got, err := l.Find(t.Context(), testID(0)); err != nil || got.Status != job.Pending {
		t.Errorf("%s, %v", got.Status, err)
	}
	if _, err := l.Find(t.Context(), testID(1)); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("nobody's job: %v", err)
	}
	j.down = job.ErrUnavailable
	if _, err := l.Find(t.Context(), testID(1)); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("SQL down: %v", err)
	}
}

// A repeated submit whose first one has no row gets it now, unless the job has ended; a job that nobody knows is nobody's.
func TestAdopt_F19_S13(t *testing.T) {
	l, r, j := journaled(1)
	running := is(testID(3), job.Processing, 1)
	running.StartedAt, running.Worker = time.Now(), "w"
	r.jobs[running.ID] = running
	j.ended[testID(4)] = true
	if err := l.Adopt(t.Context(), []job.ID{testID(0), running.ID, testID(4)}); err != nil {
		t.Fatal(err)
	}
	if row := j.rows[running.ID]; row.RunID != "run-1" || row.Priority != 1 || row.Running() || row.Attempt != 3 {
		t.Errorf("row %+v", row)
	}
	if len(j.rows) != 2 {
		t.Errorf("%d rows", len(j.rows))
	}
	if err := l.Adopt(t.Context(), []job.ID{testID(9)}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("nobody's job: %v", err)
	}
}
