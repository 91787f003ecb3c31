package app

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/queue"
)

// The doctor's line about Redis says how full its memory is, and warns above 80 %.
func TestRedisChecks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used, most   int64
		status, says string
	}{
		"four fifths": {80 << 20, 100 << 20, fine, "80 of 100 MiB"},
		"more":        {81 << 20, 100 << 20, warning, "forgotten early"},
		"no limit":    {80 << 30, 0, fine, "MiB used"},
	} {
		facts := queue.Facts{UsedMemory: c.used, MaxMemory: c.most}
		facts.Version, facts.Role, facts.Eviction = "7.2.4", "master", "noeviction"
		var found httpapi.AuditCheck
		for _, one := range redisChecks(facts, nil, false) {
			if one.Name == "redis" {
				found = one
			}
		}
		if found.Status != c.status || !strings.Contains(found.Detail+" "+found.Fix, c.says) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
