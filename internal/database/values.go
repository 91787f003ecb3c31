package database

import (
	"strings"
	"time"
)

// Sizes are the values, or rows, per statement: any number of them is cut into these, so that the prepared statements
// are few.
var Sizes = []int{500, 256, 128, 64, 32, 16, 8, 4, 2, 1}

// SizeFor is the smallest of Sizes that holds n, at most the largest.
func SizeFor(n int) int {
	best := Sizes[0]
	for _, s := range Sizes {
		if s >= n {
			best = s
		}
	}
	return best
}

// Marks are the places of n values: (?,?,?).
func Marks(n int) string { return "(" + strings.Repeat("?,", n-1) + "?)" }

// OrNull is a time as a statement's argument: NULL for the zero time.
func OrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC()
}

// OrZero is a time as a row has it: the zero time for NULL.
func OrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// BytesOrNull are bytes as a statement's argument: NULL for nil.
func BytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
