package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Pusher posts the jobs of queues that push, whatever their types.
type Pusher struct {
	out   outgoing
	limit int
}

// NewPusher makes a Pusher. limit is how many bytes a result may have.
func NewPusher(s Sender, limit int) Pusher { return Pusher{outgoing{s}, limit} }

// Push posts a job's payload to its queue's URL, as a Standard Webhooks message of the queue, see job.PushOwner. The
// context is that of a handler: handler.Running returns the job. lease is the sealed lease that the receiver gets; ""
// = none, and then the receiver may not answer 202. No error of a call is permanent, because an operator can change
// the URL.
func (p Pusher) Push(ctx context.Context, to job.Push, l *job.WorkerLease, lease string) (job.PushAnswer, error) {
	run, _ := handler.Running(ctx)
	h := http.Header{}
	h.Set("X-Job-Type", l.Type)
	h.Set("X-Job-Tier", string(l.Tier))
	h.Set("X-Job-Queue", l.QueueName())
	h.Set("X-Job-Deadline", *stamp(l.StartedAt.Add(l.MaxRun)))
	if lease != "" {
		h.Set("X-Job-Lease", lease)
		h.Set("X-Job-Lease-Seconds", strconv.Itoa(int(l.For/time.Second)))
	}
	body := l.Payload
	if len(body) == 0 {
		body = []byte("null")
	}
	answer, err := p.out.message(ctx, Request{
		URL: to.URL, Header: h, Body: body, MessageID: messageID(run), Owner: job.PushOwner(l.QueueName()),
		Timeout: max(time.Until(l.Ends), time.Millisecond), MaxBody: int64(p.limit),
	})
	if err != nil {
		return job.PushAnswer{}, errors.New(err.Error())
	}
	return pushed(to, answer, lease != "", time.Now())
}

// pushed returns what an answer means for the job:
//
//	202                 the receiver ends the job later, if mayTake
//	other 2xx           completed with the body as the result
//	429, 503            later, with a Retry-After; without one, as 5xx
//	408, 425, 3xx, 5xx  a failed attempt; redirects are not followed
//	other 4xx           permanent if the queue says so, else a failed attempt
func pushed(to job.Push, a Response, mayTake bool, now time.Time) (job.PushAnswer, error) {
	host := hostOf(to.URL)
	err := fmt.Errorf("%s answered %d", host, a.Status)
	switch {
	case a.Status == http.StatusAccepted && mayTake:
		return job.PushAnswer{Takes: true}, nil
	case a.Status == http.StatusAccepted:
		return job.PushAnswer{}, fmt.Errorf("%w: the queue's push names no key that could end the job later", err)
	case a.Status >= 200 && a.Status <= 299:
		return resultOf(host, a)
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		if wait, ok := asked(a.Header, now); ok {
			return job.PushAnswer{}, handler.LaterBecause(wait, err.Error())
		}
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly:
	case a.Status >= 400 && a.Status <= 499 && to.Permanent4xx:
		return job.PushAnswer{}, handler.Permanent(err)
	}
	return job.PushAnswer{}, err
}

// resultOf makes a job's result of an answer's body: JSON as it is, without its white space; null for an empty body;
// any other text as a JSON string, and JSON that is nested too deep as well.
func resultOf(host string, a Response) (job.PushAnswer, error) {
	body := bytes.TrimSpace(a.Body)
	switch {
	case a.Truncated:
		return job.PushAnswer{Result: body, Cut: true}, nil
	case len(body) == 0:
		return job.PushAnswer{Result: []byte("null")}, nil
	case !utf8.Valid(body):
		return job.PushAnswer{}, fmt.Errorf("%s answered %d with a body that is not UTF-8", host, a.Status)
	}
	var compact bytes.Buffer
	if handler.Nesting(body) <= handler.MaxNesting && json.Compact(&compact, body) == nil {
		return job.PushAnswer{Result: compact.Bytes()}, nil
	}
	text, _ := json.Marshal(string(body)) // a string: this cannot fail
	return job.PushAnswer{Result: text}, nil
}
