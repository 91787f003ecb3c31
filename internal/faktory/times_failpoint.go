//go:build failpoint

package faktory

import "time"

// These times are short, so that a chaos run of half a minute sees leases that run out.
const (
	leaseFor    = 5 * time.Second
	extendEvery = time.Second
	graceTime   = time.Second
)
