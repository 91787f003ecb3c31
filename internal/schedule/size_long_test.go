//go:build long

package schedule

// See size_short_test.go.
const wholeYears = true
