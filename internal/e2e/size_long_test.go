//go:build long

package e2e

const (
	embeddedKills   = 50
	firstStartKills = 100
	manyJobs        = 10_000
	uniqueJournal   = "on"
	libraryJobs     = 10_000
)
