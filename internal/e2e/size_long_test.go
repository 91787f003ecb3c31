//go:build long

package e2e

import "time"

const (
	embeddedKills   = 50
	firstStartKills = 100
	manyJobs        = 10_000
	uniqueJournal   = "on"
	libraryJobs     = 10_000
	scheduleSpan    = 5 * time.Minute // of the schedules of every second
	batchMembers    = 5_000
	importRows      = 10_000
)
