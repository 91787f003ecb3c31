package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// submitted returns a ledger with n rows of submits without an incarnation, and one other row of a job that Redis
// lost.
func submitted(n int) (*Ledger, *restorer, *fakeJournal) {
	l, r, j := journaled(0)
	for i := range n {
		j.rows[testID(i)] = job.JournalRow{Job: is(testID(i), job.Pending, 1), Submitting: true}
	}
	j.rows[testID(9000)] = job.JournalRow{Job: is(testID(9000), job.Pending, 1), Incarnation: "run-0"}
	return l, r, j
}

// Owe is called for the row of a job that Redis does not have before the job is restored: from then on a refused
// submit cannot take the row back. A row whose job Redis has is marked as found, and not owed.
func TestReconcile_OwesBeforeItRestores(t *testing.T) {
	t.Attr("proves", "F19")
	l, r, j := submitted(3)
	r.jobs[testID(1)] = is(testID(1), job.Pending, 1)
	var order []string
	j.owing = func() { order = append(order, "owe") }
	r.after = func(call string) error {
		order = append(order, call)
		return nil
	}
	j.readRows = func() { order = append(order, "read") }
	delete(j.rows, testID(9000))
	reconcile(t, l, 2)
	// Both partitions are looked for. The partition in which a job was there reads its row, to see whether it was
	// cancelled.
	owed := slices.Index(order, "owe")
	if owed < 0 || slices.Index(order, "restore") < owed || order[owed+1] != "read" ||
		slices.Contains(order[owed:], "missing") {
		t.Errorf("in this order: %v", order)
	}
	if want := []job.ID{testID(0), testID(2)}; !slices.Equal(slices.Sorted(slices.Values(j.owed)), want) {
		t.Errorf("owed %v, want %v", j.owed, want)
	}
	for id, row := range j.rows {
		if row.Submitting || row.Incarnation != "run-1" {
			t.Errorf("%s: %+v", id, row)
		}
	}
}

// A row that its submit took back after the look is not given to Redis: its client was told that the submit was
// refused. Nothing is given either while SQL does not say to whom a row belongs.
func TestReconcile_TakenBackMeanwhile(t *testing.T) {
	t.Attr("proves", "F19")
	for name, when := range map[string]func(r *restorer, j *fakeJournal, back func()){
		"after the look":   func(r *restorer, _ *fakeJournal, back func()) { r.after = onceAfter("missing", back) },
		"just before owed": func(_ *restorer, j *fakeJournal, back func()) { j.owing = back },
	} {
		t.Run(name, func(t *testing.T) {
			l, r, j := submitted(3)
			when(r, j, func() { delete(j.rows, testID(0)) })
			reconcile(t, l, 3)
			if _, given := r.jobs[testID(0)]; given {
				t.Error("a refused job runs")
			}
		})
	}
	l, r, j := submitted(3)
	delete(j.rows, testID(9000))
	j.unowed = job.ErrUnavailable
	n, err := l.Reconcile(t.Context())
	if n != 0 || !errors.Is(err, job.ErrUnavailable) || len(r.jobs) != 0 {
		t.Errorf("SQL went down: %d restored, %v, %v", n, err, r.jobs)
	}
	j.unowed = nil
	reconcile(t, l, 3)
}

// onceAfter calls do after the first call with that name.
func onceAfter(name string, do func()) func(string) error {
	done := false
	return func(call string) error {
		if call == name && !done {
			done = true
			do()
		}
		return nil
	}
}

// A job that Redis had when it was looked for is restored when Redis loses it later, although its submit never
// stored an incarnation.
func TestReconcile_FoundAndLost(t *testing.T) {
	t.Attr("proves", "F17 F19")
	l, r, j := submitted(2)
	delete(j.rows, testID(9000))
	for n := range 2 {
		r.jobs[testID(n)] = is(testID(n), job.Pending, 1)
	}
	reconcile(t, l, 0)
	if len(j.owed) != 0 {
		t.Errorf("owed although Redis had them: %v", j.owed)
	}
	clear(r.jobs)
	r.run = "run-2"
	reconcile(t, l, 2)
}

// One process looks for the jobs of rows without an incarnation: the lease lasts 12 s, and each page renews it. If
// there is nothing to look for, no process asks for the lease.
func TestReconcile_LeaseForRowsWithoutARun(t *testing.T) {
	l, r, j := submitted(reconcilePage + 3)
	delete(j.rows, testID(9000))
	r.others = true
	reconcile(t, l, 0)
	if len(j.asked) != 0 || len(r.jobs) != 0 || len(r.looked) != 0 {
		t.Errorf("another process has the lease, and the rows of %q were read, %d jobs given", j.asked, len(r.jobs))
	}
	r.others, r.leases = false, nil
	reconcile(t, l, reconcilePage+3)
	if want := slices.Repeat([]time.Duration{12 * time.Second}, 3); !slices.Equal(r.leases, want) {
		t.Errorf("leases %v, want %v: one for the look, one for each page", r.leases, want)
	}
	reconcile(t, l, 0)
	if len(r.leases) != 3 {
		t.Error("asked for the lease although nothing was to be looked for")
	}
}

// A row without an incarnation is looked for when it is 5 s old: before that its submit is about to send it. A row
// of an incarnation that is over may be of any age.
func TestReconcile_YoungRows(t *testing.T) {
	l, r, j := submitted(2)
	j.young = map[job.ID]bool{testID(1): true, testID(9000): true}
	reconcile(t, l, 2)
	if _, given := r.jobs[testID(1)]; given {
		t.Error("the young one was given")
	}
	if slices.Contains(j.owed, testID(1)) || !j.rows[testID(1)].Submitting {
		t.Error("the young one was taken from its submit")
	}
	for n, run := range j.asked {
		if want := map[string]time.Duration{"": 5 * time.Second}[run]; j.ages[n] != want {
			t.Errorf("rows of run %q of age %v were asked for, want %v", run, j.ages[n], want)
		}
	}
	if !slices.Contains(j.asked, "") || !slices.Contains(j.asked, "run-0") {
		t.Errorf("the runs %q were asked for", j.asked)
	}
}

// The first Reconcile of an embedded server takes rows of any age: the process that wrote them has ended, with its
// Redis. If it fails, the next one takes rows of any age again.
func TestReconcile_EmbeddedFirstLook(t *testing.T) {
	l, r, j := submitted(2)
	l.Outbox = &fakeOutbox{}
	j.young = map[job.ID]bool{testID(0): true, testID(1): true}
	r.broken = 1
	if n, err := l.Reconcile(t.Context()); n != 2 || !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("one server is away: %d restored, %v", n, err)
	}
	r.broken = -1
	reconcile(t, l, 1)
	for n, age := range j.ages {
		if age != 0 {
			t.Errorf("look %d wants an age of %v", n, age)
		}
	}
	j.ages, j.asked = nil, nil
	j.rows[testID(2)] = job.JournalRow{Job: is(testID(2), job.Pending, 1), Submitting: true}
	j.young[testID(2)] = true
	reconcile(t, l, 0)
	if want := []time.Duration{5 * time.Second}; !slices.Equal(j.ages, want) {
		t.Errorf("from then on: ages %v, want %v", j.ages, want)
	}
	j.young = nil
	reconcile(t, l, 1)
}

// Between the look at Redis and Found the job may end, and its requeue may be promised. The row is then of the
// next generation, which Redis does not have. It is not marked as found, and the next Reconcile restores it.
func TestReconcile_TheNextLifeIsNotFound(t *testing.T) {
	t.Attr("proves", "F19")
	l, r, j := submitted(1)
	delete(j.rows, testID(9000))
	r.jobs[testID(0)] = is(testID(0), job.Pending, 1)
	j.readRows = func() {
		j.readRows = nil
		r.jobs[testID(0)] = is(testID(0), job.Failed, 1)
		j.rows[testID(0)] = job.JournalRow{Job: is(testID(0), job.Pending, 2)}
	}
	reconcile(t, l, 0)
	if got := j.rows[testID(0)]; got.Incarnation != "" {
		t.Fatalf("noted as found: %+v", got)
	}
	reconcile(t, l, 1)
	if got := r.jobs[testID(0)]; got.Generation != 2 {
		t.Errorf("Redis has %+v", got)
	}
}
