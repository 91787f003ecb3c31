package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// flows draws the flows of a seed, and what clients ask of them.
func (p *plan) flows(r *rand.Rand) {
	for i := range 1 + r.IntN(2) {
		jobs := flowJobs(r, i)
		at := ticks(r, 0, 30)
		p.orders = append(p.orders, order{at: at, what: "submit a flow", id: flowID(i, 0), jobs: jobs, tries: 3,
			process: r.IntN(len(p.slots))})
		for range r.IntN(4) {
			p.orders = append(p.orders, order{at: at + ticks(r, 1, 60), process: r.IntN(len(p.slots)),
				what: []string{"cancel", "kill", "hasten"}[r.IntN(3)], id: jobs[r.IntN(len(jobs))].ID})
		}
		for range r.IntN(3) {
			p.orders = append(p.orders, order{at: at + ticks(r, 1, 60), process: r.IntN(len(p.slots)), what: "poll",
				id: jobs[r.IntN(len(jobs))].ID, tries: 2 + r.IntN(9), pause: ticks(r, 2, 12)})
		}
		if r.IntN(5) == 0 {
			p.orders = append(p.orders, order{at: at + ticks(r, 5, 60), what: "cancel a flow", id: flowID(i, 0), tries: 3,
				process: r.IntN(len(p.slots))})
		}
		for range 2 + r.IntN(6) {
			p.orders = append(p.orders, order{at: at + ticks(r, 10, 140), what: "requeue", in: flowID(i, 0),
				id: jobs[r.IntN(len(jobs))].ID, process: r.IntN(len(p.slots)), cascade: r.IntN(3) > 0,
				request: fmt.Sprint("flow", i, len(p.orders))})
		}
	}
}

// flowJobs draws 2 to 12 jobs, of which most wait for some of the earlier ones.
func flowJobs(r *rand.Rand, number int) (jobs []job.FlowJob) {
	n := 2 + r.IntN(11)
	for i := range n {
		tier := []job.Tier{job.Paid, job.Unpaid, job.Public}[r.IntN(3)]
		id, plan := flowID(number, i+1), planOf(string(tier))
		text, _ := json.Marshal(payload{id})
		j := job.FlowJob{
			Job: job.Job{ID: id, Generation: 1, Tier: tier, Type: jobType, Payload: text, MaxRetries: plan.MaxRetries,
				Status: job.Waiting, Options: job.Options{Flow: flowID(number, 0)}},
			Flow: flowID(number, 0), Name: fmt.Sprintf("j%02d", i), Priority: plan.Priority,
			OnFailure: []job.OnFailure{job.FlowCancels, job.FlowCancels, job.FlowRuns, job.FlowWaits}[r.IntN(4)],
		}
		if r.IntN(6) == 0 {
			j.Delay = ticks(r, 1, 20)
		}
		for range min(i, r.IntN(4)) {
			j.After = append(j.After, jobs[r.IntN(i)].Name)
		}
		slices.Sort(j.After)
		j.After = slices.Compact(j.After)
		jobs = append(jobs, j)
	}
	return jobs
}
