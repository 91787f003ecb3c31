package httpapi

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// maxWait bounds how long an answer is held.
const maxWait = 60 * time.Second

// waitAsked reads ?wait=: 20s, 1500ms, 1m, or a number of seconds.
func waitAsked(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil {
		n, notWhole := strconv.ParseUint(value, 10, 31)
		d, err = time.Duration(n)*time.Second, notWhole
	}
	if err != nil || d < 0 || d > maxWait {
		return 0, reason("must be a time such as 20s, at most 60s")
	}
	return d, nil
}

// waitPreferred reads wait out of Prefer (RFC 7240): the first one counts, what cannot be read is passed over, more than the most is the
// most.
func waitPreferred(headers []string) time.Duration {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			name, value, _ := strings.Cut(one, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value, _, _ = strings.Cut(value, ";")
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0
			}
			return min(time.Duration(n)*time.Second, maxWait)
		}
	}
	return 0
}

// await holds a poll until the job has ended or, with tags the client knows, until it has another one. When the time is over, and when the
// process drains, it answers with what there is. Somebody else's job is not waited for.
func (a *api) await(c *gin.Context, q pollQuery, known []string) (job.Job, error) {
	if err := a.known(c, q.id); err != nil {
		return job.Job{}, err
	}
	leave, err := a.enter()
	if err != nil {
		return job.Job{}, err
	}
	defer leave()
	extend(c, q.wait)
	ctx, cancel := context.WithTimeout(c.Request.Context(), q.wait)
	defer cancel()
	if len(known) == 0 {
		return a.Wait.Await(ctx, q.id, nil)
	}
	return a.Wait.Await(ctx, q.id, func(j *job.Job) bool { return j.Status.Ended() || !matches(known, etag(j)) })
}

// maxStreams bounds the streams of everything: each may have a thousand events before it that its reader has not taken.
const maxStreams = 256

// enterStream is enter for a stream of everything, of which there are fewer.
func (a *api) enterStream() (func(), error) {
	if a.streams.Add(1) > maxStreams {
		a.streams.Add(-1)
		return nil, &problem{kind: systemUnhealthy, detail: "too many streams of everything are open here already"}
	}
	leave, err := a.enter()
	if err != nil {
		a.streams.Add(-1)
		return nil, err
	}
	return func() { leave(); a.streams.Add(-1) }, nil
}

// enter counts one who waits, long, for as long as it does: there is room for so many.
func (a *api) enter() (leave func(), err error) {
	if a.waiting.Add(1) > int64(a.Waiting) {
		a.waiting.Add(-1)
		return nil, &problem{kind: systemUnhealthy, detail: "too many requests wait here already; poll without waiting"}
	}
	return func() { a.waiting.Add(-1) }, nil
}
