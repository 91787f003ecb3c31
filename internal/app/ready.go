package app

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/worker"
)

// readiness says whether this process should get requests: its gate is open and it is not draining. (It has
// migrated the schema, or it would not serve.) If only SQL is down the status is DEGRADED, because work, polls and
// submits go on; with the journal, SQL down closes the gate.
type readiness struct {
	gate     *admission.Gate
	sql      *sharedLook[struct{}] // whether SQL answers
	sqlDown  func() bool           // SQL takes no rows
	pool     func() worker.Stats   // nil: this process runs no jobs
	accepts  bool                  // this process has the api role
	draining atomic.Bool
}

func (r *readiness) drain() { r.draining.Store(true) }

// Ready reports the present state.
func (r *readiness) Ready(ctx context.Context) httpapi.Report {
	report := httpapi.Report{Ready: true, Status: "UP"}
	check := func(name, status, detail string) {
		report.Checks = append(report.Checks, httpapi.Check{Name: name, Status: status, Detail: detail})
	}
	if _, err := r.sql.look(ctx); err != nil {
		report.Status = "DEGRADED"
		check("sql", "DOWN", "SQL does not answer: outcomes wait in Redis")
	} else if r.sqlDown() {
		report.Status = "DEGRADED"
		check("sql", "DOWN", "SQL answers but stores no rows: outcomes wait in Redis")
	} else {
		check("sql", "UP", "")
	}
	switch gate := r.gate.State(); {
	case gate.Open && len(gate.Closed) > 0:
		report.Status = worse(report.Status)
		check("gate", "UP", "")
		check("partitions", "DOWN", partitionsClosed(gate))
	case gate.Open:
		check("gate", "UP", "")
	default:
		report.Ready, report.Status = false, "OUT_OF_SERVICE"
		check("gate", "DOWN", gate.Reason)
	}
	if r.pool != nil {
		if s := r.pool(); s.Wedged > 0 {
			report.Status = worse(report.Status)
			check("workers", "DOWN", fmt.Sprintf("%d of %d slots are lost to handlers that ignore their context: "+
				"restart the process", s.Wedged, s.Slots))
			if s.Wedged >= s.Slots && !r.accepts {
				report.Ready, report.Status = false, "OUT_OF_SERVICE"
			}
		}
	}
	if r.draining.Load() {
		report.Ready, report.Status = false, "OUT_OF_SERVICE"
		check("draining", "DOWN", "the process is stopping")
	}
	return report
}

// partitionsClosed says which partitions take no jobs while others do.
func partitionsClosed(g admission.GateState) string {
	return fmt.Sprintf("%d of %d partitions are closed because their Redis server fails: %s", len(g.Closed), g.Partitions,
		strings.Trim(fmt.Sprint(g.Closed), "[]"))
}

// worse returns the status of a process that serves with limitations.
func worse(status string) string {
	if status == "UP" {
		return "DEGRADED"
	}
	return status
}
