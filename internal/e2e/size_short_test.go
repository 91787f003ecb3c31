//go:build !long

package e2e

import "time"

// The sizes of the short suite; size_long_test.go has larger ones.
const (
	embeddedKills   = 10               // in the test that kills an embedded server repeatedly
	firstStartKills = 6                // in the tests of a server's first start, on each database
	manyJobs        = 1_000            // through three processes, and through the SDK with dropped replies
	uniqueJournal   = "off"            // in the race for unique keys; else a killed submit's row is settled after 10 s
	libraryJobs     = 2_000            // through a program with each worker library, which is killed in the middle
	scheduleSpan    = 12 * time.Second // of the schedules of every second
	batchMembers    = 400              // of the batch whose servers are killed
	importRows      = 300              // of the example of a batch
)
