//go:build !long

package e2e

import "time"

// The short suite shows that the bounds hold; backpressure_long_test.go shows that they still hold after a longer
// time.
const (
	overloadFor = 3 * time.Second
	slowFor     = 2 * time.Second
	stalls      = 2
)
