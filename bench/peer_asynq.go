package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const (
	asynqType  = "bench"
	asynqQueue = "asynq:{default}:"
	// asynqLook is how often idle workers ask. asynq's own default is a second, which makes a pick-up take half of that.
	asynqLook = time.Millisecond
)

// asynqPeer drives github.com/hibiken/asynq on the lab's Redis.
type asynqPeer struct {
	keeps  bool // results, for a day, as tierq does; it then only drains, and the other column has the rest
	l      *lab
	client *asynq.Client
}

func newAsynq() contender      { return &asynqPeer{} }
func newAsynqKeeps() contender { return &asynqPeer{keeps: true} }

func (a *asynqPeer) name() string {
	if a.keeps {
		return "asynq, results kept"
	}
	return "asynq"
}

func (a *asynqPeer) open(_ context.Context, l *lab) (string, error) {
	a.l = l
	a.client = asynq.NewClient(a.redis(64))
	if a.keeps {
		return "the same, each result written and kept for 24 h in Redis", nil
	}
	return "github.com/hibiken/asynq " + moduleVersion("github.com/hibiken/asynq") +
		" on the same Redis; no results; drained by 16 and by 64 workers, the better one counts; " +
		fmt.Sprintf("idle workers look each %v (1s by default)", asynqLook), nil
}

// moduleVersion is what this program was built with; test binaries do not say.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "(version unknown)"
}

func (a *asynqPeer) redis(connections int) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: a.l.redis.Addr(), PoolSize: connections}
}

func (a *asynqPeer) close() error {
	if a.client == nil {
		return nil
	}
	err := a.client.Close()
	a.client = nil
	return err
}

func (a *asynqPeer) reset(ctx context.Context) error {
	if err := a.l.empty(ctx); err != nil {
		return err
	}
	// The client tells Redis once of each queue it uses; that went with the rest.
	if err := a.close(); err != nil {
		return err
	}
	a.client = asynq.NewClient(a.redis(64))
	return nil
}

func (a *asynqPeer) task(payload []byte) *asynq.Task {
	if a.keeps {
		return asynq.NewTask(asynqType, payload, asynq.Retention(24*time.Hour))
	}
	return asynq.NewTask(asynqType, payload)
}

func (a *asynqPeer) send(ctx context.Context, payload []byte) error {
	_, err := a.client.EnqueueContext(ctx, a.task(payload))
	return err
}

func (a *asynqPeer) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	if a.keeps {
		return 0, errNone
	}
	return a.queue(ctx, clients, n)
}

func (a *asynqPeer) queue(ctx context.Context, clients, n int) (time.Duration, error) {
	before, err := a.waiting(ctx)
	if err != nil {
		return 0, err
	}
	send := func(int) error { return a.send(ctx, payload()) }
	if _, err := together(ctx, clients, clients, send); err != nil { // connects
		return 0, err
	}
	took, err := together(ctx, clients, n, send)
	if err != nil {
		return 0, err
	}
	after, err := a.waiting(ctx)
	if err == nil && after-before != n+clients {
		err = fmt.Errorf("%d tasks wait after %d were sent", after-before, n+clients)
	}
	return took, err
}

func (a *asynqPeer) waiting(ctx context.Context) (int, error) {
	n, err := a.l.client.LLen(ctx, asynqQueue+"pending").Result()
	return int(n), err
}

// bulk: asynq enqueues one by one.
func (a *asynqPeer) bulk(context.Context, int) (time.Duration, error) { return 0, errNone }

func (a *asynqPeer) drain(ctx context.Context, n int) (best drained, err error) {
	for _, workers := range []int{16, 64} {
		if err := a.reset(ctx); err != nil {
			return best, err
		}
		d, err := a.drainWith(ctx, workers, n)
		if err != nil {
			return best, fmt.Errorf("%d workers: %w", workers, err)
		}
		if best.took == 0 || d.took < best.took {
			best = d
		}
	}
	return best, nil
}

func (a *asynqPeer) drainWith(ctx context.Context, workers, n int) (d drained, err error) {
	d.setting = fmt.Sprint(workers, " workers")
	before, err := a.l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	const clients = 16
	if _, err := a.queue(ctx, clients, n-clients); err != nil {
		return d, err
	}
	var runs atomic.Int64
	all := make(chan struct{})
	handler := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if a.keeps {
			if _, err := t.ResultWriter().Write([]byte(result)); err != nil {
				return err
			}
		}
		if runs.Add(1) == int64(n) {
			close(all)
		}
		return nil
	})
	began := time.Now()
	server, err := a.serve(workers, handler)
	if err != nil {
		return d, err
	}
	defer server.Shutdown()
	select {
	case <-all:
	case <-time.After(patience):
		return d, fmt.Errorf("%d of %d tasks ran", runs.Load(), n)
	case <-ctx.Done():
		return d, ctx.Err()
	}
	// The last tasks have run; they have ended when nothing is active any more.
	if err := until(ctx, "the last tasks' ends", func() (bool, error) {
		active, err := a.l.client.LLen(ctx, asynqQueue+"active").Result()
		return active == 0, err
	}); err != nil {
		return d, err
	}
	d.took = time.Since(began)
	after, err := a.l.redisCPU(ctx)
	if err != nil {
		return d, err
	}
	d.cpu = after - before
	left, err := a.waiting(ctx)
	if got := int(runs.Load()); err == nil && (got != n || left != 0) {
		err = fmt.Errorf("%d runs of %d tasks, %d left", got, n, left)
	}
	return d, err
}

func (a *asynqPeer) serve(workers int, handler asynq.Handler) (*asynq.Server, error) {
	server := asynq.NewServer(a.redis(workers+16), asynq.Config{
		Concurrency: workers, TaskCheckInterval: asynqLook, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second,
	})
	return server, server.Start(handler)
}

func (a *asynqPeer) pickup(ctx context.Context, rate, n int) ([]time.Duration, error) {
	if a.keeps {
		return nil, errNone
	}
	starts := make(chan start, 2*(n+warmSubmits))
	server, err := a.serve(16, asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		at := time.Now()
		var s stamp
		if err := json.Unmarshal(t.Payload(), &s); err != nil {
			return errors.Join(err, asynq.SkipRetry)
		}
		starts <- start{s.N, at}
		return nil
	}))
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	return pickups(ctx, rate, n, starts, func(i int) (time.Time, error) {
		err := a.send(ctx, []byte(pad(fmt.Sprintf(`{"n":%d}`, i))))
		return time.Now(), err
	})
}

func (a *asynqPeer) queuedBytes(ctx context.Context, n int) (float64, error) {
	if a.keeps {
		return 0, errNone
	}
	return a.l.weigh(ctx, n, func(ctx context.Context, n int) error {
		_, err := together(ctx, 16, n, func(int) error { return a.send(ctx, payload()) })
		return err
	})
}

// leads says whether a contender's name is of this engine, with whatever settings.
func leads(name, engine string) bool {
	return strings.HasPrefix(strings.ToLower(name), strings.ToLower(engine))
}
