package httpapi

import "github.com/tierq/tierq/internal/job"

// Permission is what an address wants of its caller. On an open server every caller has every one of them.
type Permission int

// The permissions. Which jobs a caller sees, and to which tiers he submits, is asked behind them.
const (
	forNobody    Permission = iota // none was said: nobody gets in, not even to an open server
	ForEverybody                   // needs no key, and looks at none; counts against the rate of its address
	// needs no key either; for health, and for handlers that ask for the caller themselves
	Uncounted
	ForSubmits     // to submit jobs, with a key
	ForTierSubmits // to submit jobs to the tier of the path: where strangers may submit, they do it here
	ForOwners      // to look at one job
	ForOwnersToAct // to change one job
	ForLists       // to list one's own jobs, or with an operator's key everybody's
	ForOperators   // to see everybody's jobs and all figures
	ForAdmins      // to change what is not one's own
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
	case ForAdmins:
		return c.Admin()
	}
	return false
}

// anonymous says whether the caller has shown no key to a server that has some.
func anonymous(c *job.Caller) bool { return !c.Open && c.Key.ID == "" }

// refusal is what a caller is told who may not do what he asks: whoever has shown no key, that it takes one.
func refusal(c *job.Caller, detail string) error {
	if anonymous(c) {
		return job.ErrUnauthorized
	}
	return &problem{kind: forbidden, detail: detail}
}
