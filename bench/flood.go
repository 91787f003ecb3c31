package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The flood: as many requests as so many connections send one after the other, all of one key that may submit to
// PUBLIC.
const (
	floodConnections = 64
	floodRate        = 100 // a second, where the key has a rate
	floodRounds      = 4   // of each part, by turns: what the machine does beside this falls on all of them
)

// floodBench measures what a PAID submit takes, 200 a second of one key, in quiet and beside a flood of PUBLIC from
// another key: one with a rate, and one without. The load generator shares the cores with the server.
func floodBench(ctx context.Context, l *lab) (figures []figure, err error) {
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	admin := newKey()
	s, err := l.launch(
		ctx, "flood", "api", append(env, "TIERQ_ADMIN_KEY="+admin, "TIERQ_KEY_QUOTA=0", "TIERQ_LIVING_BYTES=16GiB"),
	)
	if err != nil {
		return nil, err
	}
	defer func() {
		if s != nil {
			_, stopping := s.stop()
			err = errors.Join(err, stopping)
		}
	}()
	keys := map[string]string{}
	for _, k := range []struct {
		name, tier string
		rate       int
	}{{"paid", "PAID", 0}, {"limited", "PUBLIC", floodRate}, {"unlimited", "PUBLIC", 0}} {
		if keys[k.name], err = makeKey(ctx, s.addr, admin, k.name, k.tier, k.rate); err != nil {
			return nil, err
		}
	}

	f := &flood{
		addr: s.addr, connections: floodConnections, paid: keyed(s.addr, "paid", keys["paid"]),
		times: map[string][]time.Duration{},
	}
	n := l.scaled(600, 30)
	if _, err := f.steady(ctx, warmUp); err != nil {
		return nil, err
	}
	for range floodRounds {
		for _, part := range []string{"quiet", "limited", "unlimited"} {
			if err := f.round(ctx, part, keys[part], n); err != nil {
				return nil, fmt.Errorf("%s: %w", part, err)
			}
		}
	}
	figures = f.figures()
	_, stopping := s.stop()
	if s = nil; stopping != nil {
		return nil, stopping
	}
	documents, err := documentFlood(ctx, l)
	return append(figures, documents...), err
}

type flood struct {
	addr        string
	paid        []byte
	public      []byte // what the flood sends; nil = jobs that do nothing
	connections int    // of the flood
	times       map[string][]time.Duration
	sent        map[string]*answers
}

// answers are what the flood got.
type answers struct {
	accepted, refused atomic.Int64
	unknown           atomic.Int64 // 504: the server does not know whether it accepted the job
	took              time.Duration
}

// round measures n PAID submits beside a flood of key, or in quiet if that is empty.
func (f *flood) round(ctx context.Context, part, key string, n int) error {
	if f.sent == nil {
		f.sent = map[string]*answers{"limited": {}, "unlimited": {}}
	}
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	if key != "" {
		request := f.public
		if request == nil {
			request = keyed(f.addr, "public", key)
		}
		for range f.connections {
			group.Go(func() {
				if err := pour(flooding, f.addr, request, f.sent[part]); err != nil {
					failed.Store(&err)
				}
			})
		}
	}
	times, err := f.steady(ctx, n)
	stop()
	group.Wait()
	if other := failed.Load(); err == nil && other != nil {
		err = *other
	}
	if err != nil {
		return err
	}
	if key != "" {
		f.sent[part].took += time.Since(began)
	}
	f.times[part] = append(f.times[part], times...)
	return nil
}

// steady submits n PAID jobs over one connection, one each 5 ms, and returns how long each took to be accepted.
func (f *flood) steady(ctx context.Context, n int) ([]time.Duration, error) {
	c, err := dial(ctx, f.addr)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	ticker := time.NewTicker(everySubmit)
	defer ticker.Stop()
	times := make([]time.Duration, 0, n)
	for range n {
		<-ticker.C
		sent := time.Now()
		if err := c.call(f.paid); err != nil {
			return nil, err
		}
		times = append(times, time.Since(sent))
	}
	return times, nil
}

// pour sends a request over one connection, again and again, until ctx ends. It takes no notice of being refused.
func pour(ctx context.Context, addr string, request []byte, got *answers) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for ctx.Err() == nil {
		status, body, err := c.ask(request)
		switch {
		case err != nil:
			return err
		case status == http.StatusAccepted:
			got.accepted.Add(1)
		case status == http.StatusTooManyRequests,
			status == http.StatusServiceUnavailable && strings.Contains(body, "QUEUE_FULL"):
			got.refused.Add(1)
		case status == http.StatusGatewayTimeout: // the server on a busy machine; the flood goes on as it would
			got.unknown.Add(1)
		default:
			return fmt.Errorf("the flood was answered %d: %s", status, body)
		}
	}
	return nil
}

func (f *flood) figures() (all []figure) {
	quiet50, quiet99 := millis(quantile(f.times["quiet"], 0.5)), millis(quantile(f.times["quiet"], 0.99))
	all = append(all, figure{"quiet: PAID accepted, p50", "ms", quiet50},
		figure{"quiet: PAID accepted, p99", "ms", quiet99})
	for _, part := range []string{"limited", "unlimited"} {
		name := part + " flood: "
		p50, p99, got := millis(quantile(f.times[part], 0.5)), millis(quantile(f.times[part], 0.99)), f.sent[part]
		all = append(all,
			figure{name + "PAID accepted, p50", "ms", p50}, figure{name + "PAID accepted, p99", "ms", p99},
			figure{name + "p50 beside quiet", "times", p50 / quiet50}, figure{name + "p99 beside quiet", "times", p99 / quiet99},
			figure{name + "PUBLIC accepted", "per s", perSecond(int(got.accepted.Load()), got.took)},
			figure{name + "PUBLIC refused", "per s", perSecond(int(got.refused.Load()), got.took)},
			figure{name + "PUBLIC answered 504", "per s", perSecond(int(got.unknown.Load()), got.took)})
	}
	return all
}

// keyed is a submit of nothing to a tier with a key, as bytes on the wire.
func keyed(addr, tier, key string) []byte {
	return keyedBody(addr, tier, key, `{"type":"SIMULATION","payload":`+nothing+`}`)
}

func keyedBody(addr, tier, key, body string) []byte {
	return fmt.Appendf(nil, "POST /%s/submit HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		tier, addr, key, len(body), body)
}

// newKey is the text of a key that no store has.
func newKey() string {
	var id [10]byte
	var secret [32]byte
	_, _ = rand.Read(id[:])
	_, _ = rand.Read(secret[:])
	return "tq_" + strings.ToLower(base32.StdEncoding.EncodeToString(id[:])) + "_" +
		base64.RawURLEncoding.EncodeToString(secret[:])
}

// makeKey makes a key that submits to one tier; a rate of 0 is none.
func makeKey(ctx context.Context, addr, admin, name, tier string, rate int) (string, error) {
	body, err := json.Marshal(map[string]any{"name": name, "role": "submit", "tiers": []string{tier}, "rate": rate})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/admin/keys", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+admin)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	var made struct{ Key, Detail string }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil {
		return "", fmt.Errorf("make a key: %s: %w", answer.Status, err)
	}
	if made.Key == "" {
		return "", fmt.Errorf("make a key: %s: %s", answer.Status, made.Detail)
	}
	return made.Key, nil
}
