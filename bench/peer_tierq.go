package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// tierqSlots are the slots of the drain: as many as one claim takes, and as many as keep three claims busy.
var tierqSlots = []int{100, 300}

const (
	batchSize    = 1000 // entries a request, the most a batch may have
	batchClients = 4
)

// tierq is the server as it ships: a process of its own, jobs come over HTTP, results go to MariaDB. Only the pick-up
// runs inside this process, so that its handler and the sender read one clock.
type tierq struct {
	title, retention string
	only             bool // it drains, and the other column has the rest
	l                *lab
	database         string
	env              []string
	used             bool // the database has rows
}

func newTierq() contender { return &tierq{title: "tierq", retention: "24h"} }

// newTierqForgets is tierq whose Redis forgets a job once SQL has its result.
func newTierqForgets() contender {
	return &tierq{title: "tierq, retention 0", retention: "0s", only: true}
}

func (t *tierq) name() string { return t.title }

func (t *tierq) open(_ context.Context, l *lab) (string, error) {
	t.l = l
	if t.only {
		return "the same, TIERQ_RETENTION 0s: Redis forgets an ended job once MariaDB has it", nil
	}
	return fmt.Sprintf("this tree; a server process, journal off, retention 24h, rows in MariaDB; single submits over "+
		"HTTP, batches of %d over %d connections; "+
		"drained by %d and by %d slots, the better one counts", batchSize, batchClients, tierqSlots[0], tierqSlots[1]), nil
}

func (t *tierq) close() error { return nil }

// reset makes a new database only where this one was written to: the tables take a server that starts some time.
func (t *tierq) reset(ctx context.Context) (err error) {
	if err := t.l.empty(ctx); err != nil {
		return err
	}
	if t.database == "" || t.used {
		t.database, t.env, err = t.l.renew(ctx, t.database)
		t.used = false
	}
	return err
}

// served runs do against a server with role api, and then counts what is queued.
func (t *tierq) served(ctx context.Context, n int, do func(addr string) (time.Duration, error)) (time.Duration, error) {
	if t.only {
		return 0, errNone
	}
	s, err := t.l.launch(ctx, "peers", "api", t.env)
	if err != nil {
		return 0, err
	}
	took, err := do(s.addr)
	_, stopping := s.stop()
	if err := errors.Join(err, stopping); err != nil {
		return 0, err
	}
	queued, err := t.l.counter(ctx, "fresh")
	if err == nil && queued != n {
		err = fmt.Errorf("%d jobs are queued after %d submits", queued, n)
	}
	return took, err
}

func (t *tierq) enqueue(ctx context.Context, clients, n int) (time.Duration, error) {
	return t.served(ctx, n+warmUp, func(addr string) (time.Duration, error) { return t.l.sendOver(ctx, addr, clients, n) })
}

// sendOver sends n single submits over so many connections, after a few that do not count.
func (l *lab) sendOver(ctx context.Context, addr string, connections, n int) (time.Duration, error) {
	body := request(addr, `{"type":"SIMULATION","payload":`+nothing+`}`)
	if _, _, err := load(ctx, addr, connections, warmUp, body); err != nil {
		return 0, err
	}
	took, _, err := load(ctx, addr, connections, n, body)
	return took, err
}

func (t *tierq) bulk(ctx context.Context, n int) (time.Duration, error) {
	requests := (n + batchSize - 1) / batchSize
	return t.served(ctx, (requests+batchClients)*batchSize, func(addr string) (time.Duration, error) {
		entry := `{"type":"SIMULATION","payload":` + nothing + `}`
		body := []byte("[" + strings.Repeat(entry+",", batchSize-1) + entry + "]")
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: batchClients}}
		defer client.CloseIdleConnections()
		send := func(int) error {
			text, err := post(ctx, client, "http://"+addr+"/paid/submit/batch", body)
			if n := bytes.Count(text, []byte(`"errorCode":"`)); err == nil && n > 0 {
				err = fmt.Errorf("%w: %d of a batch: %.300s", errRefused, n, text)
			}
			return err
		}
		if _, err := together(ctx, batchClients, batchClients, send); err != nil { // connects
			return 0, err
		}
		took, err := together(ctx, batchClients, requests, send)
		return time.Duration(float64(took) * float64(n) / float64(requests*batchSize)), err // the last batch is whole
	})
}

// errRefused says that the server refused submits, as it does where the machine is too busy to answer within 2 s.
var errRefused = errors.New("submits were refused")

// post sends a body and returns the answer, which must be 202.
func post(ctx context.Context, client *http.Client, url string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("answered %s: %.300s", answer.Status, text)
	}
	return text, err
}

func (t *tierq) drain(ctx context.Context, n int) (best drained, err error) {
	for i, slots := range tierqSlots {
		if i > 0 {
			if err := t.reset(ctx); err != nil {
				return best, err
			}
		}
		d, err := t.drainBy(ctx, slots, n)
		if err != nil {
			return best, fmt.Errorf("%d slots: %w", slots, err)
		}
		if best.took == 0 || perSecond(d.jobs, d.took) > perSecond(best.jobs, best.took) {
			best = d
		}
	}
	return best, nil
}

func (t *tierq) drainBy(ctx context.Context, slots, n int) (drained, error) {
	t.used = true
	d, err := t.l.drainOnce(ctx, t.database, t.env, n, slots, t.retention)
	if err != nil {
		return drained{}, err
	}
	runs, err := t.l.count(ctx, "SELECT COALESCE(SUM(attempts), 0) FROM "+t.database+".job_results")
	if err == nil && runs != n {
		err = fmt.Errorf("%d runs of %d jobs", runs, n)
	}
	return drained{took: d.took, jobs: d.jobs, cpu: d.redis, setting: fmt.Sprint(slots, " slots")}, err
}

func (t *tierq) pickup(ctx context.Context, rate, n int) (times []time.Duration, err error) {
	if t.only {
		return nil, errNone
	}
	t.used = true
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	starts := make(chan start, 2*(n+warmSubmits))
	s, err := inside(append([]string{"TIERQ_ADDR=" + addr}, t.env...), func(r *handler.Registry) {
		handler.Register(r, "BENCH", func(_ context.Context, in stamp) (stamp, error) {
			starts <- start{in.N, time.Now()}
			return in, nil
		})
	})
	if err != nil {
		return nil, err
	}
	s.addr = addr
	if err := s.answers(ctx); err != nil {
		return nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = c.conn.Close() })()
	return pickups(ctx, rate, n, starts, func(i int) (time.Time, error) {
		err := c.call(request(addr, fmt.Sprintf(`{"type":"BENCH","payload":%s}`, pad(fmt.Sprintf(`{"n":%d}`, i)))))
		return time.Now(), err
	})
}

func (t *tierq) queuedBytes(ctx context.Context, n int) (float64, error) {
	if t.only {
		return 0, errNone
	}
	return t.l.weigh(ctx, n, t.l.enqueue)
}

// weigh is by how much Redis' memory grows, per job, when n jobs are queued. A few go before: each connection weighs 20
// KiB or more, and they stay.
func (l *lab) weigh(ctx context.Context, n int, queue func(context.Context, int) error) (float64, error) {
	if err := queue(ctx, warmUp); err != nil {
		return 0, err
	}
	before, err := l.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	if err := queue(ctx, n); err != nil {
		return 0, err
	}
	after, err := l.info(ctx, "memory", "used_memory")
	return (after - before) / float64(n), err
}
