package testkit

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// DAG is a random flow for tests, with a model of how its jobs end that shares no code with tierq's own graph.
type DAG struct{ Jobs []DAGJob }

// DAGJob is a job of a DAG. Fate is how it ends when it first runs: COMPLETED, FAILED or CANCELLED.
type DAGJob struct {
	Name      string
	After     []string // names, and patterns such as split/*
	OnFailure string   // cancel, run or wait
	Fate      string
}

// RandomDAG makes a DAG of n jobs, and a last job that waits by patterns. Two in twenty jobs fail. A third one is
// CANCELLED if cancels is true, else it fails too.
func RandomDAG(r *rand.Rand, n int, cancels bool) *DAG {
	d := &DAG{}
	var names []string
	for i := range n {
		name := fmt.Sprintf("j%03d", i)
		if i > 0 && r.IntN(8) == 0 {
			name = names[r.IntN(len(names))] + fmt.Sprintf("/p%03d", i)
		}
		if len(name) > 60 {
			name = fmt.Sprintf("j%03d", i)
		}
		j := DAGJob{Name: name, OnFailure: []string{"cancel", "cancel", "run", "wait"}[r.IntN(4)], Fate: "COMPLETED"}
		for range min(i, r.IntN(4)) {
			j.After = append(j.After, names[max(0, i-1-r.IntN(min(i, 20)))])
		}
		switch r.IntN(20) {
		case 0, 1:
			j.Fate = "FAILED"
		case 2:
			if j.Fate = "FAILED"; cancels {
				j.Fate = "CANCELLED"
			}
		}
		d.Jobs, names = append(d.Jobs, j), append(names, name)
	}
	d.Jobs = append(d.Jobs, DAGJob{
		Name: "last", OnFailure: "run", Fate: "COMPLETED", After: []string{names[0] + "/*", names[n/2] + "/*"},
	})
	r.Shuffle(len(d.Jobs), func(i, j int) { d.Jobs[i], d.Jobs[j] = d.Jobs[j], d.Jobs[i] })
	return d
}

// Fate returns the fate of a job.
func (d *DAG) Fate(name string) string {
	for _, j := range d.Jobs {
		if j.Name == name {
			return j.Fate
		}
	}
	return ""
}

// Parents returns the names that a job waits for; one may be there twice.
func (d *DAG) Parents(of *DAGJob) (names []string) {
	for _, after := range of.After {
		base, isPattern := strings.CutSuffix(after, "/*")
		for _, j := range d.Jobs {
			if j.Name == base || isPattern && strings.HasPrefix(j.Name, base+"/") {
				names = append(names, j.Name)
			}
		}
	}
	return names
}

// DAGEnds says how the jobs of a DAG end, by name, and which of them have run. A job that waits for ever is WAITING.
type DAGEnds struct {
	Status map[string]string
	Ran    map[string]bool
}

// Ends says how each job ends, by the definition: from its parents' ends and its own fate. The zero before is the
// beginning. Otherwise all jobs that are FAILED in before are requeued with all that was cancelled because of them, and
// complete: what has run and was not FAILED stays as it is.
func (d *DAG) Ends(before DAGEnds) DAGEnds {
	byName, ends, ran := map[string]*DAGJob{}, map[string]string{}, map[string]bool{}
	for i := range d.Jobs {
		byName[d.Jobs[i].Name] = &d.Jobs[i]
	}
	var end func(name string) string
	end = func(name string) string {
		if known := ends[name]; known != "" {
			return known
		}
		j, bad, waits := byName[name], false, false
		if before.Ran[name] {
			ran[name], ends[name] = true, strings.Replace(before.Status[name], "FAILED", "COMPLETED", 1)
			return ends[name]
		}
		for _, parent := range d.Parents(j) {
			switch end(parent) {
			case "WAITING":
				waits = true
			case "COMPLETED":
			default:
				bad = true
			}
		}
		switch {
		case bad && j.OnFailure == "cancel":
			ends[name] = "CANCELLED"
		case waits, bad && j.OnFailure == "wait":
			ends[name] = "WAITING"
		default:
			ends[name], ran[name] = j.Fate, true
		}
		return ends[name]
	}
	for name := range byName {
		end(name)
	}
	return DAGEnds{ends, ran}
}
