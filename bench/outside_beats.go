package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// beatEvery is how often a worker of the libraries sends a heartbeat at the least.
const beatEvery = 2 * time.Second

// beaten measures what the heartbeats of many workers cost, each with a connection, a job and a heartbeat every 2 s.
func (l *lab) beaten(ctx context.Context, _ string, s *server) ([]figure, error) {
	n, rest := l.scaled(1000, 20), time.Duration(l.scaled(30, 2))*time.Second
	if err := l.enqueueOutside(ctx, n); err != nil {
		return nil, err
	}
	beats, err := l.beatsOf(ctx, s, n)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make(chan error, n)
	var group sync.WaitGroup
	for i, beat := range beats {
		group.Go(func() {
			if err := beatOn(ctx, s.addr, beat, beatEvery*time.Duration(i)/time.Duration(n)); err != nil {
				errs <- err
				stop()
			}
		})
	}
	server, redis, err := l.costs(ctx, s, rest)
	stop()
	group.Wait()
	close(errs)
	for failed := range errs {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	calls := n * int(rest/beatEvery)
	return []figure{
		{fmt.Sprintf("%d workers' heartbeats: cpu of the server", n), "% core", 100 * server.Seconds() / rest.Seconds()},
		{fmt.Sprintf("%d workers' heartbeats: cpu of Redis", n), "% core", 100 * redis.Seconds() / rest.Seconds()},
		{"a heartbeat of one job: cpu of the server", "us", micros(server, calls)},
		{"a heartbeat of one job: cpu of Redis", "us", micros(redis, calls)},
	}, nil
}

// beatsOf claims a job for each of n workers, and returns their heartbeats.
func (l *lab) beatsOf(ctx context.Context, s *server, n int) (beats [][]byte, err error) {
	for i := range n {
		name := fmt.Sprintf("beats-%d", i)
		leases, err := claimOver(ctx, s.addr, name, 1)
		if err != nil {
			return nil, err
		}
		if len(leases) != 1 {
			return nil, fmt.Errorf("worker %d got %d jobs", i, len(leases))
		}
		beats = append(beats, workerCall(s.addr, "heartbeat", fmt.Sprintf(`{"worker":%q,"leases":[{"lease":%q}]}`, name,
			leases[0])))
	}
	return beats, nil
}

// beatOn sends a heartbeat after a while, and then every 2 s until ctx ends.
func beatOn(ctx context.Context, addr string, beat []byte, first time.Duration) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	if pause(ctx, first) != nil {
		return nil
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		status, body, err := c.ask(beat)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("a heartbeat is answered %d %s", status, body)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// costs measures the CPU of the server and of Redis for a while, after the load has begun.
func (l *lab) costs(ctx context.Context, s *server, rest time.Duration) (server, redis time.Duration, err error) {
	if err := pause(ctx, beatEvery); err != nil {
		return 0, 0, err
	}
	read := func() (server, redis time.Duration, err error) {
		if server, err = processCPU(s.pid); err != nil {
			return 0, 0, err
		}
		redis, err = l.redisCPU(ctx)
		return server, redis, err
	}
	server, redis, err = read()
	if err != nil {
		return 0, 0, err
	}
	if err := pause(ctx, rest); err != nil {
		return 0, 0, err
	}
	serverAfter, redisAfter, err := read()
	return serverAfter - server, redisAfter - redis, err
}
