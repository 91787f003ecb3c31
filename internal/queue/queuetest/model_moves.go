package queuetest

import (
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// What operators, SQL and a short memory do to the model: cancel, kill, hasten, requeue, restore, acknowledge and
// forget.

// CancelJob cancels a job, in any generation if generation is 0.
func (m *Model) CancelJob(j *ModelJob, generation int) job.Word {
	switch {
	case generation != 0 && generation != j.Generation:
		return job.Empty
	case j.State == job.Cancelled:
		return job.WasCancelled
	case j.State.Ended():
		return job.Ended
	case j.State == job.Processing:
		j.Cancel = true
		return job.Cancel
	}
	j.end(job.Cancelled)
	j.token, j.ending = "", "" // a repeat of the last attempt's report is LOST from now on
	return job.WasCancelled
}

// KillJob makes a dead letter of a waiting job, in one generation.
func (m *Model) KillJob(j *ModelJob, generation int) job.Word {
	switch {
	case generation != j.Generation:
		return job.Empty
	case j.Killed:
		return job.Discarded
	case j.State.Ended():
		return job.Ended
	case j.State == job.Processing:
		return job.Busy
	}
	j.end(job.NeedDiscard)
	j.token, j.ending, j.Killed = "", "", true // a repeat of the last attempt's report is LOST from now on
	return job.Discarded
}

// HastenJob makes a scheduled job ready.
func (m *Model) HastenJob(j *ModelJob) job.Word {
	switch {
	case j.State.Ended():
		return job.Ended
	case j.State == job.Processing:
		return job.Busy
	case j.State == job.Held: // it stays HELD, and is due once its key is free
		j.delayed = false
		return job.OK
	}
	j.State = job.Pending
	return job.OK
}

// Requeue gives a dead job its next generation.
func (m *Model) Requeue(j *ModelJob, generation int, arrived int64) job.Word {
	switch {
	case j.Generation >= generation:
		return job.Duplicate
	case !j.State.Ended() || j.InOutbox:
		return job.Busy
	}
	*j = ModelJob{
		ID: j.ID, Plan: j.Plan, Owner: j.Owner, Arrived: arrived, Generation: generation, Attempt: j.Attempt,
		Max: j.Max, State: job.Pending, Payload: j.Payload, Queue: j.Queue, Unique: j.Unique, model: m,
	}
	j.calm()
	m.takeKey(j)
	return job.OK
}

// Restore puts a journaled job back. If the pool of an embedded server ran it, the crashed watch finds it at once.
func (m *Model) Restore(l job.JournalRow, p job.Plan) job.Word {
	at := slices.IndexFunc(m.Jobs, func(j *ModelJob) bool { return j.ID == l.ID })
	if at >= 0 {
		switch j := m.Jobs[at]; {
		case j.Generation >= l.Generation:
			return job.Duplicate
		case !j.State.Ended() || j.InOutbox:
			return job.Busy
		}
	} else {
		at, m.Jobs = len(m.Jobs), append(m.Jobs, &ModelJob{})
	}
	j := m.Jobs[at]
	*j = ModelJob{
		ID: l.ID, Plan: p, Owner: l.Owner, Arrived: l.ArrivedAt.UnixMilli(), Generation: l.Generation, Attempt: l.Attempt,
		Retries: l.RetryCount, Crashes: l.Crashes, Max: l.MaxRetries,
		State: job.Pending, Tried: !l.FirstTriedAt.IsZero(), Payload: len(l.Payload), Queue: l.QueueName(),
		Unique: l.Unique, model: m,
	}
	if j.Generation == 1 {
		j.Expires = l.ExpiresMs
	}
	j.calm()
	switch {
	case l.KillReason != "":
		j.end(job.NeedDiscard)
		j.Killed = true
	case l.Running():
		j.State, j.Cancel = job.Processing, l.CancelRequested
		if j.token, j.unheard = l.Token, true; l.Token == "" { // the pool of an embedded server had it
			j.token, j.unheard = l.Worker+":0", false
			j.Expire(job.Crashed)
		}
	case l.CancelRequested:
		j.end(job.Cancelled)
	case !l.RunAt.IsZero():
		j.State = job.Scheduled
	}
	m.takeKey(j)
	return job.OK
}

// Acknowledge records that SQL has the outcome.
func (m *Model) Acknowledge(j *ModelJob, generation, attempt int) job.Word {
	if !j.InOutbox || j.Generation != generation || j.Attempt != attempt {
		return job.Empty
	}
	j.InOutbox, j.History, j.Laters, j.Log, j.State = false, 0, 0, nil, j.State.Shown()
	return job.OK
}

// Forget removes, if all is true, the ended jobs of a slice, if SQL has all of them and all ended long ago. gone
// counts the removed jobs, could those that may be removed.
func (m *Model) Forget(slice string, all bool) (gone, could int) {
	var of []*ModelJob
	for _, j := range m.Jobs {
		switch {
		case SliceOf(string(j.ID)) != slice || !j.State.Ended():
		case j.InOutbox || !j.Aged:
			return 0, 0
		default:
			of = append(of, j)
		}
	}
	if !all {
		return 0, len(of)
	}
	for _, j := range of {
		m.Jobs = slices.DeleteFunc(m.Jobs, func(one *ModelJob) bool { return one == j })
		j.token = "" // a forgotten job has no holder: a repeated end is answered with LOST
	}
	return len(of), len(of)
}
