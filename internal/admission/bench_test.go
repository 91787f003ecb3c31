package admission

import (
	"context"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func BenchmarkMint(b *testing.B) {
	m := newMint()
	for b.Loop() {
		if _, err := m.next(0); err != nil {
			b.Fatal(err)
		}
	}
}

// The fake takes 200 us per call, as a busy Redis does: concurrent submits must share calls.
func BenchmarkGroupCommit(b *testing.B) {
	for name, parallel := range map[string]int{"1": 0, "64": 32, "256": 128} {
		b.Run("clients="+name, func(b *testing.B) {
			q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
				<-time.After(200 * time.Microsecond)
				return all(job.OK, batch), nil
			}}
			a, _ := begin(b, q, 1)
			b.ReportAllocs()
			work := func() {
				if r := submit(b.Context(), a, job.Paid); r.err != nil {
					b.Error(r.err)
				}
			}
			if parallel == 0 {
				for b.Loop() {
					work()
				}
			} else {
				b.SetParallelism(parallel)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						work()
					}
				})
			}
			b.ReportMetric(float64(b.N)/float64(len(q.sent())), "submits/call")
		})
	}
}

// A batch of 1000 costs its ten calls of 200 us and little else.
func BenchmarkSubmitBatch(b *testing.B) {
	q := &fakeQueue{answer: func(_ context.Context, _ int, batch []job.Submission) ([]job.SubmitReply, error) {
		<-time.After(200 * time.Microsecond)
		return all(job.OK, batch), nil
	}}
	a, _ := begin(b, q, 1)
	batch := ofTier(job.Paid, 1000)
	b.ReportAllocs()
	for b.Loop() {
		for _, r := range a.SubmitBatch(b.Context(), batch) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "jobs/s")
}
