package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/internal/worker"
)

// timedPulse measures the time of heartbeats.
type timedPulse struct {
	*queue.Queue
	calls, failed atomic.Int64
	slowest       atomic.Int64
}

func (p *timedPulse) Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error) {
	began := time.Now()
	words, err := p.Queue.Heartbeat(ctx, partition, batch)
	p.calls.Add(1)
	if err != nil {
		p.failed.Add(1)
	}
	p.slowest.Store(max(p.slowest.Load(), int64(time.Since(began))))
	return words, err
}

// deaf drops all outcomes, because this test has no SQL.
type deaf struct{}

func (deaf) Offer(job.Outcome) bool { return false }
func (deaf) Wake()                  {}

// 200 goroutines occupy the two connections of the submits' pool, so that submits are refused. Heartbeats, claims
// and endings have connections of their own and are not affected.
func TestHeartbeatsHaveTheirOwnConnections(t *testing.T) {
	t.Attr("proves", "F32")
	t.Parallel()
	url := testkit.SharedRedisDB(t)
	clients, err := queue.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	few, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.Main.Close(); err != nil {
		t.Fatal(err)
	}
	few.PoolSize, few.MaxRetries, few.PoolTimeout, few.ContextTimeoutEnabled = 2, -1, 100*time.Millisecond, true
	main := redis.NewClient(few)
	clients.Main = main
	e := queuetest.Open(t, clients, func(o *queue.Options) { o.HeartbeatInterval = 50 * time.Millisecond })
	plans := e.Plans.All()
	for i := range plans {
		plans[i].HeartbeatTimeout = time.Second
	}
	e.Plans.Set(plans)
	e.PutAll(t, queuetest.Job(job.Public), queuetest.Job(job.Unpaid), queuetest.Job(job.Paid), queuetest.Job(job.Public))

	hogs, enough := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer enough()
	for range 200 {
		all.Go(func() {
			for hogs.Err() == nil {
				_ = main.BLPop(hogs, time.Second, "nothing").Err() // most of them get no connection, on purpose
			}
		})
	}
	registry := handler.NewRegistry()
	handler.Register(registry, queuetest.Job(job.Public).Type, func(ctx context.Context, _ struct{}) (struct{}, error) {
		select {
		case <-time.After(3 * time.Second): // three heartbeat timeouts
		case <-ctx.Done():
		}
		return struct{}{}, ctx.Err()
	})
	pulse := &timedPulse{Queue: e.Queue}
	pool := worker.New(worker.Config{
		Slots: 4, Partitions: 1, HeartbeatInterval: 50 * time.Millisecond, ResultLimit: 1024, DrainTimeout: 5 * time.Second,
		Registry: registry, Plans: e.Plans, Log: slog.New(slog.DiscardHandler), Nonce: e.Options.Nonce,
	}, e.Queue, pulse, e.Queue, deaf{})
	if err := pool.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused := 0
	testkit.Eventually(t, 15*time.Second, "the four jobs are done", func() (bool, string) {
		if _, err := e.Submit(t.Context(), 0, []job.Submission{queuetest.Job(job.Paid)}); errors.Is(err, job.ErrUnavailable) {
			refused++
		}
		s := pool.Stats()
		return s.Completed >= 4, fmt.Sprintf("%+v", s)
	})
	s := main.PoolStats()
	t.Logf("evidence: %d of 2 connections, %d waits in vain, %d submits refused; %d heartbeats, the slowest %v",
		s.TotalConns, s.Timeouts, refused, pulse.calls.Load(), time.Duration(pulse.slowest.Load()))
	if s.TotalConns > 2 || s.Timeouts < 100 || refused == 0 {
		t.Error("the connections for submits were not exhausted")
	}
	if n := pulse.calls.Load(); n < 15 || pulse.failed.Load() != 0 {
		t.Errorf("%d heartbeats, %d failed, the slowest took %v", n, pulse.failed.Load(), time.Duration(pulse.slowest.Load()))
	}
	if s := pool.Stats(); s.Lost != 0 || s.Failed != 0 || s.Released != 0 {
		t.Errorf("stats %+v", s)
	}
	if err := pool.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
