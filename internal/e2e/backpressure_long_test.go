//go:build long

package e2e

import "time"

const (
	overloadFor = 2 * time.Minute
	slowFor     = time.Minute
	stalls      = 10
)
