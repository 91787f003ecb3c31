package chaos

import (
	"fmt"
	"time"
)

// A walk is a part of the system that chaos may visit: a fault, a habit of the clients, or a promise that the checker
// holds the servers to. Its name is what -known-red matches.
type walk string

const (
	embeddedEnds   walk = "embedded ends"
	embeddedLives  walk = "embedded requeues shown"
	lostCancels    walk = "cancels of requeued jobs"
	requeuesTold   walk = "requeues told"
	standingLimit  walk = "a limit that stays"
	lostPlans      walk = "plans after a loss"
	stalledRequeue walk = "a stalled requeue"
	noRetention    walk = "no retention"
)

// knownRed are the walks on which tierq is known to break a promise. A run leaves them out and says so. The commit that
// mends a defect deletes its line here: from then on every run of chaos walks there.
var knownRed = []struct {
	walk   walk
	reason string
}{
	{embeddedEnds, "an embedded server shows an end before SQLite has it, and takes it back after a kill"},
	{embeddedLives, "after a kill an embedded server shows the dead generation until the requeue's promise is kept"},
	{lostCancels, "after a loss of Redis, or a kill of an embedded server, a requeued job runs despite a cancel's 200"},
	{requeuesTold, "after a requeue's 202 polls show FAILED until the promise is kept"},
	{standingLimit, "a full Redis refuses the CALLBACK jobs that the acknowledge waits for, and frees nothing"},
	{lostPlans, "plans live in Redis alone: a loss of it, or a restart of an embedded server, brings the defaults back"},
	{stalledRequeue, "a server that stood still between a requeue's promise and its script runs a forgotten life again"},
	{noRetention, "with a retention of 0 a late copy of a submit finds nothing to collide with"},
}

// walks says whether this run goes there.
func (o *Options) walks(w walk) bool {
	for _, red := range knownRed {
		if red.walk == w {
			return o.KnownRed != nil && o.KnownRed.MatchString(string(w))
		}
	}
	return true
}

// leftOut are the lines about what this run does not walk.
func (o *Options) leftOut() (lines []string) {
	for _, red := range knownRed {
		if !o.walks(red.walk) {
			lines = append(lines, fmt.Sprintf("%s: %s", red.walk, red.reason))
		}
	}
	return lines
}

// keyLife is how long the servers keep an Idempotency-Key: the least that they may be set to.
const keyLife = time.Minute
