package app

import (
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/httpapi"
)

// aloneFor is how long jobs wait in a queue without a worker before the log says so: a worker that is restarted is away
// for less.
const aloneFor = 30 * time.Second

// alone says in the log that jobs wait in a queue without a worker: once, until every queue with jobs has one again.
type alone struct {
	since time.Time // zero = every queue with jobs has a worker
	told  bool
}

// look takes what queuesCheck has found.
func (a *alone) look(found httpapi.AuditCheck, now time.Time, log *slog.Logger) {
	switch {
	case found.Status == fine:
		*a = alone{}
	case a.since.IsZero():
		a.since = now
	case !a.told && now.Sub(a.since) >= aloneFor:
		a.told = true
		log.Warn("jobs wait in a queue without a worker", "queues", found.Detail, "do", found.Fix)
	}
}
