package archive_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/job"
)

var arrival = time.UnixMilli(1_764_000_000_123).UTC()

func id(n int) job.ID { return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%012x", n<<8)) }

func completed(n int) job.Outcome {
	return job.Outcome{Job: job.Job{
		ID: id(n), Generation: 1, Tier: job.Paid, Type: "SIMULATION", Owner: "key-1", TraceID: "trace-1",
		Payload: []byte(`{"steps":[]}`), Status: job.Completed, Attempt: 3, RetryCount: 1, MaxRetries: 5,
		ArrivedAt: arrival, FirstTriedAt: arrival.Add(time.Second), StartedAt: arrival.Add(2 * time.Second),
		EndedAt: arrival.Add(3 * time.Second),
		Result:  []byte(fmt.Sprintf(`{"n": %d, "žluť": "\u0000"}`, n)), Worker: "host:3",
	}}
}

func failed(n int) job.Outcome {
	o := completed(n)
	o.Status, o.Result, o.Tier, o.Worker = job.Failed, nil, job.Public, "host:2"
	o.Cause, o.LastError = job.HeartbeatStopped, "process 7 💀 died"
	o.Attempts = []job.Attempt{
		{
			Number:     1,
			Generation: 1,
			Worker:     "host:1",
			StartedAt:  arrival.Add(time.Second),
			FinishedAt: arrival.Add(1500 * time.Millisecond),
			Outcome:    "HANDLER_ERROR",
			Error:      "boom",
		},
		{
			Number:     3,
			Generation: 1,
			Worker:     "host:2",
			StartedAt:  arrival.Add(2 * time.Second),
			FinishedAt: arrival.Add(3 * time.Second),
			Outcome:    "HEARTBEAT_STOPPED",
		},
	}
	return o
}

func cancelled(n int) job.Outcome {
	o := completed(n)
	o.Status, o.Result, o.Worker = job.Cancelled, nil, ""
	return o
}

// many returns n completed outcomes.
func many(n int) []job.Outcome {
	all := make([]job.Outcome, n)
	for i := range all {
		all[i] = completed(i + 1)
	}
	return all
}

// redis is the Acknowledger of the tests.
type redis struct {
	mu      sync.Mutex
	acks    map[job.ID]job.Ack
	largest int
	answer  func(ctx context.Context, partition int, batch []job.Ack) error // nil: OK
}

func (r *redis) Acknowledge(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error) {
	if r.answer != nil {
		if err := r.answer(ctx, partition, batch); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.acks == nil {
		r.acks = map[job.ID]job.Ack{}
	}
	r.largest = max(r.largest, len(batch))
	words := make([]job.Word, len(batch))
	for i, a := range batch {
		r.acks[a.ID] = a
		words[i] = job.OK
	}
	return words, nil
}

func (r *redis) ack(id job.ID) job.Ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acks[id]
}

func (r *redis) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acks)
}

// start starts a writer and stops it when the test ends.
func start(t testing.TB, a *archive.Archive, acks archive.Acknowledger, o archive.WriterOptions) *archive.Writer {
	t.Helper()
	w := archive.NewWriter(a, acks, o)
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = w.Stop(ctx) // the test checks what is left
	})
	return w
}

func record(t testing.TB, w *archive.Writer, outcomes ...job.Outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.Record(ctx, outcomes); err != nil {
		t.Fatal(err)
	}
}

// nobody accepts every acknowledge and stores nothing.
type nobody struct{}

func (nobody) Acknowledge(_ context.Context, _ int, batch []job.Ack) ([]job.Word, error) {
	return make([]job.Word, len(batch)), nil
}
