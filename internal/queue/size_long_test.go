//go:build long

package queue_test

const (
	stories    = "120"
	racyRounds = 240
	mutated    = 1
)
