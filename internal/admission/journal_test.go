package admission

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fakeJournal stores rows and keys as SQL does, as far as a submit can see.
type fakeJournal struct {
	mu      sync.Mutex
	rows    []job.JournalRow // the present rows, in the order they were written
	back    []job.JournalRow // the rows that were taken back
	stamped []job.JournalRow
	writes  []int // rows per call of Submit
	holders map[string]job.KeyHolder
	refuses map[string]error           // why a batch takes no members
	err     error                      // of Submit
	slow    time.Duration              // of Submit
	stays   bool                       // TakeBack answers that the submits can no longer take back their rows
	backErr error                      // of TakeBack
	changed []job.JournalRow           // what Replace got
	notKept error                      // of Replace
	asked   func(key string, call int) // called before a row with a key is written
	calls   int
}

func (j *fakeJournal) Submit(ctx context.Context, rows []job.JournalRow) ([]job.KeyHolder, error) {
	select {
	case <-time.After(j.slow):
	case <-ctx.Done():
		return nil, fmt.Errorf("submit: %w", job.ErrAmbiguous)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls++
	j.writes = append(j.writes, len(rows))
	if j.err != nil {
		return nil, j.err
	}
	held := make([]job.KeyHolder, len(rows))
	for i, r := range rows {
		if key := r.Idempotency.Key; key != "" && j.asked != nil {
			j.asked(key, j.calls)
		}
		if held[i] = j.holders[r.Idempotency.Key]; r.Batch != "" && held[i].ID == "" {
			held[i].Refused = j.refuses[r.Batch]
		}
		if held[i].ID == "" && held[i].Refused == nil {
			j.rows = append(j.rows, r)
		}
	}
	return held, nil
}

func (j *fakeJournal) Submitted(rows []job.JournalRow) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stamped = append(j.stamped, rows...)
}

func (j *fakeJournal) TakeBack(_ context.Context, rows []job.JournalRow) ([]bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.back = append(j.back, rows...)
	if j.backErr != nil {
		return nil, j.backErr
	}
	gone := make([]bool, len(rows))
	for i := range rows {
		gone[i] = !j.stays
		if !j.stays {
			j.rows = slices.DeleteFunc(j.rows, func(r job.JournalRow) bool { return r.ID == rows[i].ID })
		}
	}
	return gone, nil
}

func (j *fakeJournal) Replace(_ context.Context, rows []job.JournalRow) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changed = append(j.changed, rows...)
	return j.notKept
}

func (j *fakeJournal) Holder(_ context.Context, key job.Idempotency) (job.KeyHolder, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.holders[key.Key], nil
}

// has says whether the journal has a job's row.
func (j *fakeJournal) has(id job.ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.rows, func(r job.JournalRow) bool { return r.ID == id })
}

var clock = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

// journaled starts an Admission with a journal, on a Redis that has the jobs in known.
func journaled(t *testing.T, q Queue, j *fakeJournal, partitions int, known ...job.ID) *Admission {
	t.Helper()
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	gate := NewGate(GateOptions{
		Probe: func(context.Context) error { return nil }, Partitions: partitions,
		ProbePartition: func(context.Context, int) error { return nil },
	})
	a := New(Options{
		Queue: q, Plans: plans, Gate: gate, Partitions: partitions, Journal: j, JournalAll: true,
		Now:         func() time.Time { return clock },
		Known:       func(_ context.Context, id job.ID) (bool, error) { return slices.Contains(known, id), nil },
		Incarnation: func(p int) string { return fmt.Sprint("run ", p+1) },
	})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// The complete row is in the journal before Redis is asked.
func TestJournal_TheRowComesFirst(t *testing.T) {
	t.Attr("proves", "F19")
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{}
		q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			for _, s := range batch {
				if !j.has(s.ID) {
					t.Errorf("%s is sent and has no row", s.ID)
				}
			}
			return slices.Repeat([]job.SubmitReply{{Word: job.OK, ArrivedAt: clock.Add(time.Second)}}, len(batch)), nil
		}}
		a := journaled(t, q, j, 1)
		s := job.Submission{
			Tier: job.Unpaid, Type: "X", Payload: []byte("{}"), MaxRetries: -1, Delay: time.Minute, Owner: "o", TraceID: "t",
			Options:     job.Options{CallbackURL: "https://example.com"},
			Idempotency: job.Idempotency{Key: "k", Body: "b"},
		}
		accepted, err := a.Submit(t.Context(), s)
		if err != nil || len(j.back) != 0 {
			t.Fatalf("%v, taken back %v", err, j.back)
		}
		want := job.JournalRow{
			Job: job.Job{
				ID: accepted.ID, Generation: 1, Tier: job.Unpaid, Type: "X", Payload: []byte("{}"), MaxRetries: 2, Owner: "o",
				TraceID: "t", Options: s.Options, ArrivedAt: clock, RunAt: clock.Add(time.Minute),
			},
			Priority: 2, Idempotency: s.Idempotency, Submitting: true,
		}
		if got := j.rows[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("row %+v\nwant %+v", got, want)
		}
		stamp := job.JournalRow{
			Job: job.Job{ID: accepted.ID, ArrivedAt: clock.Add(time.Second),
				RunAt: clock.Add(time.Second + time.Minute)},
			Incarnation: "run 1",
		}
		if !reflect.DeepEqual(j.stamped, []job.JournalRow{stamp}) {
			t.Errorf("told %+v\nwant %+v", j.stamped, stamp)
		}
		batch := a.SubmitBatch(t.Context(), ofTier(job.Paid, 620))
		if !slices.Equal(j.writes, []int{1, 500, 120}) {
			t.Errorf("written %v at once", j.writes)
		}
		for i, r := range batch {
			if r.Err != nil || j.rows[i+1].ID != r.ID {
				t.Fatalf("line %d: %v, and row %s", i, r, j.rows[i+1].ID)
			}
		}
	})
}

// The row of a submit that Redis certainly did not take is removed before the client is told. The row of a submit
// in doubt stays.
func TestJournal_RefusalsAreTakenBack(t *testing.T) {
	t.Attr("proves", "F19 S3")
	for name, c := range map[string]struct {
		answer any
		want   error
		stays  bool
	}{
		"full":            {job.Full, job.ErrQueueFull, false},
		"quota":           {job.Quota, job.ErrQuota, false},
		"another body":    {job.Mismatch, job.ErrMismatch, false},
		"a known key":     {job.SubmitReply{Word: job.Replay, First: "first"}, nil, false},
		"not carried out": {job.ErrUnavailable, job.ErrUnhealthy, false},
		"in doubt":        {job.ErrAmbiguous, job.ErrFateUnknown, true},
	} {
		for back, then := range map[string]struct {
			stays bool
			err   error
			doubt bool
		}{
			"gone":       {},
			"not gone":   {stays: true, doubt: true},
			"not known":  {err: job.ErrAmbiguous, doubt: true},
			"SQL is off": {err: job.ErrUnavailable, doubt: true},
		} {
			t.Run(name+", "+back, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					j := &fakeJournal{stays: then.stays, backErr: then.err}
					a := journaled(t, &fakeQueue{answer: script(c.answer)}, j, 1)
					began := time.Now()
					s := job.Submission{Tier: job.Paid, Idempotency: job.Idempotency{Key: "k", Body: "b"}}
					accepted, err := a.Submit(t.Context(), s)
					want := c.want
					if then.doubt {
						want = job.ErrFateUnknown
					}
					if !errors.Is(err, want) || time.Since(began) > 2*time.Second {
						t.Errorf("%v after %s, want %v", err, time.Since(began), want)
					}
					if c.stays != (len(j.back) == 0) {
						t.Errorf("taken back: %v", j.back)
					}
					if !c.stays && j.back[0].Idempotency.Key != "k" {
						t.Errorf("taken back without its key: %+v", j.back[0])
					}
					if errors.Is(err, job.ErrFateUnknown) && accepted.ID != j.rows[0].ID {
						t.Errorf("in doubt is %s, the row is of %s", accepted.ID, j.rows[0].ID)
					}
				})
			})
		}
	}
}

// A submit without a row is not sent: it is refused if the row certainly does not exist, and in doubt if it may
// exist.
func TestJournal_ARowThatIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		slow time.Duration
		want error
	}{
		"certainly not": {err: job.ErrUnavailable, want: job.ErrUnhealthy},
		"perhaps":       {err: job.ErrAmbiguous, want: job.ErrFateUnknown},
		"it hangs":      {slow: time.Hour, want: job.ErrFateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &fakeQueue{}
				a := journaled(t, q, &fakeJournal{err: c.err, slow: c.slow}, 1)
				began := time.Now()
				accepted, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid})
				if !errors.Is(err, c.want) || time.Since(began) > 2*time.Second {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				if (accepted.ID != "") != errors.Is(err, job.ErrFateUnknown) || len(q.sent()) != 0 {
					t.Errorf("%q, sent %v", accepted.ID, q.sent())
				}
			})
		})
	}
}

// SQL decides which job has a key. While that job's own submit is under way, only Redis knows whether it is
// accepted, and the repeat waits for that.
func TestJournal_Repeats(t *testing.T) {
	t.Attr("proves", "F19 S13")
	for name, c := range map[string]struct {
		holder job.KeyHolder
		known  []job.ID
		then   job.KeyHolder // the holder from the third call on
		want   error
		first  bool // the answer has the holder's id
		sent   int
	}{
		"accepted":     {holder: job.KeyHolder{ID: "first"}, first: true},
		"another body": {holder: job.KeyHolder{ID: "first", OtherBody: true}, want: job.ErrMismatch},
		"under way, in Redis": {holder: job.KeyHolder{ID: "first", Submitting: true}, known: []job.ID{"first"},
			first: true},
		"under way, then noted": {holder: job.KeyHolder{ID: "first", Submitting: true}, then: job.KeyHolder{ID: "first"},
			first: true},
		"under way, then gone": {holder: job.KeyHolder{ID: "first", Submitting: true}, sent: 1},
		"under way for too long": {holder: job.KeyHolder{ID: "first", Submitting: true},
			then: job.KeyHolder{ID: "first", Submitting: true}, want: job.ErrFateUnknown, first: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &fakeQueue{}
				j := &fakeJournal{holders: map[string]job.KeyHolder{"k": c.holder}}
				j.asked = func(key string, call int) {
					if call == 3 {
						j.holders[key] = c.then
					}
				}
				a := journaled(t, q, j, 1, c.known...)
				began := time.Now()
				s := job.Submission{Tier: job.Paid, Idempotency: job.Idempotency{Key: "k", Body: "b"}}
				accepted, err := a.Submit(t.Context(), s)
				if !errors.Is(err, c.want) || (accepted.ID == "first") != c.first || time.Since(began) > 2*time.Second {
					t.Errorf("%+v, %v after %s", accepted, err, time.Since(began))
				}
				if accepted.Replayed != (c.first && err == nil) || len(q.sent()) != c.sent {
					t.Errorf("%+v, sent %v", accepted, q.sent())
				}
				if n := a.room.taken.Load(); n != 0 {
					t.Errorf("%d places are still taken", n)
				}
			})
		})
	}
}

// A written row is decided even if its client has left, so that a flood of clients that hang up does not fill the
// journal.
func TestJournal_AClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{slow: 100 * time.Millisecond}
		a := journaled(t, &fakeQueue{answer: script(job.Full)}, j, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := a.Submit(ctx, job.Submission{Tier: job.Paid}); !errors.Is(err, job.ErrQueueFull) || len(j.back) != 1 ||
			len(j.rows) != 0 {
			t.Errorf("%v, taken back %v, rows %v", err, j.back, j.rows)
		}
	})
}

// A flood that Redis has no room for does not reach SQL, and repeats are still answered.
func TestJournal_AFloodStaysOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{holders: map[string]job.KeyHolder{"k": {ID: "first"}}}
		a := journaled(t, &fakeQueue{answer: script(job.Full)}, j, 1)
		for range 100 {
			if r := submit(t.Context(), a, job.Public); !errors.Is(r.err, job.ErrQueueFull) {
				t.Fatal(r.err)
			}
		}
		if len(j.writes) != 1 {
			t.Errorf("written %v", j.writes)
		}
		if r := submit(t.Context(), a, job.Paid); !errors.Is(r.err, job.ErrQueueFull) || len(j.writes) != 2 {
			t.Errorf("another tier: %v, written %v", r.err, j.writes)
		}
		s := job.Submission{Tier: job.Public, Idempotency: job.Idempotency{Key: "k", Body: "b"}}
		if accepted, err := a.Submit(t.Context(), s); err != nil || accepted.ID != "first" {
			t.Errorf("a repeat: %+v, %v", accepted, err)
		}
		s.Idempotency.Key = "new"
		if _, err := a.Submit(t.Context(), s); !errors.Is(err, job.ErrQueueFull) || len(j.writes) != 3 {
			t.Errorf("a new key: %v, written %v", err, j.writes)
		}
		pass(2 * shortMemory)
		submit(t.Context(), a, job.Public)
		if len(j.writes) != 4 {
			t.Errorf("a while later: written %v", j.writes)
		}
	})
}

// A submit that moves to another partition has one row at a time. If its first row stays, the submit does not
// move, because it would become two jobs.
func TestJournal_RowsMove(t *testing.T) {
	for _, stays := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			j := &fakeJournal{stays: stays}
			q := &fakeQueue{answer: script(job.Full, job.OK)}
			a := journaled(t, q, j, 2)
			accepted, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid})
			if len(j.rows) != 1 || len(j.back) != 1 || accepted.ID != j.rows[0].ID {
				t.Errorf("stays %v: %+v, rows %v, taken back %v", stays, accepted, j.rows, j.back)
			}
			if stays && (!errors.Is(err, job.ErrFateUnknown) || len(q.sent()) != 1) || !stays && err != nil {
				t.Errorf("stays %v: %v, sent %v", stays, err, q.sent())
			}
		})
	}
}

// An error of the journal closes the gate. Only a probe, which also writes to the journal's store, opens it.
func TestGate_TheJournalCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		g := NewGate(GateOptions{Probe: func(context.Context) error {
			if down.Load() {
				return job.ErrUnavailable
			}
			return nil
		}})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = g.Stop(context.Background()) }()
		g.ObserveJournal(errors.New("bad data says nothing of the store"))
		if !g.Open() {
			t.Error("closed by one row's data")
		}
		g.ObserveJournal(fmt.Errorf("accept: %w", job.ErrUnavailable))
		if g.Open() || g.State().Reason == "" {
			t.Errorf("%+v", g.State())
		}
		g.ObserveJournal(nil)
		g.Observe(0, nil)
		pass(10 * time.Second)
		if g.Open() {
			t.Error("opened although the probe fails")
		}
		down.Store(false)
		pass(5 * time.Second)
		if !g.Open() {
			t.Error("still closed")
		}
		pass(5 * time.Second)
		if !g.Open() {
			t.Error("closed again")
		}
	})
}
