package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/httpapi"
)

// readiness says whether this process should get requests: it has migrated (or it would not serve), it does not drain, its gate is open.
// SQL down alone only degrades it: work, polls and submits go on.
type readiness struct {
	gate    *admission.Gate
	archive interface {
		Ping(ctx context.Context) error
	}
	draining atomic.Bool
}

func (r *readiness) drain() { r.draining.Store(true) }

// Ready reports the state as it is now.
func (r *readiness) Ready(ctx context.Context) httpapi.Report {
	report := httpapi.Report{Ready: true, Status: "UP"}
	check := func(name, status, detail string) {
		report.Checks = append(report.Checks, httpapi.Check{Name: name, Status: status, Detail: detail})
	}
	ping, cancel := context.WithTimeout(ctx, 500*time.Millisecond) // a health check waits for nobody
	defer cancel()
	if err := r.archive.Ping(ping); err != nil {
		report.Status = "DEGRADED"
		check("sql", "DOWN", "outcomes wait in Redis until it is back")
	} else {
		check("sql", "UP", "")
	}
	if gate := r.gate.State(); gate.Open {
		check("gate", "UP", "")
	} else {
		report.Ready, report.Status = false, "OUT_OF_SERVICE"
		check("gate", "DOWN", gate.Reason)
	}
	if r.draining.Load() {
		report.Ready, report.Status = false, "OUT_OF_SERVICE"
		check("draining", "DOWN", "the process is stopping")
	}
	return report
}
