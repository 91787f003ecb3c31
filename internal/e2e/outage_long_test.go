//go:build long

package e2e

import (
	"testing"
	"time"
)

var sqlOutages = map[string]time.Duration{"frozen": time.Minute, "F36 killed": time.Minute}

func TestRedisFrozenFor20s_F13(t *testing.T) {
	t.Parallel()
	outage{out: 20 * time.Second}.survive(t)
}
