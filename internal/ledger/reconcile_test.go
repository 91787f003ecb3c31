package ledger

import (
	"errors"
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func reconcile(t *testing.T, l *Ledger, want int) {
	t.Helper()
	got, err := l.Reconcile(t.Context())
	if err != nil || got != want {
		t.Fatalf("restored %d, %v; want %d", got, err, want)
	}
}

// Every job that Redis lost is restored once. A job that Redis has stays unchanged, an ended job is not restored,
// and the rows name the new incarnation.
func TestReconcile(t *testing.T) {
	t.Attr("proves", "F17 F19")
	l, r, j := journaled(2*reconcilePage + 3)
	r.jobs[testID(5)] = is(testID(5), job.Processing, 1) // this job survived
	j.ended[testID(6)] = true
	reconcile(t, l, 2*reconcilePage+1)
	if r.jobs[testID(5)].Status != job.Processing || r.jobs[testID(6)].ID != "" {
		t.Errorf("touched: %v %v", r.jobs[testID(5)], r.jobs[testID(6)])
	}
	if len(j.swept) != 1 {
		t.Errorf("swept from %v", j.swept)
	}
	calls := len(r.batches)
	reconcile(t, l, 0)
	if len(r.batches) != calls {
		t.Error("all of it was sent again although nothing had changed")
	}
	clear(r.jobs)
	r.run = "run-2"
	reconcile(t, l, 2*reconcilePage+2)
}

// If one of two servers fails over, only its partition's rows are looked for again. While it is down, the other
// partition is not delayed.
func TestReconcile_ThePartitionThatFailedOver(t *testing.T) {
	l, r, j := journaled(20) // testID puts even numbers into partition 0
	r.runs = map[int]string{0: "run-a", 1: "run-b"}
	reconcile(t, l, 20)
	reconcile(t, l, 0)

	// The server is down: its rows are not read, the other rows stay as they are, and its error is returned.
	r.runs, r.known, r.batches, j.asked = map[int]string{0: "run-a", 1: ""}, []string{"run-a", "run-b"}, nil, nil
	if n, err := l.Reconcile(t.Context()); n != 0 || !errors.Is(err, job.ErrUnavailable) || len(r.batches) != 0 {
		t.Errorf("away: %d restored, %v, batches %v", n, err, r.batches)
	}
	if !slices.Equal(j.asked, nil) {
		t.Errorf("the rows of %q were read although they live as far as is known", j.asked)
	}
	j.rows[testID(20)] = job.JournalRow{Job: is(testID(20), job.Pending, 1)} // owed: no Redis had it yet
	if n, err := l.Reconcile(t.Context()); n != 1 || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("owed to the other one: %d restored, %v", n, err)
	}
	r.batches = nil
	// A process that never saw that server does the same.
	fresh := New(l.Options)
	r.known[1] = ""
	if n, err := fresh.Reconcile(t.Context()); n != 0 || !errors.Is(err, job.ErrUnavailable) || len(r.batches) != 0 {
		t.Errorf("away, never seen: %d restored, %v, batches %v", n, err, r.batches)
	}

	// A replica without three of the jobs is promoted. While the old server may still answer, the jobs are looked for
	// and not marked as found.
	for _, n := range []int{3, 5, 7} {
		delete(r.jobs, testID(n))
	}
	r.runs, r.known = map[int]string{0: "run-a", 1: "run-c"}, []string{"run-a", "run-b"}
	reconcile(t, l, 3)
	reconcile(t, l, 0)
	r.known = nil
	r.batches, r.looked = nil, nil
	reconcile(t, l, 0)
	if !slices.Equal(r.looked, []int{10}) || len(r.batches) != 0 {
		t.Errorf("looked for %v, sent %v: the other partition was asked, or the rows were not", r.looked, r.batches)
	}
	reconcile(t, l, 0)
	if len(r.looked) != 1 {
		t.Error("asked again although all of it was noted")
	}
	for id, row := range j.rows {
		if want := []string{"run-a", "run-c"}[id.Partition()]; row.Incarnation != want {
			t.Errorf("%s names %s, want %s", id, row.Incarnation, want)
		}
	}
}

// A server that fails in the middle of a Reconcile costs only its own partition the rest of it.
func TestReconcile_AServerFailsMeanwhile(t *testing.T) {
	l, r, j := journaled(2*reconcilePage + 4)
	r.broken = 1
	n, err := l.Reconcile(t.Context())
	if n != reconcilePage+2 || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%d restored, %v", n, err)
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

// The server with the lease is down: jobs of other servers are restored all the same, with and without an
// incarnation.
func TestReconcile_OneSickServer(t *testing.T) {
	for _, run := range []string{"run-0", ""} {
		l, r, j := journaled(20)
		for id, row := range j.rows {
			row.Incarnation = run
			j.rows[id] = row
		}
		r.leaseless = job.ErrAmbiguous
		n, err := l.Reconcile(t.Context())
		if n != 20 || !errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("run %q: %d restored, %v; want all 20, and the error", run, n, err)
		}
	}
}

// Lost answers and late calls are repeated. A store that is down is an error, and the next call goes on.
func TestReconcile_Repeats(t *testing.T) {
	t.Attr("proves", "F27")
	l, r, j := journaled(3)
	r.late, r.lost = 1, 1
	if got, err := l.Reconcile(t.Context()); err != nil || len(r.jobs) != 3 {
		t.Fatalf("restored %d, %v: %d there", got, err, len(r.jobs))
	}
	clear(r.jobs)
	r.run, r.down = "run-2", job.ErrUnavailable
	if _, err := l.Reconcile(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("Redis down: %v", err)
	}
	r.down, j.down = nil, job.ErrUnavailable
	if _, err := l.Reconcile(t.Context()); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("SQL down: %v", err)
	}
	j.down, r.others = nil, true
	if n, err := l.Reconcile(t.Context()); err != nil || n != 0 {
		t.Errorf("another's turn: %d, %v", n, err)
	}
	r.others = false
	reconcile(t, l, 3)
}

// Between the loss in Redis and the Reconcile, a poll is answered from the row.
func TestFind_Journaled(t *testing.T) {
	t.Attr("proves", "S16")
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
