package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// callbackTrace is the prefix that collectors put before the trace id of a callback. The trace id itself is that
// of the callback's job, so that without the prefix it would name a submit.
const callbackTrace = "callback of "

// CallbackTrace returns the trace id under which the evidence has the callback of a job with this trace id.
func CallbackTrace(trace string) string { return callbackTrace + trace }

// life is one generation of a job.
type life struct {
	id         job.ID
	generation int
}

func (l life) compare(other life) int {
	return cmp.Or(cmp.Compare(l.id, other.id), cmp.Compare(l.generation, other.generation))
}

// toldOfEnds is S21. Each generation that ended without a cancel, and whose submit asked for a callback, has one
// CALLBACK job. The callback was delivered at least once and said what SQL says. There are no other callbacks. A
// job that never ran, and of which only the trace id of several submits is known, may have asked for a callback.
// The violations of the same evidence always come in the same order.
func toldOfEnds(e Evidence, w Witness) (all []Violation) {
	say := func(id any, format string, args ...any) {
		all = append(all, Violation{"S21", fmt.Sprint(id), fmt.Sprintf(format, args...)})
	}
	of := keys(e)
	rounds := batchNames(e)      // toldOfRounds has their callbacks
	unnamed := map[string]bool{} // trace ids of submits that asked for a callback, and whose job no client learned
	for i := range e.Ops {
		if op := &e.Ops[i]; op.Kind == "submit" && op.Fate == Unknown && op.ID == "" && w.Asked[op.Key].Call {
			unnamed[op.Trace] = true
		}
	}
	owed, made := map[string]int{}, map[string]int{} // callbacks by trace id
	told := map[life][]*Call{}
	for i := range w.Calls {
		c := &w.Calls[i]
		told[life{c.ID, c.Generation}] = append(told[life{c.ID, c.Generation}], c)
	}
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		if trace, is := strings.CutPrefix(o.Trace, callbackTrace); is {
			if o.Generation == 1 && !rounds[trace] {
				made[trace]++
			}
			continue
		}
		this := life{o.ID, o.Generation}
		if some := told[this]; of[o.ID] == "" && unnamed[o.Trace] && len(some) > 0 && some[0].Status == o.Outcome {
			delete(told, this)
			owed[o.Trace]++
			continue
		}
		if o.Outcome == job.Cancelled || !w.Asked[of[o.ID]].Call {
			continue
		}
		owed[o.Trace]++
		calls := told[this]
		delete(told, this)
		if !slices.ContainsFunc(calls, func(c *Call) bool { return c.HTTP < 300 }) {
			say(o.ID, "generation %d is %s, and nobody was told; %d calls were answered with an error", o.Generation, o.Outcome,
				len(calls))
		}
		for _, c := range calls {
			if c.Status != o.Outcome {
				say(o.ID, "generation %d is %s, and at %s it was told to be %s", o.Generation, o.Outcome, clock(c.At), c.Status)
				break
			}
		}
	}
	for _, trace := range slices.Sorted(maps.Keys(owed)) {
		if made[trace] != owed[trace] {
			say(trace, "%d lives ended, of them %d CALLBACK jobs tell", owed[trace], made[trace])
		}
		delete(made, trace)
	}
	for _, trace := range slices.Sorted(maps.Keys(made)) {
		say(trace, "%d CALLBACK jobs that nobody asked for", made[trace])
	}
	for _, this := range slices.SortedFunc(maps.Keys(told), life.compare) {
		say(this.id, "generation %d was told to be %s at %s, and SQL has no such end that anybody asked for", this.generation,
			told[this][0].Status, clock(told[this][0].At))
	}
	return all
}
