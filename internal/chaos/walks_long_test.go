//go:build long

package chaos

import "time"

// insideFor is how long TestEmbedded has faults.
const insideFor = 120 * time.Second
