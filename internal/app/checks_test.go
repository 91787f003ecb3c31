package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
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

// The doctor's line about queues warns where jobs wait for no worker, and names the queues that may be meant.
func TestQueuesCheck(t *testing.T) {
	t.Parallel()
	book := []job.Queue{{Name: "pictures"}, {Name: "pictrues"}, {Name: "posts", Push: job.Push{URL: "https://h.example"}}}
	at := []job.WorkerInfo{{Queues: []string{"pictrues"}}}
	for name, c := range map[string]struct {
		ready   string
		workers []job.WorkerInfo
		status  string
		says    []string
	}{
		"nothing waits":   {"", nil, fine, nil},
		"a push":          {"posts", nil, fine, nil},
		"a worker":        {"pictrues", at, fine, nil},
		"no worker":       {"pictures", nil, warning, []string{"62 jobs wait in pictures, and no worker claims from it"}},
		"misspelt, maybe": {"pictures", at, warning, []string{"62 jobs wait in pictures", "no job: pictrues"}},
	} {
		got := queuesCheck(book, map[string]queue.TierLevel{c.ready: {Ready: 62}}, c.workers)
		if got.Status != c.status {
			t.Errorf("%s: %+v", name, got)
		}
		for _, says := range c.says {
			if !strings.Contains(got.Detail, says) {
				t.Errorf("%s: %+v does not say %q", name, got, says)
			}
		}
	}
}

// The log says once that jobs wait without a worker, when they have waited for a while.
func TestAlone(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log, a, now := slog.New(slog.NewTextHandler(&out, nil)), alone{}, time.Now()
	look := func(status string, after time.Duration) int {
		now = now.Add(after)
		a.look(check("queues", status, "62 jobs wait in pictures", "start a worker"), now, log)
		return strings.Count(out.String(), "62 jobs wait in pictures")
	}
	for i, c := range []struct {
		status string
		after  time.Duration
		lines  int
	}{
		{warning, 0, 0}, {warning, aloneFor - 1, 0}, {fine, time.Second, 0}, {warning, time.Hour, 0}, {warning, aloneFor, 1},
		{warning, time.Hour, 1}, {fine, 0, 1}, {warning, 0, 1}, {warning, aloneFor, 2},
	} {
		if got := look(c.status, c.after); got != c.lines {
			t.Errorf("look %d: %d lines, want %d", i, got, c.lines)
		}
	}
}
