package httpapi

import "github.com/tierq/tierq/internal/job"

// Permission is what an address requires of its caller. On an open server every caller has all permissions but
// forNobody.
type Permission int

// The permissions. The handlers check further which jobs a caller sees, and to which tiers he may submit.
const (
	forNobody    Permission = iota // the zero value: every caller is refused, also by an open server
	ForEverybody                   // needs no key, and reads none; charged to the rate of the address
	// needs no key, and is charged to no rate; for health, and for handlers that authenticate the caller themselves
	Uncounted
	ForSubmits         // to submit jobs, with a key
	ForTierSubmits     // to submit jobs to the tier of the path; strangers may submit only here
	ForOwners          // to look at one job
	ForOwnersToAct     // to change one job
	ForLists           // to list the caller's own jobs, or with an operator's key all jobs
	ForOperators       // to see all jobs and all figures
	ForWorkers         // to fetch jobs of declared queues and to report their ends
	ForWorkersToSubmit // to submit jobs for a job that the caller runs: a worker that may submit
	ForKeys            // to do something with the caller's own key
	ForAdmins          // to change things that are not the caller's own
)

// allows says whether a caller has the permission.
func (p Permission) allows(c *job.Caller) bool {
	switch p {
	case ForEverybody, Uncounted:
		return true
	case ForSubmits:
		return c.Submits() && !anonymous(c)
	case ForTierSubmits, ForOwnersToAct:
		return c.Submits()
	case ForOwners:
		return c.Submits() || c.Operator()
	case ForLists:
		return (c.Submits() || c.Operator()) && !anonymous(c)
	case ForOperators:
		return c.Operator()
	case ForWorkers:
		return c.Works()
	case ForWorkersToSubmit:
		return c.Works() && c.Submits()
	case ForKeys:
		return !anonymous(c)
	case ForAdmins:
		return c.Admin()
	}
	return false
}

// anonymous reports whether the caller has shown no key to a server that has keys.
func anonymous(c *job.Caller) bool { return !c.Open && c.Key.ID == "" }

// refusal returns the error for a caller who may not do something: job.ErrUnauthorized if he has shown no key,
// otherwise a 403 with detail.
func refusal(c *job.Caller, detail string) error {
	if anonymous(c) {
		return job.ErrUnauthorized
	}
	return &problem{kind: forbidden, detail: detail}
}
