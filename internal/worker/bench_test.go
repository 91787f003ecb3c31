package worker

import (
	"context"
	"log/slog"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// slowQueue answers after 200 us, as Redis does for a batch of 100, and has jobs until its last one.
type slowQueue struct {
	left  atomic.Int64
	calls atomic.Int64
	ended chan struct{}
	done  atomic.Int64
}

// pause waits 200 us without a timer, because timers on Linux are only exact to a millisecond here.
func pause() {
	for start := time.Now(); time.Since(start) < 200*time.Microsecond; {
		runtime.Gosched()
	}
}

func (q *slowQueue) Claim(_ context.Context, _ int, r job.ClaimRequest) (job.ClaimReply, error) {
	q.calls.Add(1)
	pause()
	n := min(int64(r.Max), q.left.Load())
	q.left.Add(-n)
	reply := job.ClaimReply{Leases: make([]job.Lease, n), Next: math.Inf(1)}
	for i := range reply.Leases {
		reply.Leases[i] = job.Lease{Job: work(0, job.Paid), Token: "nonce:1"}
		reply.Leases[i].Attempt = 1
	}
	if q.left.Load() > 0 {
		reply.Next = 1e13
	}
	return reply, nil
}

func (q *slowQueue) Complete(_ context.Context, _ int, batch []job.Completion) ([]job.EndReply, error) {
	q.calls.Add(1)
	pause()
	if q.done.Add(-int64(len(batch))) == 0 {
		close(q.ended)
	}
	return all(job.OK, len(batch)), nil
}

func (q *slowQueue) Fail(context.Context, int, []job.Failure) ([]job.EndReply, error) {
	panic("no job fails here")
}

func (q *slowQueue) Release(context.Context, int, []job.Release) ([]job.EndReply, error) {
	panic("no job is released here")
}

type countingRecorder struct{ n atomic.Int64 }

func (r *countingRecorder) Offer(job.Outcome) bool { r.n.Add(1); return true }
func (r *countingRecorder) Wake()                  {}

// BenchmarkDrain measures the pool's own cost per job: 100 slots, handlers that do nothing, 200 us per call.
func BenchmarkDrain(b *testing.B) {
	b.ReportAllocs()
	rig := newRig(func(context.Context) (string, error) { return "", nil }, func(c *Config) {
		c.Slots = 100
		c.Log = slog.New(slog.DiscardHandler)
	})
	q := &slowQueue{ended: make(chan struct{})}
	q.left.Store(int64(b.N))
	q.done.Store(int64(b.N))
	pool := New(rig.cfg, q, rig.pulse, rig.bell, &countingRecorder{})
	b.ResetTimer()
	if err := pool.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-q.ended
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(2*float64(b.N)/float64(q.calls.Load()), "jobs/call")
	if err := pool.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
}
