//go:build !long

package e2e

// What a commit can afford; size_long_test.go has more.
const (
	embeddedKills   = 10    // of the loop that kills an embedded server
	firstStartKills = 8     // of a server's first start, on each database
	manyJobs        = 1_500 // through three processes, and through the SDK while replies are lost
)
