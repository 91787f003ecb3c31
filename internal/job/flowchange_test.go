package job

import (
	"slices"
	"testing"
	"time"
)

// graph returns the graph of a chain a <- b <- c, and d behind a and b, with these statuses.
func graph(t *testing.T, a, b, c, d Status) *FlowGraph {
	t.Helper()
	g, err := NewFlowGraph([]*FlowNode{
		{Name: "a", Status: a, Generation: 1, OnFailure: FlowCancels},
		{Name: "b", After: []string{"a"}, Status: b, Generation: 1, OnFailure: FlowCancels},
		{Name: "c", After: []string{"b"}, Status: c, Generation: 1, OnFailure: FlowCancels},
		{Name: "d", After: []string{"a", "b"}, Status: d, Generation: 1, OnFailure: FlowWaits},
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The first end of a generation stands. An end of an earlier generation, or of an unknown job, changes nothing.
func TestFlowGraph_End(t *testing.T) {
	g := graph(t, Pending, Waiting, Waiting, Waiting)
	for _, c := range []struct {
		name       string
		generation int
		status     Status
		want       bool
	}{
		{"nobody", 1, Failed, false}, {"", 1, Failed, false},
		{"a", 2, Failed, true}, {"a", 2, Completed, false}, {"a", 1, Completed, false}, {"a", 3, Completed, true},
	} {
		if got := g.End(c.name, c.generation, c.status); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
	if n := g.Node("a"); n.Status != Completed || n.Generation != 3 {
		t.Errorf("%+v", n)
	}
}

// A requeue with cascade brings back the jobs that were cancelled because of the job; a requeue without leaves them.
func TestFlowGraph_Requeue(t *testing.T) {
	for _, cascade := range []bool{false, true} {
		g := graph(t, Pending, Waiting, Waiting, Waiting)
		g.End("a", 1, Failed)
		if _, cancelled := g.Settle(); !slices.Equal(cancelled, []string{"b", "c"}) {
			t.Fatalf("cancelled %v", cancelled)
		}
		if g.Requeue("a", 1, cascade) || g.Requeue("nobody", 2, cascade) {
			t.Error("requeued in a generation that it has had")
		}
		if !g.Requeue("a", 2, cascade) {
			t.Error("not requeued")
		}
		status, generation := Cancelled, 1
		if cascade {
			status, generation = Waiting, 2
		}
		for _, name := range []string{"b", "c"} {
			if n := g.Node(name); n.Status != status || n.Generation != generation {
				t.Errorf("cascade %t: %+v", cascade, n)
			}
		}
		if n := g.Node("d"); n.Status != Waiting || n.Generation != 1 {
			t.Errorf("the bystander: %+v", n)
		}
	}
}

// A cancel of the flow ends the jobs that wait, names the jobs that live, and leaves the jobs that have ended.
func TestFlowGraph_Cancel(t *testing.T) {
	g := graph(t, Completed, Pending, Waiting, Waiting)
	waiting, living := g.Cancel()
	if slices.Sort(waiting); !slices.Equal(waiting, []string{"c", "d"}) || !slices.Equal(living, []string{"b"}) {
		t.Errorf("%v, %v", waiting, living)
	}
	if g.Node("a").Status != Completed || g.Node("b").Status != Pending || g.Node("c").Status != Cancelled {
		t.Errorf("%+v %+v %+v", g.Node("a"), g.Node("b"), g.Node("c"))
	}
}

// A delay counts from the release, and RunAt is the earliest time.
func TestFlowJob_DueAt(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		delay time.Duration
		runAt time.Time
		want  time.Time
	}{
		{0, time.Time{}, time.Time{}}, {time.Minute, time.Time{}, now.Add(time.Minute)},
		{0, now.Add(time.Hour), now.Add(time.Hour)}, {time.Minute, now.Add(time.Hour), now.Add(time.Hour)},
		{time.Hour, now.Add(time.Minute), now.Add(time.Hour)},
	} {
		j := FlowJob{Job: Job{RunAt: c.runAt}, Delay: c.delay}
		if got := j.DueAt(now); !got.Equal(c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
