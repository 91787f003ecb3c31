//go:build !long

package queue_test

// The sizes of the short suite; size_long_test.go has those of the long one.
const (
	stories    = "20" // of TestModel, on each backend
	racyRounds = 60   // of TestReclaimRacesHeartbeat
	mutated    = 5    // one in so many mutations is tested
)
