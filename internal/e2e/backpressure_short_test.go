//go:build !long

package e2e

import "time"

// The short suite shows that the bounds hold; backpressure_long_test.go that they go on holding.
const (
	overloadFor = 3 * time.Second
	slowFor     = 2 * time.Second
	stalls      = 2
)
