package telemetry

import (
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// measured returns metrics that know the default plans.
func measured() *Metrics {
	plans := &job.PlanBook{}
	plans.Set(job.DefaultPlans())
	return NewMetrics("1.2.3-test", plans)
}

// first returns a lease of a job's first attempt.
func first(t job.Tier) *job.Lease {
	return &job.Lease{Job: job.Job{ID: "019de340-01fe-7a58-be69-567cd7d6b7d4", Generation: 1, Tier: t, Type: "SIMULATION",
		Attempt: 1}}
}

// values returns all samples of a metric by their joined label values; for a histogram the count, and under "sum"
// the sum.
func values(t *testing.T, m *Metrics, name string) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := strings.Join(labels, " ")
			all[key] = s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			if h := s.GetHistogram(); h != nil {
				all["sum "+key] = h.GetSampleSum()
			}
		}
	}
	return all
}

// nonzero returns the values that are not zero.
func nonzero(all map[string]float64) map[string]float64 {
	some := map[string]float64{}
	for k, v := range all {
		if v != 0 {
			some[k] = v
		}
	}
	return some
}

// program finds a program of the Debian package prometheus. Without it the test fails, because a skipped test
// proves nothing.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Fatalf("%s is missing; type: apt-get install -y --no-install-recommends prometheus", name)
	return ""
}
