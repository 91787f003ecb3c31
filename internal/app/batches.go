package app

import (
	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
)

// owesOfBatches returns the function that makes the journal rows of the jobs that a batch owes at the end of a round:
// its then job and its callback. A job whose tier this process does not know gets the last tier.
func owesOfBatches(plans *job.PlanBook) func(b *job.Batch) []job.JournalRow {
	return func(b *job.Batch) (rows []job.JournalRow) {
		if then, owed := b.ThenJob(); owed {
			rows = append(rows, rowOf(plans, then))
		}
		if b.CallbackURL != "" {
			rows = append(rows, rowOf(plans, handlers.BatchCallback(b)))
		}
		return rows
	}
}

// rowOf returns the journal row of a job that SQL owes to Redis.
func rowOf(plans *job.PlanBook, j job.Job) job.JournalRow {
	l := job.JournalRow{Job: j}
	plan, known := plans.Plan(l.Tier)
	if all := plans.All(); !known && len(all) > 0 {
		plan = all[len(all)-1]
		l.Tier = plan.Tier
	}
	l.Priority = plan.Priority
	return l
}
