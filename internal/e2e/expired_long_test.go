//go:build long

package e2e

const expired, poisoned = 100_000, 10_000
