//go:build !long

package e2e

// embeddedKills is how often the loop kills the server. embedded_kill_long_test.go has fifty.
const embeddedKills = 15
