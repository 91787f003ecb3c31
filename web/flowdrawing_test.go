package web

import (
	"fmt"
	"testing"
)

// Each job stands right of all that it waits for, no two boxes touch, and every line begins and ends at its boxes.
func TestDrawFlow(t *testing.T) {
	t.Parallel()
	var jobs []FlowJob
	for i := range 40 {
		j := FlowJob{Name: fmt.Sprintf("job-%02d", i), Status: "WAITING"}
		for _, back := range []int{1, 3, 7} {
			if i%back == 0 && i >= back*2 {
				j.Parents = append(j.Parents, fmt.Sprintf("job-%02d", i-back*2))
			}
		}
		jobs = append(jobs, j)
	}
	d := DrawFlow(jobs)
	if d == nil || len(d.Nodes) != len(jobs) {
		t.Fatalf("%+v", d)
	}
	at := map[string]FlowNode{}
	for i, a := range d.Nodes {
		at[a.Name] = a
		if a.X < 0 || a.Y < 0 || a.X+a.W > d.Width || a.Y+a.H > d.Height {
			t.Errorf("%+v is outside of %d x %d", a, d.Width, d.Height)
		}
		for _, b := range d.Nodes[:i] {
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s touch", a.Name, b.Name)
			}
		}
	}
	edges := 0
	for _, j := range jobs {
		for _, parent := range j.Parents {
			from, to := at[parent], at[j.Name]
			if from.X+from.W >= to.X {
				t.Errorf("%s does not stand right of %s", j.Name, parent)
			}
			e := d.Edges[edges]
			if edges++; e.FromX != from.X+from.W || e.ToX != to.X || e.FromY != from.Y+from.H/2 || e.ToY != to.Y+to.H/2 {
				t.Errorf("%s to %s: %+v", parent, j.Name, e)
			}
		}
	}
	if DrawFlow(nil) != nil || DrawFlow(make([]FlowJob, maxDrawnJobs+1)) != nil {
		t.Error("nothing, or too much, is drawn")
	}
	if got := flowName("split/the-quite-long-part-7"); got != "…quite-long-part-7" {
		t.Errorf("%q", got)
	}
}
