package httpapi

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// spend charges n requests to the caller's rate, and reports the rate in the answer's headers. The error is a 429.
// pass calls it before the body is read, so that a refusal costs next to nothing.
func (a *api) spend(c *gin.Context, n int) error {
	left := a.spent(c, n, Doors.Spend)
	if left.RetryIn <= 0 {
		return nil
	}
	return &problem{kind: rateLimited, detail: "you may make " + pace(left), retry: left.RetryIn}
}

// spendBatch charges the n entries of a batch, less the request that was charged already. The error is a 429, or a
// 413 for a batch that has more entries than the burst allows and would never pass.
func (a *api) spendBatch(c *gin.Context, n int) error {
	if n <= 1 {
		return nil
	}
	left := a.spent(c, n-1, Doors.SpendMore)
	switch {
	case left.RetryIn <= 0:
		return nil
	case n > left.Burst:
		return &problem{kind: payloadTooLarge,
			detail: fmt.Sprintf("%d entries count as %d requests, and you may make %s", n, n, pace(left))}
	}
	// The next try is charged as a request first, so it has to wait for one request more.
	return &problem{kind: rateLimited,
		detail: fmt.Sprintf("%d entries count as %d requests, and you may make %s", n, n, pace(left)),
		retry:  left.RetryIn + period(left)}
}

// listCost is the number of requests that a page of a list counts as. A page may read a thousand living jobs, which
// takes as much of Redis' time as 180 submits.
const listCost = 180

// spendList charges what a page of a list costs beyond one request.
func (a *api) spendList(c *gin.Context) error {
	left := a.spent(c, listCost, Doors.SpendCostly)
	if left.RetryIn <= 0 {
		return nil
	}
	detail := fmt.Sprintf(
		"a page of a list counts as %d requests, or as half of those at once, and you may make %s", listCost,
		pace(left),
	)
	return &problem{kind: rateLimited, detail: detail, retry: left.RetryIn + period(left)}
}

// spendIdempotency charges n Idempotency-Keys to the number that the caller may have at once. It is the last check
// before a submit, so that a submit refused for another reason is not charged. A repeat is charged too, although it
// leaves no new key behind.
func (a *api) spendIdempotency(c *gin.Context, n int) error {
	if n == 0 || a.Doors == nil {
		return nil
	}
	left := a.Doors.SpendIdempotency(c.Request.Context(), callerOf(c), n)
	if left.RetryIn <= 0 {
		return nil
	}
	detail := fmt.Sprintf("%d more Idempotency-Keys exceed the limit of %d for one API key: submit again later, "+
		"or without a key those jobs that may run twice", n, left.Burst)
	if n > left.Burst {
		return &problem{kind: payloadTooLarge, detail: detail}
	}
	return &problem{kind: rateLimited, detail: detail, retry: left.RetryIn}
}

// The delay of a 429. Without it, a caller who ignores refusals and asks again at once would keep the machine busy
// with refusing him. The delay grows with the number of refusals that wait, so that about a thousand of them leave
// per second. Above holdMost waiting refusals, a further one leaves at once. A random part of the delay keeps
// callers who were refused together from coming back together, which would delay other callers.
const (
	holdLeast = 100 * time.Millisecond
	holdLong  = time.Second
	holdMost  = 4096
)

// hold returns when the delay of a refusal is over, or its caller has left.
func (a *api) hold(ctx context.Context) {
	held := a.held.Add(1)
	defer a.held.Add(-1)
	if held > holdMost {
		return
	}
	long := min(max(holdLeast, time.Duration(held)*time.Millisecond), holdLong)
	timer := time.NewTimer(long + rand.N(long/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (a *api) spent(c *gin.Context, n int,
	spend func(Doors, context.Context, *job.Caller, int) job.Allowance) job.Allowance {
	if a.Doors == nil {
		return job.Allowance{}
	}
	left := spend(a.Doors, c.Request.Context(), callerOf(c), n)
	if left.Limited {
		sayRate(c.Writer.Header(), &left)
	}
	return left
}

func pace(left job.Allowance) string {
	return strconv.FormatFloat(left.Rate, 'g', 6, 64) + " requests a second, " + strconv.Itoa(left.Burst) +
		" of them at once"
}

// maxWindow bounds the times in headers, in seconds: 31 years.
const maxWindow = 1e9

// period returns the time in which a rate allows one request more.
func period(left job.Allowance) time.Duration {
	return time.Duration(min(1/left.Rate, maxWindow) * float64(time.Second))
}

// sayRate writes the headers of draft-ietf-httpapi-ratelimit-headers-10. RateLimit-Policy: q requests at once,
// which are available again after w seconds. RateLimit: r of them are left, and t seconds from now there is one
// more.
func sayRate(h http.Header, left *job.Allowance) {
	window := int64(max(math.Ceil(min(float64(left.Burst)/left.Rate, maxWindow)), 1))
	more := left.Reset - time.Duration(min(float64(left.Burst-left.Remaining-1)/left.Rate, maxWindow)*float64(time.Second))
	wait := int64(math.Ceil(min(max(more, 0), left.Reset).Seconds()))
	h["Ratelimit-Policy"] = []string{field("q", int64(left.Burst), "w", window)}
	h["Ratelimit"] = []string{field("r", int64(left.Remaining), "t", wait)}
}

// field formats an item of a structured field that has two parameters.
func field(one string, first int64, two string, second int64) string {
	text := append(make([]byte, 0, 48), `"requests";`...)
	text = append(append(text, one...), '=')
	text = strconv.AppendInt(text, first, 10)
	text = append(append(append(text, ';'), two...), '=')
	return string(strconv.AppendInt(text, second, 10))
}
