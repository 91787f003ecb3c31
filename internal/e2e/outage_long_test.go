//go:build long

package e2e

import (
	"testing"
	"time"
)

var sqlOutages = map[string]time.Duration{"frozen": time.Minute, "F36 killed": time.Minute}

func TestRedisFrozenFor20s(t *testing.T) {
	t.Attr("proves", "F13")
	t.Parallel()
	outage{out: 20 * time.Second}.survive(t)
}
