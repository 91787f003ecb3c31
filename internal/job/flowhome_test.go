package job_test

import (
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Jobs of all flows with one unique key are in one partition, where the key is. Without a key, a job's name decides. A
// line comes before both.
func TestFlowHome(t *testing.T) {
	t.Parallel()
	const one, two = job.ID("019de340-01fe-7a58-be69-567cd7d6b702"), job.ID("019de340-01fe-7a58-be69-567cd7d6b703")
	home := func(o job.Options, flow job.ID, name string) string {
		return job.FlowHome(&job.Submission{Options: o}, flow, name)
	}
	unique := job.Options{Unique: job.Unique("0123456789abcdef0123456789abcdef", job.WhileLiving)}
	lined := unique
	lined.Line = job.LineOf("a key")
	if home(unique, one, "a") != home(unique, two, "b") || home(lined, one, "a") != home(lined, two, "b") {
		t.Error("one key has two partitions")
	}
	if home(unique, one, "a") == home(lined, one, "a") {
		t.Error("a line is in the partition of a unique key")
	}
	plain := home(job.Options{}, one, "a")
	if plain == home(job.Options{}, two, "a") || plain == home(job.Options{}, one, "b") ||
		plain == home(unique, one, "a") {
		t.Error("two jobs without a key have one partition by construction")
	}
	same := job.Submission{Options: unique}
	if same.Home() != home(unique, one, "a") {
		t.Errorf("a flow's job has the home %s, a submit %s", home(unique, one, "a"), same.Home())
	}
}
