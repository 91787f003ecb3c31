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

// How long the server is asked to hold a poll's answer (proxies like to cut at a minute), and the longest pause between
// polls that it does not hold.
const (
	holdPoll  = 25 * time.Second
	pausePoll = 5 * time.Second
)

// Poll asks how a job stands: ErrNotFound if there is no such job, or if it is another caller's.
func (c *Client) Poll(ctx context.Context, jobID string) (Poll, error) {
	p, _, err := c.poll(ctx, jobID, "", 0)
	return p, err
}

// Wait returns a job when it has COMPLETED. For one that FAILED the error is a *JobFailedError, for one that was
// CANCELLED a *JobCancelledError. It waits as long as ctx lets it, on the server's side: a job's end is told within
// milliseconds. A server that stays away for longer than the tries of one call ends it with ErrUnavailable; waiting
// again is always possible.
func (c *Client) Wait(ctx context.Context, jobID string) (Poll, error) {
	return c.wait(ctx, jobID, nil)
}

// wait polls until the job ends and tells of every change, if somebody wants to hear of them.
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
			tag = tell.tag // then the server answers at the next change
		}
		if tell != nil && tag == "" {
			hold = 0 // it would answer at the end only
		}
		asked := time.Now()
		p, found, err := c.poll(ctx, jobID, tag, hold)
		if e, ok := errors.AsType[*Error](err); ok && hold > 0 && e.Status == http.StatusServiceUnavailable &&
			ctx.Err() == nil {
			p, found, err = c.poll(ctx, jobID, tag, 0) // it may have no room left for those who wait
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
		// A server that is draining, or one that does not hold answers.
		idle++
		bound := min(c.policy.bound(idle), pausePoll)
		if err := sleep(ctx, bound/2+c.draw(bound/2)); err != nil {
			return last, fmt.Errorf("wait: %w", err)
		}
	}
}

// same reports whether two polls tell the same of a job, but for its place in the queue.
func same(a, b *Poll) bool {
	return a.JobID == b.JobID && a.Status == b.Status && a.RetryCount == b.RetryCount && weakTag(a.ETag) == weakTag(b.ETag)
}

// poll asks once. With a tag, found is false, and the Poll empty, if the job still is as it was then.
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

// checkID refuses what is not a job id before it becomes part of a path.
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
