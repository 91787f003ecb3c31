//go:build !long

package e2e

// In the short suite the backlog is a tenth; expired_long_test.go has all of it.
const expired, poisoned = 9_000, 900
