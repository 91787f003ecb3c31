package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fakeJournal remembers rows, and what was taken back.
type fakeJournal struct {
	mu       sync.Mutex
	rows     []job.JournalRow
	expected []job.KeyKept
	adopted  []job.KeyKept
	taken    []job.Cancellation
	err      error // of Accept
	unknown  error // of Adopt
	slow     time.Duration
	words    func(c job.Cancellation) job.Word
	cancels  error
}

func (j *fakeJournal) Accept(ctx context.Context, rows []job.JournalRow) error {
	select {
	case <-time.After(j.slow):
	case <-ctx.Done():
		return fmt.Errorf("accept: %w", job.ErrAmbiguous)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.rows = append(j.rows, rows...)
	}
	return j.err
}

func (j *fakeJournal) RegisterPendingKeys(keys []job.KeyKept) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.expected = append(j.expected, keys...)
}

func (j *fakeJournal) EnsureJournaled(_ context.Context, firsts []job.KeyKept) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.adopted = append(j.adopted, firsts...)
	return j.unknown
}

func (j *fakeJournal) Cancel(_ context.Context, _ int, batch []job.Cancellation) ([]job.Word, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken = append(j.taken, batch...)
	if j.cancels != nil {
		return nil, j.cancels
	}
	words := make([]job.Word, len(batch))
	for i, c := range batch {
		words[i] = j.words(c)
	}
	return words, nil
}

// journaled starts an Admission with a journal.
func journaled(t *testing.T, q Queue, j *fakeJournal) *Admission {
	t.Helper()
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	gate := NewGate(GateOptions{Probe: func(context.Context) error { return nil }})
	a := New(Options{Queue: q, Plans: plans, Gate: gate, Partitions: 1, Journal: j, Withdrawer: j, Run: func(p int) string { return fmt.Sprint("run ", p+1) }})
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

var landed = time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)

// A submit is answered when its row is there, and the row is whole.
func TestJournal_TheRowIsWholeBeforeTheAnswer(t *testing.T) {
	t.Attr("proves", "F19")
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{slow: 300 * time.Millisecond}
		a := journaled(t, &fakeQueue{answer: script(job.SubmitReply{Word: job.OK, ArrivedAt: landed})}, j)
		began := time.Now()
		s := job.Submission{
			Tier: job.Unpaid, Type: "X", Payload: []byte("{}"), MaxRetries: -1, Delay: time.Minute, Owner: "o", TraceID: "t",
			Options: job.Options{CallbackURL: "https://example.com"}, Idempotency: job.Idempotency{Key: "k", Body: "b"},
		}
		accepted, err := a.Submit(t.Context(), s)
		if err != nil || time.Since(began) < j.slow {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		r := j.rows[0]
		if r.ID != accepted.ID || r.Generation != 1 || r.Tier != job.Unpaid || r.Priority != 2 || r.Type != "X" || string(r.Payload) != "{}" || r.MaxRetries != 2 ||
			r.Owner != "o" || r.TraceID != "t" || r.CallbackURL == "" || r.Idempotency != s.Idempotency ||
			r.Incarnation != "run 1" ||
			!r.ArrivedAt.Equal(landed) || !r.RunAt.Equal(landed.Add(time.Minute)) || r.Running() {
			t.Errorf("row %+v", r)
		}
	})
}

// What the journal refuses is taken back with its key; what cannot be taken back is in doubt.
func TestJournal_Refused_S3(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		word  job.Word
		taken error
		want  error
	}{
		"taken back":          {job.ErrUnavailable, job.WasCancelled, nil, job.ErrUnhealthy},
		"perhaps there":       {job.ErrAmbiguous, job.WasCancelled, nil, job.ErrFateUnknown},
		"claimed meanwhile":   {job.ErrUnavailable, job.Busy, nil, job.ErrFateUnknown},
		"gone meanwhile":      {job.ErrUnavailable, job.Empty, nil, job.ErrFateUnknown}, // it may have run
		"gone, perhaps there": {job.ErrAmbiguous, job.Empty, nil, job.ErrFateUnknown},
		"both stores down":    {job.ErrUnavailable, job.WasCancelled, job.ErrUnavailable, job.ErrFateUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &fakeJournal{
					err:     c.err,
					cancels: c.taken,
					words:   func(job.Cancellation) job.Word { return c.word },
				}
				a := journaled(t, &fakeQueue{answer: script(job.SubmitReply{Word: job.OK, ArrivedAt: landed})}, j)
				_, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid, Idempotency: job.Idempotency{Key: "k", Body: "b"}})
				if !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if w := j.taken[0]; !w.Untried || w.Generation != 1 || w.Once != "k" {
					t.Errorf("taken back with %+v", w)
				}
			})
		})
	}
}

// Keys are known to the journal before their submits are sent: whoever claims such a job may be there first.
func TestJournal_KeysAreExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{}
		key := job.Idempotency{Key: "k", Body: "b"}
		var sent []job.KeyKept
		a := journaled(t, &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
			j.mu.Lock()
			sent = slices.Clone(j.expected)
			j.mu.Unlock()
			return slices.Repeat([]job.SubmitReply{{Word: job.OK, ArrivedAt: landed}}, len(batch)), nil
		}}, j)
		if _, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid}); err != nil || len(sent) != 0 {
			t.Errorf("%v, expected %v of a submit without a key", err, sent)
		}
		accepted, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid, Idempotency: key})
		if err != nil || !slices.Equal(sent, []job.KeyKept{{Idempotency: key, ID: accepted.ID}}) {
			t.Errorf("%v, expected %v", err, sent)
		}
	})
}

// A repeat is answered when the first submit's row is there: who accepted it may have died before it wrote one.
func TestJournal_ReplaysAreAdopted(t *testing.T) {
	t.Attr("proves", "F19 S13")
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{}
		q := &fakeQueue{answer: script(job.SubmitReply{Word: job.Replay, First: "first"})}
		a := journaled(t, q, j)
		key := job.Idempotency{Key: "k", Body: "b"}
		accepted, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid, Idempotency: key})
		if err != nil || accepted.ID != "first" || !accepted.Replayed || !slices.Equal(j.adopted, []job.KeyKept{{Idempotency: key, ID: "first"}}) {
			t.Errorf("%+v, %v, adopted %v", accepted, err, j.adopted)
		}
		j.unknown = job.ErrUnavailable
		if accepted, err = a.Submit(t.Context(), job.Submission{Tier: job.Paid}); !errors.Is(err, job.ErrFateUnknown) || accepted.ID != "first" {
			t.Errorf("%+v, %v", accepted, err)
		}
	})
}

// A duplicate of a job that was forgotten needs no row: SQL has its outcome. A journal that hangs does not hold a client.
func TestJournal_ForgottenAndHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &fakeJournal{words: func(job.Cancellation) job.Word { return job.Busy }}
		a := journaled(t, &fakeQueue{answer: script(job.Duplicate, job.SubmitReply{Word: job.Duplicate, ArrivedAt: landed})}, j)
		if _, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid}); err != nil || len(j.rows) != 0 {
			t.Errorf("%v, %d rows", err, len(j.rows))
		}
		j.slow = time.Hour
		began := time.Now()
		if _, err := a.Submit(t.Context(), job.Submission{Tier: job.Paid}); !errors.Is(err, job.ErrFateUnknown) || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// An error of the journal closes the gate; what opens it is a probe, which asks for a write there too.
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
