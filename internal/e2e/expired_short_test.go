//go:build !long

package e2e

// In the short suite the backlog is a tenth of that in expired_long_test.go.
const expired, poisoned = 9_000, 900
