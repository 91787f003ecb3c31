package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }

// fakeQueue answers with a function and records its calls.
type fakeQueue struct {
	mu     sync.Mutex
	calls  [][]job.Submission
	answer func(ctx context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error)
}

func (q *fakeQueue) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	for _, s := range batch {
		if s.ID.Partition() != partition {
			return nil, fmt.Errorf("id %s in partition %d", s.ID, partition)
		}
	}
	q.mu.Lock()
	q.calls = append(q.calls, batch)
	n := len(q.calls)
	q.mu.Unlock()
	if q.answer == nil {
		return all(job.OK, batch), nil
	}
	return q.answer(ctx, n, batch)
}

func (q *fakeQueue) sent() [][]job.Submission {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([][]job.Submission(nil), q.calls...)
}

func all(word job.Word, batch []job.Submission) []job.SubmitReply {
	replies := make([]job.SubmitReply, len(batch))
	for i := range replies {
		replies[i].Word = word
	}
	return replies
}

// frozen is an answer that blocks until the deadline of the call.
func frozen(ctx context.Context, _ int, _ []job.Submission) ([]job.SubmitReply, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("submit: %w", job.ErrAmbiguous)
}

// script answers the n-th call with the n-th answer, and all later calls with the last.
func script(answers ...any) func(context.Context, int, []job.Submission) ([]job.SubmitReply, error) {
	return func(_ context.Context, call int, batch []job.Submission) ([]job.SubmitReply, error) {
		switch a := answers[min(call, len(answers))-1].(type) {
		case job.Word:
			return all(a, batch), nil
		case job.SubmitReply:
			return slices.Repeat([]job.SubmitReply{a}, len(batch)), nil
		case error:
			return nil, fmt.Errorf("submit: %w", a)
		}
		panic("neither an answer nor an error")
	}
}

// begin starts an Admission on a queue, with an open gate.
func begin(t testing.TB, q Queue, partitions int) (*Admission, *Gate) {
	t.Helper()
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	gate := NewGate(GateOptions{
		Probe: func(context.Context) error { return nil }, Partitions: partitions,
		ProbePartition: func(context.Context, int) error { return nil },
	})
	a := New(Options{Queue: q, Plans: plans, Gate: gate, Partitions: partitions})
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return a, gate
}

// result is how one Submit ended.
type result struct {
	id       job.ID
	err      error
	took     time.Duration
	replayed bool
}

func submit(ctx context.Context, a *Admission, tier job.Tier) result {
	begun := time.Now()
	accepted, err := a.Submit(ctx, job.Submission{Tier: tier, Type: "SIMULATION", MaxRetries: -1})
	return result{accepted.ID, err, time.Since(begun), accepted.Replayed}
}

// pass lets virtual time pass; it must be called in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }
