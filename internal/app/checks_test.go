package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// The doctor's lines about the memory of Redis say how full it is, and what an ended job costs in it.
func TestRedisChecks(t *testing.T) {
	t.Parallel()
	good := func(f queue.Facts) queue.Facts {
		f.Version, f.Role, f.Eviction = "7.2.4", "master", "noeviction"
		return f
	}
	hashes := func(bytes int) queue.Facts {
		return good(queue.Facts{Durability: queue.Durability{Listpack: bytes}})
	}
	for name, c := range map[string]struct {
		facts        queue.Facts
		check        string
		status, says string
	}{
		"four fifths":  {good(queue.Facts{UsedMemory: 80 << 20, MaxMemory: 100 << 20}), "redis", fine, "80 of 100 MiB"},
		"more":         {good(queue.Facts{UsedMemory: 81 << 20, MaxMemory: 100 << 20}), "redis", warning, "forgotten early"},
		"no limit":     {good(queue.Facts{UsedMemory: 80 << 30}), "redis", fine, "MiB used"},
		"the default":  {hashes(64), "redis hashes", warning, "1,030 bytes instead of 490"},
		"compact":      {hashes(1024), "redis hashes", fine, "1024"},
		"it says none": {good(queue.Facts{}), "redis hashes", fine, "does not tell"},
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

// A server logs at its start what Redis' default for hashes costs. It logs nothing if Redis stores jobs compactly.
func TestStartSaysWhatHashesCost(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients, err := queue.Connect(testkit.NewRedis(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = clients.Close() })
		q := queue.New(clients, &job.PlanBook{}, queue.Options{Nonce: "a", Partitions: 1})
		for value, told := range map[string]bool{"64": true, "1024": false} {
			if err := clients.Main.ConfigSet(t.Context(), "hash-max-listpack-value", value).Err(); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			err := checkDurability(t.Context(), q.View(), slog.New(slog.NewTextHandler(&said, nil)))
			if err != nil || strings.Contains(said.String(), "1,030 bytes instead of 490") != told {
				t.Errorf("%s: %v, %s", value, err, said.String())
			}
		}
	})
}
