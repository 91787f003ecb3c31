package chaos

import (
	"fmt"
	"time"
)

// A walk is a part of the system that chaos may exercise: a fault, a habit of the clients, or a promise that the
// checker holds the servers to. The flag -known-red matches its name.
type walk string

const (
	noRetention walk = "no retention"
)

// knownRed are the walks on which tierq is known to break a promise. A run leaves them out and reports that. The
// commit that repairs a defect deletes its entry here, and from then on every run makes that walk.
var knownRed = []struct {
	walk   walk
	reason string
}{
	{noRetention, "with a retention of 0 a late copy of a submit finds nothing to collide with, as DEPLOY.md says; " +
		"nothing outside of a server shows which submits it sent twice"},
}

// walks says whether this run makes a walk.
func (o *Options) walks(w walk) bool {
	for _, red := range knownRed {
		if red.walk == w {
			return o.KnownRed != nil && o.KnownRed.MatchString(string(w))
		}
	}
	return true
}

// leftOut returns a line for each walk that this run leaves out.
func (o *Options) leftOut() (lines []string) {
	for _, red := range knownRed {
		if !o.walks(red.walk) {
			lines = append(lines, fmt.Sprintf("%s: %s", red.walk, red.reason))
		}
	}
	return lines
}

// keyLife is how long the servers keep an Idempotency-Key. It is the smallest value that the setting allows.
const keyLife = time.Minute
