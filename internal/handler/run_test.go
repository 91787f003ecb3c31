package handler

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestLogger(t *testing.T) {
	t.Attr("proves", "S4-O1")
	var base, other bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&other, nil)))
	defer slog.SetDefault(before)
	run := Run{ID: "the-job", Tier: job.Paid, Type: "WORK", Attempt: 2, TraceID: "the-trace"}
	const fields = "job_id=the-job tier=PAID type=WORK attempt=2 trace_id=the-trace\n"

	Logger(WithRun(t.Context(), run)).Info("by default")
	Logger(t.Context()).Info("no job")
	run.Log = slog.New(slog.NewTextHandler(&base, nil)).With("worker", "w")
	Logger(WithRun(t.Context(), run)).Info("by the pool")

	if got := base.String(); !strings.HasSuffix(got, `msg="by the pool" worker=w `+fields) ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("the pool's log: %q", got)
	}
	lines := strings.SplitAfter(other.String(), "\n")
	if len(lines) != 3 || !strings.HasSuffix(lines[0], `msg="by default" `+fields) ||
		!strings.HasSuffix(lines[1], "msg=\"no job\"\n") {
		t.Errorf("the default log: %q", other.String())
	}
}
