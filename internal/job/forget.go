package job

import "time"

// LeastMemory is how long Redis remembers every ended job, however short its memory is: longer than a copy of its
// submit, or a repeat of its holder's report, may be under way.
const LeastMemory = 2 * time.Minute

// ServerMemory is how much of a Redis server's memory is used.
type ServerMemory struct {
	Server string // the address of a cluster's server; "" for the only one
	Used   int64  // bytes that count against Max; 0 = the server does not say
	Max    int64  // 0 = no limit
}

// Over says whether more than so many percent of the memory are used. A server without a limit is never over.
func (m ServerMemory) Over(percent int64) bool { return m.Max > 0 && m.Used > m.Max/100*percent }

// ForgetStep is what one step of a walk over a server's jobs did.
type ForgetStep struct {
	Next   uint64  // the cursor of the next step; 0 = the walk is over
	Gone   int     // jobs that Redis has forgotten
	Stayed []int64 // when those jobs ended, in ms of Redis' time, that may be forgotten but ended later than asked
}
