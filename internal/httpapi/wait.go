package httpapi

import (
	"context"
	"strconv"
	"strings"
	"sync"
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

// waitPreferred reads wait out of Prefer (RFC 7240): the first one counts, what cannot be read is passed over, more
// than the most is the most.
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

// await holds a poll until the job has ended or, with tags the client knows, until it has another one. When the time is
// over, and when the process drains, it answers with what there is. Somebody else's job is not waited for.
func (a *api) await(c *gin.Context, q pollQuery, known []string) (job.Job, error) {
	if err := a.known(c, q.id); err != nil {
		return job.Job{}, err
	}
	leave, err := a.enter(c)
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
// They are operators', and have room of their own: whoever waits for jobs shuts none of them out.
const maxStreams = 256

// enterStream counts one stream of everything.
func (a *api) enterStream() (leave func(), err error) {
	if a.streams.Add(1) > maxStreams {
		a.streams.Add(-1)
		return nil, &problem{kind: systemUnhealthy, detail: "too many streams of everything are open here already"}
	}
	return func() { a.streams.Add(-1) }, nil
}

// enter counts one who waits, long, for as long as it does. There is room for so many; and a caller gets one place more
// only while there are more left than he has, so that he may have half of an empty room and whoever comes after him
// always finds a place.
func (a *api) enter(c *gin.Context) (leave func(), err error) {
	who := waiterOf(callerOf(c))
	free := int64(a.Waiting) - a.waiting.Add(1) + 1
	own, entered := a.waits.enter(who, free)
	leave = func() {
		a.waiting.Add(-1)
		if entered {
			a.waits.leave(who)
		}
	}
	switch {
	case free <= 0:
		leave()
		return nil, &problem{kind: systemUnhealthy, detail: "too many requests wait here already; poll without waiting"}
	case !entered:
		leave()
		return nil, &problem{kind: systemUnhealthy,
			detail: "too many requests of yours wait here already, " + strconv.FormatInt(own, 10) + "; poll without waiting"}
	}
	return leave, nil
}

// waiterOf is who has a share of the room to wait in: a key, or the address of whoever shows none. "" is nobody: an
// open server's own machine may have it all.
func waiterOf(caller *job.Caller) string {
	switch owner := caller.Owner(); {
	case owner != "":
		return owner
	case caller.Open && (!caller.Address.IsValid() || caller.Address.IsLoopback()):
		return ""
	case !caller.Address.IsValid():
		return "none"
	}
	return networkOf(caller.Address).String()
}

// waiters are how many wait, by who they are.
type waiters struct {
	mu sync.Mutex
	of map[string]int64
}

// enter counts one more if its caller has fewer than are free, and says how many he had. Nobody, "", is not counted.
func (w *waiters) enter(who string, free int64) (own int64, entered bool) {
	if who == "" {
		return 0, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]int64{}
	}
	own = w.of[who]
	if own >= free {
		return own, false
	}
	w.of[who]++
	return own, true
}

// leave takes one back. Nobody, "", was not counted.
func (w *waiters) leave(who string) {
	if who == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[who]--; w.of[who] <= 0 {
		delete(w.of, who)
	}
}
