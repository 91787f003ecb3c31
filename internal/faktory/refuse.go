package faktory

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// refusal is an error whose text is for the client.
type refusal string

func (r refusal) Error() string { return string(r) }

// notAllowed is what a key is told that may not do something.
const notAllowed = refusal("not allowed for this key")

// refused has what clients are told of the errors of other rooms.
var refused = []struct {
	err   error
	text  string
	later bool // the text ends with when to try again
}{
	{job.ErrUnauthorized, "Invalid password", false},
	{job.ErrNoGateway, "this server has no TIERQ_GATEWAY_SECRET, so no key opens the gateway", false},
	{job.ErrForbidden, string(notAllowed), false},
	{job.ErrRateLimited, "too many requests", true},
	{job.ErrQuota, "this key has as many jobs as it may have", true},
	{job.ErrQueueFull, "queue is full", true},
	{job.ErrFateUnknown, "outcome unknown, the job may have been accepted", false},
	{job.ErrAmbiguous, "outcome unknown, it may have been done", false},
	{job.ErrUnhealthy, "unavailable", true},
	{job.ErrUnavailable, "unavailable", true},
	{context.DeadlineExceeded, "unavailable", true},
	{context.Canceled, "shutdown in progress", false},
	{job.ErrUnknownQueue, "no such queue", false},
	{job.ErrQueueInUse, "the queue has jobs", false},
	{job.ErrUnknownTier, "no such tier", false},
	{job.ErrBadTiers, "this key's tiers cannot be fetched together", false},
}

// reasonOf returns what a client is told of an error, "" for an error that is not for clients.
func reasonOf(err error) string {
	var own refusal
	if errors.As(err, &own) {
		return string(own)
	}
	if errors.Is(err, job.ErrBadQueue) {
		return err.Error()
	}
	for _, row := range refused {
		if errors.Is(err, row.err) {
			if row.later {
				return row.text + ", try again in " + strconv.Itoa(secondsOf(err)) + " s"
			}
			return row.text
		}
	}
	return ""
}

// secondsOf returns after how many seconds a refused call may pass.
func secondsOf(err error) int {
	var refusal interface{ RetryIn() time.Duration }
	if !errors.As(err, &refusal) {
		return 1
	}
	return max(1, int((refusal.RetryIn()+time.Second-1)/time.Second))
}

// refuse writes the error of a command.
func (c *conn) refuse(err error) error {
	text := reasonOf(err)
	if text == "" {
		c.server.Log.Error("a command of a Faktory client failed", "err", err)
		text = "internal error"
	}
	return c.fail(text)
}
