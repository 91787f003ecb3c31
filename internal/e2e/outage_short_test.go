//go:build !long

package e2e

import "time"

// In the short suite SQL is away for a few seconds; in outage_long_test.go for a minute.
var sqlOutages = map[string]time.Duration{"frozen": 8 * time.Second, "F36 killed": 6 * time.Second}
