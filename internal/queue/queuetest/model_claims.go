package queuetest

import (
	"slices"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// Claim returns leases for a process that serves some queues; token is the token that belongs to number.
func (m *Model) Claim(process string, queues []string, number int64, token string, most int) []ModelLease {
	if m.claims == nil {
		m.claims = map[string]ModelClaim{}
	}
	last, asked := m.claims[process]
	switch {
	case asked && number < last.Number:
		return nil
	case asked && number == last.Number:
		return slices.DeleteFunc(slices.Clone(last.Leases),
			func(l ModelLease) bool { return l.Job.State != job.Processing || l.Job.token != l.Token })
	}
	leases := m.lease(m.best(queues, false, most, 0), token)
	m.claims[process] = ModelClaim{Number: number, Leases: leases}
	return leases
}

// lease starts attempts of jobs, and ends those that nobody claimed by their time.
func (m *Model) lease(jobs []*ModelJob, token string) (leases []ModelLease) {
	for _, j := range jobs {
		if j.endOverdue() {
			continue
		}
		j.State, j.Tried, j.token, j.ending, j.unheard = job.Processing, true, token, "", false
		j.Attempt++
		j.step, j.Done = 0, ""
		if j.whileWaiting() {
			m.freeKey(j)
		}
		j.calm()
		leases = append(leases, ModelLease{Job: j, Attempt: j.Attempt, Retries: j.Retries, Crashes: j.Crashes, Token: token})
	}
	return leases
}

// ClaimByID returns leases for a worker that names its claim, of jobs with at least the priority least. The last
// delivery gets the same leases again, an earlier one none; another one gets the jobs of the last answer that still
// run, under another token. One with a lower repeat than the last one's is an earlier one too.
func (m *Model) ClaimByID(e *job.Elsewhere, most, least int) (leases []ModelLease) {
	if m.claims == nil {
		m.claims = map[string]ModelClaim{}
	}
	name, delivery := e.Worker+"~"+e.ID, strconv.Itoa(e.Repeat)+"-"+e.Delivery
	last, again := m.claims[name]
	token := e.Worker + ":" + e.ID + "." + delivery
	if !again {
		// Nothing is remembered of a claim that found nothing.
		if leases = m.lease(m.best(e.Queues, e.ByName, most, least), token); len(leases) > 0 {
			m.claims[name] = ModelClaim{Repeat: e.Repeat, Deliveries: []string{delivery}, Leases: leases}
		}
		return leases
	}
	same := last.Deliveries[len(last.Deliveries)-1] == delivery
	if !same && slices.Contains(last.Deliveries, delivery) || e.Repeat < last.Repeat {
		return nil
	}
	for _, l := range last.Leases {
		if !l.holds() || l.Job.State != job.Processing {
			continue
		}
		if !same {
			l.Token, l.Job.token = token, token
			l.Job.expired[job.Crashed], l.Job.suspected[job.Crashed], l.Job.old[job.Crashed] = false, false, false
		}
		leases = append(leases, l)
	}
	if !same {
		m.claims[name] = ModelClaim{Repeat: e.Repeat, Deliveries: append(last.Deliveries, delivery), Leases: leases}
	}
	return leases
}

func (l ModelLease) holds() bool { return l.Job.Attempt == l.Attempt && l.Job.token == l.Token }
