//go:build !long

package chaos

import "time"

const tried = "two-look|acknowledge before"

// insideFor is how long TestEmbedded has faults.
const insideFor = 6 * time.Second

// mutationsFor is how long all mutations may take.
const mutationsFor = 15 * time.Minute
