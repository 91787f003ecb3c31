//go:build long

package chaos

import "time"

const tried = "."

// insideFor is how long TestEmbedded has faults.
const insideFor = 120 * time.Second
