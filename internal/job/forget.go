package job

import "time"

// LeastMemory is how long Redis keeps every ended job at least, however short its memory is: longer than a copy of
// the job's submit can be under way, and than a holder repeats its report in a Redis that answers. A Redis that ended
// jobs have filled refuses submits for as long.
const LeastMemory = 20 * time.Second

// ServerMemory is the memory use of a Redis server.
type ServerMemory struct {
	Server string // the address of a cluster's server; "" for the only one
	Used   int64  // bytes that count against Max; 0 = the server does not say
	Max    int64  // 0 = no limit
}

// Over says whether more than so many percent of the memory are used. It is false for a server without a limit.
func (m ServerMemory) Over(percent int64) bool { return m.Max > 0 && m.Used > m.Max/100*percent }

// ForgetStep is the result of one step of a walk over a server's jobs.
type ForgetStep struct {
	Next   uint64  // the cursor of the next step; 0 = the walk is over
	Gone   int     // how many jobs the step removed from Redis
	Stayed []int64 // when the jobs ended that may be removed but ended after the given time, in ms of Redis' time
}
