package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The time for which the server is asked to hold a poll's answer (proxies often cut connections at a minute), and
// the longest pause between polls that it does not hold.
const (
	holdPoll  = 25 * time.Second
	pausePoll = 5 * time.Second
)

// Poll returns the state of a job. It returns ErrNotFound if the job does not exist or belongs to another caller.
func (c *Client) Poll(ctx context.Context, jobID string) (Poll, error) {
	p, _, err := c.poll(ctx, jobID, "", 0)
	return p, err
}

// Wait returns a job when it has COMPLETED. For a FAILED job the error is a *JobFailedError, for a CANCELLED one a
// *JobCancelledError, for an EXPIRED one a *JobExpiredError. Wait waits on the server's side until the job or ctx ends,
// and learns of the job's end within milliseconds. If an outage outlasts the tries of one call, Wait returns
// ErrUnavailable. The caller may wait again.
func (c *Client) Wait(ctx context.Context, jobID string) (Poll, error) {
	return c.wait(ctx, jobID, nil)
}

// wait polls until the job ends. With a non-nil tell it reports every change.
func (c *Client) wait(ctx context.Context, jobID string, tell *teller) (Poll, error) {
	var last Poll
	if tell != nil {
		last = tell.last
	}
	for idle := 0; ; {
		hold := holdPoll
		if left, bounded := timeLeft(ctx); bounded {
			hold = min(hold, max(left, time.Second))
		}
		tag := ""
		if tell != nil {
			tag = tell.tag // with a tag the server answers at the next change
		}
		if tell != nil && tag == "" {
			hold = 0 // without a tag the server would answer only at the job's end
		}
		asked := time.Now()
		p, found, err := c.poll(ctx, jobID, tag, hold)
		if e, ok := errors.AsType[*Error](err); ok && hold > 0 && e.Status == http.StatusServiceUnavailable &&
			ctx.Err() == nil {
			p, found, err = c.poll(ctx, jobID, tag, 0) // the server may have no room for waiting polls
		}
		if err != nil {
			return last, err
		}
		changed := found && !same(&p, &last)
		if changed {
			last = p
		}
		if changed && tell != nil {
			tell.tell(p)
		}
		if last.Status.Ended() {
			return last, ending(&last)
		}
		if changed || hold > 0 && time.Since(asked) >= hold/2 {
			idle = 0
			continue
		}
		// The server is draining, or does not hold answers.
		idle++
		bound := min(c.policy.bound(idle), pausePoll)
		if err := sleep(ctx, bound/2+c.draw(bound/2)); err != nil {
			return last, fmt.Errorf("wait: %w", err)
		}
	}
}

// same reports whether two polls show the same state of a job, apart from its place in the queue.
func same(a, b *Poll) bool {
	return a.JobID == b.JobID && a.Status == b.Status && a.RetryCount == b.RetryCount && weakTag(a.ETag) == weakTag(b.ETag)
}

// poll asks once. With a tag, found is false, and the Poll empty, if the job has not changed since that tag.
func (c *Client) poll(ctx context.Context, jobID, tag string, hold time.Duration) (p Poll, found bool, err error) {
	if err := checkID(jobID); err != nil {
		return p, false, fmt.Errorf("poll: %w", err)
	}
	k := call{verb: "poll", method: http.MethodGet, path: "result/poll", query: url.Values{"jobId": {jobID}},
		header: http.Header{}, hold: hold}
	if hold > 0 {
		k.header.Set("Prefer", "wait="+strconv.Itoa(int(hold/time.Second)))
	}
	if tag != "" {
		k.header.Set("If-None-Match", tag)
	}
	a, err := c.do(ctx, k)
	if err != nil || a.status == http.StatusNotModified {
		return p, false, err
	}
	var got struct {
		Data Poll `json:"apiResponseData"`
	}
	if err := understand(a, &k, &got); err != nil {
		return p, false, err
	}
	if p = got.Data; p.JobID == "" {
		return Poll{}, false, fmt.Errorf("poll: %w", &Error{Status: a.status, Err: errNoJob})
	}
	p.Result, p.ETag = present(p.Result), a.header.Get("ETag")
	return p, true, nil
}

// checkID refuses a text that is not a job id before it becomes part of a path.
func checkID(id string) error {
	ok := len(id) == 36
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			ok = c == '-'
			continue
		}
		ok = '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
	}
	if !ok {
		return fmt.Errorf("%w: %q is not a job id", ErrInvalid, id)
	}
	return nil
}
