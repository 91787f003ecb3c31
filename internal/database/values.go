package database

import (
	"strings"
	"time"
)

// Sizes are the numbers of values, or rows, that one statement takes. Any number is split into these, so that
// there are few prepared statements.
var Sizes = []int{500, 256, 128, 64, 32, 16, 8, 4, 2, 1}

// SizeFor returns the smallest of Sizes that holds n, at most the largest.
func SizeFor(n int) int {
	best := Sizes[0]
	for _, s := range Sizes {
		if s >= n {
			best = s
		}
	}
	return best
}

// Marks returns the placeholders of n values: (?,?,?).
func Marks(n int) string { return "(" + strings.Repeat("?,", n-1) + "?)" }

// OrNull returns a time as an argument of a statement: NULL for the zero time.
func OrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC()
}

// OrZero returns the time of a row: the zero time for NULL.
func OrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// BytesOrNull returns bytes as an argument of a statement: NULL for nil.
func BytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}
