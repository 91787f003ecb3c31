package job

import (
	"context"
	"log/slog"
)

// Logger is the logger of the running job: each of its lines says which job, and which attempt of it, it belongs to. In a context without a
// job it is slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	run, ok := Running(ctx)
	if !ok {
		return slog.Default()
	}
	log := run.Log
	if log == nil {
		log = slog.Default()
	}
	return log.With("job_id", run.ID, "tier", run.Tier, "type", run.Type, "attempt", run.Attempt, "trace_id", run.TraceID)
}
