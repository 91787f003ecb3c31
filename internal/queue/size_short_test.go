//go:build !long

package queue_test

// What a commit can afford; size_long_test.go has more.
const (
	stories    = "20" // of TestModel, on each backend
	racyRounds = 60   // of TestReclaimRacesHeartbeat
	mutated    = 5    // of so many mutations one is told
)
