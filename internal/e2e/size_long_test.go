//go:build long

package e2e

const (
	embeddedKills   = 50
	firstStartKills = 100
	manyJobs        = 10_000
	libraryJobs     = 10_000
)
