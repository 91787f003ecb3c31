package client

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
)

// outside is the part of the history that the outsiders write.
type outside struct {
	runs  []check.Run
	calls []check.WorkerCall
}

// OutsideRuns returns the runs of the workers of other programs, and their calls.
func (h *history) OutsideRuns() ([]check.Run, []check.WorkerCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.outside.runs), slices.Clone(h.outside.calls)
}

// begin records that a worker has a job, and gives the lease its number.
func (h *history) begin(t *task, r *check.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.run, t.lease = len(h.outside.runs), len(h.outside.runs)+1
	r.Lease = t.lease
	h.outside.runs = append(h.outside.runs, *r)
	h.write(line{Ran: r})
}

// end records that a worker has stopped its work on a job: with a result, or without one.
func (h *history) end(t *task, result string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.outside.runs[t.run]
	r.Ended, r.Result = time.Now(), result
	h.write(line{Ran: r})
}

// letGo records until when the servers may extend a lease whose worker has closed its last connection.
func (h *history) letGo(t *task, lives time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.outside.runs[t.run]
	r.Lives = lives
	h.write(line{Ran: r})
}

// told records a call about a lease. A heartbeat that was answered with OK makes the lease longer.
func (h *history) told(t *task, c *check.WorkerCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.outside.runs[t.run]
	c.ID, c.Generation, c.Attempt, c.Worker, c.Lease = r.ID, r.Generation, r.Attempt, r.Worker, r.Lease
	c.Answered = time.Now()
	if until := c.Sent.Add(c.For); c.For > 0 && until.After(r.Held) {
		r.Held = until
	}
	h.outside.calls = append(h.outside.calls, *c)
	h.write(line{Told: c})
}
