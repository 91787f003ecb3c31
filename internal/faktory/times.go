//go:build !failpoint

package faktory

import "time"

const (
	leaseFor    = 30 * time.Second
	extendEvery = 5 * time.Second
	// graceTime is for how long the leases of a worker live on that has no connection any more: it may come back.
	graceTime = 60 * time.Second
)
