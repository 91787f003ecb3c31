package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The flood of documents: jobs of PUBLIC that are claimed, ask to be run later because their endpoint is busy, and keep
// their payloads in Redis. It goes on until the living jobs of PUBLIC have their share of a small Redis, and beside the
// measurement.
const (
	documentBytes       = 60_000
	documentConnections = 8
)

// documentFlood measures what a PAID submit takes, 200 a second of one key, in quiet and once a Redis of 256 MiB has as
// many documents as it lets in, while their sender tries to send more.
func documentFlood(ctx context.Context, l *lab) (figures []figure, err error) {
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	memory := fmt.Sprint(l.scaled(256, 32) << 20)
	if err := l.client.ConfigSet(ctx, "maxmemory", memory).Err(); err != nil {
		return nil, fmt.Errorf("give Redis %s bytes: %w", memory, err)
	}
	defer func() { err = errors.Join(err, l.client.ConfigSet(context.WithoutCancel(ctx), "maxmemory", "0").Err()) }()
	endpoint, err := busyEndpoint()
	if err != nil {
		return nil, err
	}
	defer endpoint.Close()
	admin := newKey()
	env = append(env, "TIERQ_ADMIN_KEY="+admin, "TIERQ_EGRESS_ALLOW=127.0.0.0/8")
	s, err := l.launch(ctx, "documents", "api,worker,recovery", env)
	if err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	paid, err := makeKey(ctx, s.addr, admin, "paid", "PAID", 0)
	if err != nil {
		return nil, err
	}
	public, err := makeKey(ctx, s.addr, admin, "documents", "PUBLIC", floodRate)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"type":"FORWARD_DOCUMENT","payload":{"documentId":"D-1","contentType":"text/plain","body":%q,`+
		`"endpoints":["http://%s/busy"]}}`, strings.Repeat("x", documentBytes), endpoint.addr)
	f := &flood{
		addr: s.addr, paid: keyed(s.addr, "paid", paid), times: map[string][]time.Duration{},
		sent: map[string]*answers{"documents": {}}, connections: documentConnections,
		public: keyedBody(s.addr, "public", public, body),
	}
	if _, err := f.steady(ctx, warmUp); err != nil {
		return nil, err
	}
	n := floodRounds * l.scaled(600, 30)
	if err := f.round(ctx, "quiet", "", n); err != nil {
		return nil, fmt.Errorf("quiet: %w", err)
	}
	accepted, err := f.fill(ctx)
	if err != nil {
		return nil, fmt.Errorf("fill: %w", err)
	}
	if err := f.round(ctx, "documents", public, n); err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	used, err := l.client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return nil, fmt.Errorf("read Redis' memory: %w", err)
	}
	bytes, err := strconv.ParseInt(used["Memory"]["used_memory"], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read Redis' memory: %w", err)
	}
	const name = "busy documents: "
	got := f.sent["documents"]
	quiet99, p99 := millis(quantile(f.times["quiet"], 0.99)), millis(quantile(f.times["documents"], 0.99))
	return []figure{
		{name + "PAID accepted in quiet, p50", "ms", millis(quantile(f.times["quiet"], 0.5))},
		{name + "PAID accepted in quiet, p99", "ms", quiet99},
		{name + "PAID accepted, p50", "ms", millis(quantile(f.times["documents"], 0.5))},
		{name + "PAID accepted, p99", "ms", p99},
		{name + "p99 beside quiet", "times", p99 / quiet99},
		{name + "PUBLIC alive before one was refused", "jobs", float64(accepted)},
		{name + "PUBLIC refused", "per s", perSecond(int(got.refused.Load()), got.took)},
		{name + "Redis' memory", "MiB", float64(bytes) / (1 << 20)},
	}, nil
}

// fill sends documents until one is refused because too many live, and says how many were accepted.
func (f *flood) fill(ctx context.Context) (accepted int, err error) {
	c, err := dial(ctx, f.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	for {
		status, body, err := c.ask(f.public)
		switch {
		case err != nil:
			return 0, err
		case status == http.StatusAccepted:
			accepted++
		case status == http.StatusServiceUnavailable && strings.Contains(body, "have not ended"):
			return accepted, nil
		case status != http.StatusTooManyRequests:
			return 0, fmt.Errorf("answered %d: %s", status, body)
		}
	}
}

// endpoint is an HTTP server that wants everybody to come again in an hour.
type endpoint struct {
	*http.Server
	addr string
}

func busyEndpoint() (*endpoint, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	busy := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	e := &endpoint{
		addr: l.Addr().String(), Server: &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(busy)},
	}
	go func() { _ = e.Serve(l) }() // until Close
	return e, nil
}
