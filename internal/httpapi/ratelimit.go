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

// spend takes n requests from the rate of the request's caller, and says in the answer's headers how that stands; its
// error is the 429. It is asked before a body is read: a refusal costs next to nothing.
func (a *api) spend(c *gin.Context, n int) error {
	left := a.spent(c, n, Doors.Spend)
	if left.RetryIn <= 0 {
		return nil
	}
	return &problem{kind: rateLimited, detail: "you may make " + pace(left), retry: left.RetryIn}
}

// spendBatch takes what a batch of n entries costs more than the request that brought it. A batch that no wait would
// let pass is too large.
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
	// Who comes again pays for the request again.
	return &problem{kind: rateLimited,
		detail: fmt.Sprintf("%d entries count as %d requests, and you may make %s", n, n, pace(left)),
		retry:  left.RetryIn + period(left)}
}

// listCost is what a page of a list counts as: it may look at a thousand living jobs, which takes as much of Redis'
// time as 180 submits.
const listCost = 180

// spendList takes what a page of a list costs more than another request.
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

// spendIdempotency takes the Idempotency-Keys of n submits from those that the caller may have stand at once. It is
// asked last before a submit, so that a refused one takes none; a repeat, which leaves no new key behind, counts too.
func (a *api) spendIdempotency(c *gin.Context, n int) error {
	if n == 0 || a.Doors == nil {
		return nil
	}
	left := a.Doors.SpendIdempotency(c.Request.Context(), callerOf(c), n)
	if left.RetryIn <= 0 {
		return nil
	}
	detail := fmt.Sprintf("%d submits with an Idempotency-Key are more than stand at once for one API key, %d: come "+
		"again later, "+
		"or submit without it what may run twice", n, left.Burst)
	if n > left.Burst {
		return &problem{kind: payloadTooLarge, detail: detail}
	}
	return &problem{kind: rateLimited, detail: detail, retry: left.RetryIn}
}

// Who is refused for his rate hears of it a moment later: a caller who takes no notice and asks at once again would
// otherwise have the machine busy with refusing him. The more of them wait, the longer, so that about a thousand
// refusals leave in a second; one more than holdMost does not wait. Callers who were refused together do not hear of it
// together: they would come back together, and whoever else asks just then would wait for them.
const (
	holdLeast = 100 * time.Millisecond
	holdLong  = time.Second
	holdMost  = 4096
)

// hold returns when a refusal may leave, or its caller has left.
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

// maxWindow bounds what a header says, in seconds: 31 years.
const maxWindow = 1e9

// period is how long one request more takes to become possible.
func period(left job.Allowance) time.Duration {
	return time.Duration(min(1/left.Rate, maxWindow) * float64(time.Second))
}

// sayRate writes the fields of draft-ietf-httpapi-ratelimit-headers-10: q requests at once, which are there again after
// w seconds; r of them are left, and t seconds from now there is one more.
func sayRate(h http.Header, left *job.Allowance) {
	window := int64(max(math.Ceil(min(float64(left.Burst)/left.Rate, maxWindow)), 1))
	more := left.Reset - time.Duration(min(float64(left.Burst-left.Remaining-1)/left.Rate, maxWindow)*float64(time.Second))
	wait := int64(math.Ceil(min(max(more, 0), left.Reset).Seconds()))
	h["Ratelimit-Policy"] = []string{field("q", int64(left.Burst), "w", window)}
	h["Ratelimit"] = []string{field("r", int64(left.Remaining), "t", wait)}
}

// field is an item of a structured field with two parameters.
func field(one string, first int64, two string, second int64) string {
	text := append(make([]byte, 0, 48), `"requests";`...)
	text = append(append(text, one...), '=')
	text = strconv.AppendInt(text, first, 10)
	text = append(append(append(text, ';'), two...), '=')
	return string(strconv.AppendInt(text, second, 10))
}
