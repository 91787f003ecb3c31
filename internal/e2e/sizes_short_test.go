//go:build !long

package e2e

// What a commit can afford; sizes_long_test.go has more.
const (
	embeddedKills = 15    // of the loop that kills an embedded server
	manyJobs      = 3_000 // through three processes, and through the SDK while replies are lost
)
