//go:build long

package chaos

import "time"

const tried = "."

// insideFor is how long TestEmbedded has faults.
const insideFor = 120 * time.Second

// mutationsFor is how long all mutations may take.
const mutationsFor = 30 * time.Minute
