package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A difference is logged once for each value, not for each process, and again after it had gone.
func TestSettingsCompared(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := comparer{here: map[string]string{"A": "1", "B": "2"}, log: slog.New(slog.NewTextHandler(&log, nil))}
	worker := func(name string, settings map[string]string) job.WorkerInfo {
		return job.WorkerInfo{Name: name, Settings: settings}
	}
	alike := worker("alike", map[string]string{"A": "1", "B": "2"})
	older := worker("older", nil)
	other := worker("other", map[string]string{"A": "1", "B": "3"})
	another := worker("another", map[string]string{"A": "1", "B": "3"})
	for i, step := range []struct {
		workers []job.WorkerInfo
		lines   int
	}{
		{nil, 0}, {[]job.WorkerInfo{alike, older}, 0}, {[]job.WorkerInfo{alike, other, older}, 1},
		{[]job.WorkerInfo{alike, other, another}, 1}, {[]job.WorkerInfo{another}, 1}, {[]job.WorkerInfo{alike}, 1},
		{[]job.WorkerInfo{other}, 2},
	} {
		c.compare(step.workers)
		if n := strings.Count(log.String(), "\n"); n != step.lines {
			t.Errorf("step %d: %d lines, want %d: %s", i, n, step.lines, log.String())
		}
	}
	if !strings.Contains(log.String(), "setting=B here=2 there=3 worker=other") {
		t.Error(log.String())
	}
	if s := settingsCheck(c.here, []job.WorkerInfo{alike, older}); s.Status != fine {
		t.Errorf("%+v", s)
	}
	want := "B is 2 here and 3 in other"
	if s := settingsCheck(c.here, []job.WorkerInfo{other, another}); s.Status != warning || s.Detail != want {
		t.Errorf("%+v", s)
	}
}
