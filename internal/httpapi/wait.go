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

// waitAsked parses the parameter wait: 20s, 1500ms, 1m, or a number of seconds.
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

// waitPreferred returns the wait in the header Prefer (RFC 7240). Only the first one counts; it is 0 if it cannot
// be read, and at most maxWait.
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

// await holds a poll until the job has ended or, if the client sent tags, until the job has another tag. When
// q.wait is over, and when the process drains, it returns the job's present state. It does not wait for another
// caller's job.
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

// maxStreams bounds the streams of all changes. Each may hold a thousand events that its reader has not taken. Only
// operators open them, and they are counted apart from other waits, so that callers who wait for jobs cannot shut
// operators out.
const maxStreams = 256

// enterStream counts a stream of all changes until leave is called.
func (a *api) enterStream() (leave func(), err error) {
	if a.streams.Add(1) > maxStreams {
		a.streams.Add(-1)
		return nil, &problem{kind: systemUnhealthy, detail: "too many streams of everything are open here already"}
	}
	return func() { a.streams.Add(-1) }, nil
}

// enter counts a waiting request until leave is called. The number of places is bounded. A caller gets another
// place only while more places are free than he has: one caller may take half of all places, and the next caller
// always finds one.
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

// waiterOf returns the name under which a caller's waits are counted: his key's id, or without a key the network of
// his address. On an open server it returns "" for callers on this machine, whose waits are not bounded by a share.
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

// waiters counts the waiting requests of each caller.
type waiters struct {
	mu sync.Mutex
	of map[string]int64
}

// enter counts one more wait under the name who, if fewer than free are counted under it. own is the number before.
// It does not count the name "".
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

// leave takes back one wait under the name who. It ignores the name "".
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
