package chaos

import (
	"fmt"
	"time"
)

// A walk is a part of the system that chaos may visit: a fault, a habit of the clients, or a promise that the checker
// holds the servers to. Its name is what -known-red matches.
type walk string

const noRetention walk = "no retention"

// knownRed are the walks on which tierq is known to break a promise. A run leaves them out and says so. The commit that
// mends a defect deletes its line here: from then on every run of chaos walks there.
var knownRed = []struct {
	walk   walk
	reason string
}{
	{noRetention, "with a retention of 0 a late copy of a submit finds nothing to collide with, as DEPLOY.md says; " +
		"nothing outside of a server shows which submits it sent twice"},
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
