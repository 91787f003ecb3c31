//go:build long

package e2e

import "time"

var sqlOutages = map[string]time.Duration{"frozen": time.Minute, "killed": time.Minute}
