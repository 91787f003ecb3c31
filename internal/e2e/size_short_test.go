//go:build !long

package e2e

// What a commit can afford; size_long_test.go has more.
const (
	embeddedKills = 10    // of the loop that kills an embedded server
	manyJobs      = 1_500 // through three processes, and through the SDK while replies are lost
)
