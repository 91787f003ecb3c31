package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The violations of one run come in one order, so that the reports of two looks at the same evidence are equal.
func TestToldOfEnds_InOrder(t *testing.T) {
	t.Parallel()
	e, w := Evidence{}, Witness{Asked: map[string]Asked{}}
	for n := range 20 {
		id, key := job.ID(fmt.Sprintf("id-%02d", n)), fmt.Sprintf("key-%02d", n)
		w.Asked[key] = Asked{Call: true}
		e.Ops = append(e.Ops, Op{Kind: "submit", Key: key, ID: id, Fate: OK})
		// No call and no CALLBACK job tells of this end, and calls tell of two ends of jobs that SQL does not have.
		e.Outcomes = append(e.Outcomes, Outcome{ID: id, Generation: 1, Outcome: job.Completed, Trace: "trace-" + key})
		for generation := range 2 {
			w.Calls = append(w.Calls, Call{ID: "no-" + id, Generation: generation + 1, Status: job.Failed, At: time.Unix(1, 0)})
		}
	}
	first := toldOfEnds(e, w)
	if len(first) != 80 {
		t.Fatalf("%d violations, want 20 not told, 20 without a CALLBACK job, 40 told of ends that SQL does not have: %v",
			len(first), first)
	}
	sorted := func(some []Violation) bool {
		return slices.IsSortedFunc(some, func(a, b Violation) int { return strings.Compare(a.ID+a.What, b.ID+b.What) })
	}
	if !sorted(first[20:40]) || !sorted(first[40:]) {
		t.Errorf("%v", first)
	}
	for range 10 {
		if again := toldOfEnds(e, w); !slices.Equal(first, again) {
			t.Fatalf("another order:\n%v\n%v", first, again)
		}
	}
}
