package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// callTime is the time for a call's answer, beside the time that a claim asks the server to wait.
const callTime = 15 * time.Second

// The limits of the bytes that are read of an answer and of a refusal: a claim's answer has up to 16 MiB of payloads,
// and as much of checkpoints.
const (
	mostAnswer  = 64 << 20
	mostRefusal = 1 << 20
)

// refusal is an answer of the server that is an error.
type refusal struct {
	Status    int    `json:"status"`
	ErrorCode string `json:"errorCode"`
	Detail    string `json:"detail"`
	after     time.Duration
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.ErrorCode, r.Detail) }

// attrs returns the attributes of a line about a refusal, which may be nil.
func (r *refusal) attrs() []any {
	if r == nil {
		return nil
	}
	return []any{"why", r.Error()}
}

// forNow says whether the same call may succeed later.
func (r *refusal) forNow() bool { return r.Status >= 500 || r.Status == http.StatusTooManyRequests }

// call makes one call. Its error is a *refusal if the server has answered.
func (w *Worker) call(ctx context.Context, verb string, body, answer any, most time.Duration) error {
	return w.callAt(ctx, "api/worker/"+verb, verb, body, answer, most)
}

// callAt is call for any path. verb is the call's name in errors.
func (w *Worker) callAt(ctx context.Context, path, verb string, body, answer any, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	to := w.base.JoinPath(path).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(encoded(body)))
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "tierq-worker-go")
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, mostRefusal)) // what is there of it
		r := &refusal{}
		if json.Unmarshal(text, r) != nil || r.ErrorCode == "" {
			r.Detail = "the answer is not tierq's"
		}
		r.Status = resp.StatusCode
		if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			r.after = time.Duration(min(max(after, 0), 60)) * time.Second
		}
		return fmt.Errorf("%s: %w", verb, r)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: the answer broke off: %w", verb, err)
	case len(text) > mostAnswer:
		return fmt.Errorf("%s: the answer has more than %d bytes", verb, mostAnswer)
	}
	if own, is := answer.(reader); is {
		err = own.read(text)
	} else {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: the answer is not understood: %w", verb, err)
	}
	return nil
}

// do sends a request. The transport may be the program's own, and panic.
func (w *Worker) do(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the HTTP client panics: %s", textOf(p))
		}
	}()
	return w.http.Do(req)
}

// pause returns the wait after some failures in a row: 100 ms, doubling to 5 s, of which a random half is left out, and
// what the server asks for.
func pause(failures int, err error) time.Duration {
	bound := 5 * time.Second
	if failures < 7 {
		bound = 50 * time.Millisecond << failures
	}
	wait := bound/2 + rand.N(bound/2)
	if r, ok := errors.AsType[*refusal](err); ok {
		wait += r.after
	}
	return min(wait, time.Minute)
}

// rest waits, at most until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// transport is Go's own, with connections for a claim, heartbeats and reports at once.
func transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}
}
