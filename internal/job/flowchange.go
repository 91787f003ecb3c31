package job

import "time"

// End, Requeue and Cancel change the graph of a flow; Settle then decides which jobs go on.

// End marks a job as ended. It returns false, and changes nothing, for an unknown name, for the end of an earlier
// generation, and for a job that has ended already.
func (g *FlowGraph) End(name string, generation int, status Status) bool {
	n := g.nodes[name]
	if n == nil || generation < n.Generation || generation == n.Generation && n.Status.Ended() {
		return false
	}
	n.Status, n.Generation, n.DependencyFailed = status, generation, false
	return true
}

// Requeue marks a job as living again, in a later generation. With cascade the jobs that were cancelled because of it
// wait again. It returns false, and changes nothing, for an unknown name and for a generation that the job has had.
func (g *FlowGraph) Requeue(name string, generation int, cascade bool) bool {
	n := g.nodes[name]
	if n == nil || generation <= n.Generation {
		return false
	}
	n.Status, n.Generation, n.DependencyFailed = Pending, generation, false
	if cascade {
		g.Revive(name)
	}
	return true
}

// Cancel marks the WAITING jobs as CANCELLED, and returns their names. living are the names of the released jobs that
// have not ended.
func (g *FlowGraph) Cancel() (waiting, living []string) {
	for _, name := range g.order {
		switch n := g.nodes[name]; n.Status {
		case Waiting:
			n.Status = Cancelled
			waiting = append(waiting, name)
		case Pending:
			living = append(living, name)
		}
	}
	return waiting, living
}

// DueAt returns when a job that is released at this time is due: after its delay, and not before RunAt. The zero time
// means at once.
func (j *FlowJob) DueAt(released time.Time) time.Time {
	if due := released.Add(j.Delay); j.Delay > 0 && due.After(j.RunAt) {
		return due
	}
	return j.RunAt
}

// ExpiryFrom returns the option ExpiresMs of a job that its flow releases at a time: the time that was said, or that
// which counts from the release; 0 = none.
func (j *FlowJob) ExpiryFrom(released time.Time) int64 {
	if j.ExpiresIn > 0 {
		return released.Add(j.ExpiresIn).UnixMilli()
	}
	return j.ExpiresMs
}
