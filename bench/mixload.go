package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// mix sends the jobs of mixBench, and counts what came of them.
type mix struct {
	base              string
	client            *http.Client
	accepted, refused atomic.Int64
	unknown           atomic.Int64 // what became of them: the machine is busy with other things
}

func newMix(addr string) *mix {
	return &mix{base: "http://" + addr,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 10 * time.Second}}
}

// parts are the tiers' shares. PAID comes evenly, one by one; the others in batches, PUBLIC in one burst a second, so
// that there is a queue to overtake.
var parts = []struct {
	tier  string
	share float64
	every time.Duration
}{
	{"paid", 0.1, 0}, {"unpaid", 0.3, 100 * time.Millisecond}, {"public", 0.6, time.Second},
}

// plans scales the three plans to seconds: one retry, at once.
func (m *mix) plans(ctx context.Context) error {
	for i, tier := range []string{"PAID", "UNPAID", "PUBLIC"} {
		body := fmt.Sprintf(`{"priority": %d, "maxRetries": 1, "heartbeatTimeoutMs": 1500, "maxProcessingTimeMs": %d, "share": %d,
			"backoff": {"baseMs": 100, "factor": 1, "capMs": 100, "jitter": 0}}`, i+1, mixMaximum.Milliseconds(), 100-20*i)
		status, answer, err := m.send(ctx, http.MethodPut, "/admin/tiers/"+tier, []byte(body))
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("plan of %s: %d %s", tier, status, answer)
		}
	}
	return nil
}

var (
	mixWorks = pad(fmt.Sprintf(`{"steps":[{"type":"SLEEP","durationMs":%d}]}`, mixWork.Milliseconds()))
	mixFails = pad(`{"steps":[{"type":"FAIL","message":"one of twenty"}]}`)
	mixHangs = pad(`{"steps":[{"type":"SLEEP","durationMs":600000}]}`)
)

// entry is the next job's body.
func (m *mix) entry() string {
	payload := mixWorks
	switch r := rand.IntN(1000); {
	case r == 0:
		payload = mixHangs
	case r <= 50:
		payload = mixFails
	}
	return `{"type":"SIMULATION","payload":` + payload + `}`
}

// batch submits n jobs to a tier, at most 1000 a request, and counts what was accepted and what was refused for now.
func (m *mix) batch(ctx context.Context, tier string, n int) error {
	for n > 0 {
		size := min(n, 1000)
		n -= size
		body := []byte{'['}
		for i := range size {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, m.entry()...)
		}
		status, answer, err := m.send(ctx, http.MethodPost, "/"+tier+"/submit/batch", append(body, ']'))
		if err != nil {
			return err
		}
		var said struct {
			APIResponseData []struct{ JobID, ErrorCode string }
		}
		if status != http.StatusAccepted {
			return fmt.Errorf("a batch was answered %d: %s", status, answer)
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			return fmt.Errorf("a batch was answered %s: %w", answer, err)
		}
		for _, e := range said.APIResponseData {
			switch e.ErrorCode {
			case "":
				m.accepted.Add(1)
			case "QUEUE_FULL", "SYSTEM_UNHEALTHY":
				m.refused.Add(1)
			case "OUTCOME_UNKNOWN":
				m.unknown.Add(1)
			default:
				return errors.New("an entry was answered " + e.ErrorCode)
			}
		}
	}
	return nil
}

func (m *mix) one(ctx context.Context, tier string) error {
	status, answer, err := m.send(ctx, http.MethodPost, "/"+tier+"/submit", []byte(m.entry()))
	switch {
	case err != nil:
		return err
	case status == http.StatusAccepted:
		m.accepted.Add(1)
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		m.refused.Add(1)
	case status == http.StatusGatewayTimeout:
		m.unknown.Add(1)
	default:
		return fmt.Errorf("a submit was answered %d: %s", status, answer)
	}
	return nil
}

func (m *mix) send(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	// A request under way is not cut off when the load ends: what came of it would not be known.
	r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, m.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := m.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// maximum submits as fast as it is let in, by all tiers' shares, and returns how many jobs end in a second while the
// queue stays short.
func (m *mix) maximum(ctx context.Context, l *lab) (float64, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	full := func() (bool, error) {
		waiting, err := l.counter(ctx, "fresh")
		return waiting > mixCapacity/4, err
	}
	group.Go(func() {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for running.Err() == nil {
			stuffed, err := full()
			for _, p := range parts {
				if err == nil && !stuffed {
					err = m.batch(running, p.tier, int(1000*p.share))
				}
			}
			if err != nil {
				failed.Store(&err)
				return
			}
			if stuffed {
				<-ticker.C
			}
		}
	})
	ended := func() (int, error) { return l.counter(ctx, "acknowledged") }
	settle, measured := l.scaledTime(5*time.Second), l.scaledTime(20*time.Second)
	none := make(chan error)
	if err := wait(ctx, settle, none); err != nil {
		return 0, err
	}
	before, err := ended()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := wait(ctx, measured, none); err != nil {
		return 0, err
	}
	after, err := ended()
	took := time.Since(began)
	stop()
	group.Wait()
	if f := failed.Load(); f != nil {
		err = errors.Join(err, *f)
	}
	if err == nil && after == before {
		err = errors.New("no job ended")
	}
	return perSecond(after-before, took), err
}

// steady submits rate jobs a second until ctx ends. It does not slow down for what is refused.
func (m *mix) steady(ctx context.Context, rate float64) error {
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fail := func(err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
			stop()
		}
	}
	for _, p := range parts {
		group.Go(func() {
			every := p.every
			if every == 0 {
				every = time.Millisecond // as many single ones as are due by then
			}
			var sent int
			began, ticker := time.Now(), time.NewTicker(every)
			defer ticker.Stop()
			var singles sync.WaitGroup
			defer singles.Wait()
			seats := make(chan struct{}, 64)
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				due := int(time.Since(began).Seconds()*rate*p.share) - sent
				sent += due
				if p.every > 0 {
					fail(m.batch(ctx, p.tier, due))
					continue
				}
				for range due {
					seats <- struct{}{}
					singles.Go(func() {
						fail(m.one(ctx, p.tier))
						<-seats
					})
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
