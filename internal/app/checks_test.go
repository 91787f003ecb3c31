package app

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/queue"
)

// What the doctor says about the memory of Redis: how full it is, and what an ended job costs in it.
func TestRedisChecks(t *testing.T) {
	t.Parallel()
	good := func(f queue.Facts) queue.Facts {
		f.Version, f.Role, f.Eviction = "7.2.4", "master", "noeviction"
		return f
	}
	for name, c := range map[string]struct {
		facts        queue.Facts
		check        string
		status, says string
	}{
		"four fifths":  {good(queue.Facts{UsedMemory: 80 << 20, MaxMemory: 100 << 20}), "redis", fine, "80 of 100 MiB"},
		"more":         {good(queue.Facts{UsedMemory: 81 << 20, MaxMemory: 100 << 20}), "redis", warning, "forgotten early"},
		"no limit":     {good(queue.Facts{UsedMemory: 80 << 30}), "redis", fine, "MiB used"},
		"the default":  {good(queue.Facts{Durability: queue.Durability{Listpack: 64}}), "redis hashes", warning, "1,030 bytes instead of 490"},
		"compact":      {good(queue.Facts{Durability: queue.Durability{Listpack: 1024}}), "redis hashes", fine, "1024"},
		"it says none": {good(queue.Facts{}), "redis hashes", fine, "does not say"},
	} {
		var found httpapi.AuditCheck
		for _, one := range redisChecks(c.facts, nil, false) {
			if one.Name == c.check {
				found = one
			}
		}
		if found.Status != c.status || !strings.Contains(found.Detail+" "+found.Fix, c.says) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
