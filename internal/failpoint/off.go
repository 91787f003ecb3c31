//go:build !failpoint

package failpoint

import "github.com/tierq/tierq/internal/job"

// Enabled says whether this build has failpoints.
const Enabled = false

// Hit marks a point. In this build it does nothing.
func Hit(string, ...job.ID) {}
