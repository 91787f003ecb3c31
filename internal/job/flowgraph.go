package job

import (
	"fmt"
	"slices"
	"strings"
)

// FlowNode is a job of a flow as the graph has it. Status is WAITING, PENDING (the flow released it) or a final one.
type FlowNode struct {
	Name       string
	After      []string
	OnFailure  OnFailure
	Status     Status
	Generation int
	// DependencyFailed says that the job is CANCELLED because of a job that it waited for.
	DependencyFailed bool
}

// FlowGraph decides which jobs of a flow go on. It decides from what is, not from what has just happened: deciding
// again changes nothing.
type FlowGraph struct {
	nodes map[string]*FlowNode
	names []string            // sorted
	order []string            // each name behind all that it waits for
	of    map[string][]string // the names that a name waits for, patterns resolved
}

// NewFlowGraph makes the graph of these jobs. A *FlowError names a job that waits for a missing job, or for
// itself in the end, or says that there are too many edges.
func NewFlowGraph(nodes []*FlowNode) (*FlowGraph, error) {
	g := &FlowGraph{nodes: make(map[string]*FlowNode, len(nodes)), of: make(map[string][]string, len(nodes))}
	for _, n := range nodes {
		g.nodes[n.Name] = n
		g.names = append(g.names, n.Name)
	}
	slices.Sort(g.names)
	edges := 0
	for _, name := range g.names {
		parents, err := g.resolve(g.nodes[name])
		if err != nil {
			return nil, err
		}
		if edges += len(parents); edges > MaxFlowEdges {
			return nil, &FlowError{name, fmt.Sprintf("a flow has at most %d dependencies", MaxFlowEdges)}
		}
		g.of[name] = parents
	}
	return g, g.sort()
}

// GraphOf returns the graph of the jobs of a flow.
func GraphOf(jobs []FlowJob) (*FlowGraph, error) {
	nodes := make([]*FlowNode, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		nodes[i] = &FlowNode{
			Name: j.Name, After: j.After, OnFailure: j.OnFailure, Status: j.Status, Generation: j.Generation,
			DependencyFailed: j.DependencyFailed,
		}
	}
	return NewFlowGraph(nodes)
}

// IsBelow says whether a job is named below another: by its name, a slash, and more.
func IsBelow(name, above string) bool { return strings.HasPrefix(name, above+"/") }

// resolve returns the names that a job waits for, each once.
func (g *FlowGraph) resolve(n *FlowNode) (parents []string, err error) {
	for _, after := range n.After {
		base, isPattern := strings.CutSuffix(after, flowPattern)
		if g.nodes[base] == nil {
			return nil, &FlowError{n.Name, fmt.Sprintf("is after %q, and the flow has no such job", base)}
		}
		parents = append(parents, base)
		if isPattern {
			prefix := base + "/"
			from, _ := slices.BinarySearch(g.names, prefix)
			for _, name := range g.names[from:] {
				if !strings.HasPrefix(name, prefix) {
					break
				}
				parents = append(parents, name)
			}
		}
	}
	slices.Sort(parents)
	return slices.Compact(parents), nil
}

// sort sets order, or returns the error about a job that waits for itself.
func (g *FlowGraph) sort() error {
	open, children := make(map[string]int, len(g.names)), make(map[string][]string, len(g.names))
	for _, name := range g.names {
		open[name] = len(g.of[name])
		for _, parent := range g.of[name] {
			children[parent] = append(children[parent], name)
		}
		if open[name] == 0 {
			g.order = append(g.order, name)
		}
	}
	for i := 0; i < len(g.order); i++ {
		for _, child := range children[g.order[i]] {
			if open[child]--; open[child] == 0 {
				g.order = append(g.order, child)
			}
		}
	}
	if len(g.order) < len(g.names) {
		for _, name := range g.names {
			if open[name] > 0 && g.waitsForItself(name) {
				return &FlowError{name, "waits for itself: its dependencies lead back to it"}
			}
		}
	}
	return nil
}

func (g *FlowGraph) waitsForItself(name string) bool {
	seen, next := map[string]bool{}, slices.Clone(g.of[name])
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if at == name {
			return true
		}
		if !seen[at] {
			seen[at] = true
			next = append(next, g.of[at]...)
		}
	}
	return false
}

// Node returns a job, nil if there is none of that name.
func (g *FlowGraph) Node(name string) *FlowNode { return g.nodes[name] }

// Order returns all names, each behind those that it waits for.
func (g *FlowGraph) Order() []string { return g.order }

// Parents returns the names that a job waits for, with patterns resolved.
func (g *FlowGraph) Parents(name string) []string { return g.of[name] }

// Settle releases or cancels the jobs that wait for nothing any more, and returns the names in the graph's order.
func (g *FlowGraph) Settle() (released, cancelled []string) {
	for _, name := range g.order {
		n := g.nodes[name]
		if n.Status != Waiting {
			continue
		}
		switch g.verdict(n) {
		case Pending:
			n.Status = Pending
			released = append(released, name)
		case Cancelled:
			n.Status, n.DependencyFailed = Cancelled, true
			cancelled = append(cancelled, name)
		}
	}
	return released, cancelled
}

// verdict returns the next status of a WAITING job: PENDING, CANCELLED, or still WAITING.
func (g *FlowGraph) verdict(n *FlowNode) Status {
	open, bad := false, false
	for _, parent := range g.of[n.Name] {
		switch s := g.nodes[parent].Status; {
		case !s.Ended():
			open = true
		case s != Completed:
			bad = true
		}
	}
	switch {
	case bad && n.OnFailure == FlowCancels:
		return Cancelled
	case open, bad && n.OnFailure == FlowWaits:
		return Waiting
	}
	return Pending
}

// Revive makes jobs WAITING again, in their next generation, and returns their names: the jobs that were cancelled
// because of a requeued job, and those that were cancelled because of another revived job.
func (g *FlowGraph) Revive(requeued string) (revived []string) {
	again := map[string]bool{requeued: true}
	for _, name := range g.order {
		n := g.nodes[name]
		if !n.DependencyFailed || !slices.ContainsFunc(g.of[name], func(p string) bool { return again[p] }) {
			continue
		}
		n.Status, n.DependencyFailed = Waiting, false
		if g.verdict(n) == Cancelled { // another job that it waits for failed too
			n.Status, n.DependencyFailed = Cancelled, true
			continue
		}
		n.Generation++
		again[name] = true
		revived = append(revived, name)
	}
	return revived
}

// State returns how the flow stands.
func (g *FlowGraph) State() FlowState {
	waits, failed, cancelled := false, false, false
	for _, n := range g.nodes {
		switch n.Status {
		case Waiting:
			waits = true
		case Completed:
		case Failed, Expired:
			failed = true
		case Cancelled:
			cancelled = true
		default:
			return FlowRunning
		}
	}
	switch {
	case waits:
		return FlowStuck
	case failed:
		return FlowFailed
	case cancelled:
		return FlowCancelled
	}
	return FlowCompleted
}
