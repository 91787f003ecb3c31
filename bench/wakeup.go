package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// everySubmit is 200 a second.
const everySubmit = 5 * time.Millisecond

// wakeupBench measures from a submit to the start of its handler: in the process that took the submit, and in another
// one by way of the doorbell. The two processes of the second part are two servers in this one: they share the clock,
// and nothing else but Redis and MariaDB.
func wakeupBench(ctx context.Context, l *lab) (figures []figure, err error) {
	for _, c := range []struct {
		name  string
		roles []string
	}{{"same process: ", []string{"api,worker,recovery"}}, {"by the doorbell: ", []string{"api", "worker,recovery"}}} {
		more, err := l.wakeup(ctx, c.name, c.roles)
		if err != nil {
			return nil, fmt.Errorf("%s%w", c.name, err)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// stamp is the payload of a BENCH job: which one it is.
type stamp struct {
	N int `json:"n"`
}

func (l *lab) wakeup(ctx context.Context, name string, roles []string) (figures []figure, err error) {
	n := l.scaled(2000, 60)
	_, env, err := l.fresh(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	type start struct {
		n  int
		at time.Time
	}
	starts := make(chan start, 2*n)
	handlers := func(r *handler.Registry) {
		handler.Register(r, "BENCH", func(_ context.Context, in stamp) (stamp, error) {
			starts <- start{in.N, time.Now()}
			return in, nil
		})
	}
	for _, r := range roles {
		listen := addr
		if r == "worker,recovery" {
			listen = "127.0.0.1:0" // its health
		}
		s, err := inside(append([]string{"TIERQ_ROLES=" + r, "TIERQ_ADDR=" + listen}, env...), handlers)
		if err != nil {
			return nil, err
		}
		defer func() {
			_, stopping := s.stop()
			err = errors.Join(err, stopping)
		}()
		if r != "worker,recovery" {
			s.addr = addr
		}
		if err := s.answers(ctx); err != nil {
			return nil, err
		}
	}

	sent, answered, err := paced(ctx, addr, "BENCH", "main", n)
	if err != nil {
		return nil, err
	}
	fromSent, fromAnswer := []time.Duration{}, []time.Duration{}
	for i := range n {
		select {
		case s := <-starts:
			if s.n >= warmSubmits {
				fromSent, fromAnswer = append(fromSent, s.at.Sub(sent[s.n])), append(fromAnswer, s.at.Sub(answered[s.n]))
			}
		case <-time.After(patience):
			return nil, fmt.Errorf("%d of %d jobs started", i, n)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []figure{
		{name + "answered to start, p50", "ms", millis(quantile(fromAnswer, 0.5))},
		{name + "answered to start, p99", "ms", millis(quantile(fromAnswer, 0.99))},
		{name + "sent to start, p50", "ms", millis(quantile(fromSent, 0.5))},
		{name + "sent to start, p99", "ms", millis(quantile(fromSent, 0.99))},
	}, nil
}

// warmSubmits are not counted: the first ones find nothing connected or cached, and with two servers the second may
// still be starting.
const warmSubmits = 20

// paced submits n jobs of a type to a queue, one each 5 ms, and returns when each was sent and answered.
func paced(ctx context.Context, addr, typ, queue string, n int) (sent, answered []time.Time, err error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	ticker := time.NewTicker(everySubmit)
	defer ticker.Stop()
	for i := range n {
		body := request(addr, fmt.Sprintf(`{"type":%q,"queue":%q,"payload":%s}`, typ, queue,
			pad(fmt.Sprintf(`{"n":%d}`, i))))
		<-ticker.C
		sent = append(sent, time.Now())
		if err := c.call(body); err != nil {
			return nil, nil, err
		}
		answered = append(answered, time.Now())
	}
	return sent, answered, nil
}
