//go:build long

package e2e

const (
	embeddedKills = 50
	manyJobs      = 10_000
)
