package admission

import (
	"cmp"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// inDoubtPriority comes before every tier: entries that may have been executed are decided before anything new is
// sent. So a frozen Redis puts one call's worth of submits in doubt, not all that wait.
const inDoubtPriority = 0

// entry is one submit in one partition. The lock of its home guards it until it is answered; after that its caller
// may read it.
type entry struct {
	submission job.Submission
	home       *committer
	who        *caller
	priority   int          // the tier's, or inDoubtPriority
	arrival    uint64       // order within a priority
	sent       bool         // in a call now, or in an earlier one that may have been executed
	refused    int          // how many times the store certainly did not execute it
	alone      bool         // needs a call of its own: a call with other entries failed for its content
	asked      partitionSet // its own partition, and those that certainly did not take it before
	why        error        // the first refusal of a full partition: job.ErrQueueFull or job.ErrQuota
	answered   bool
	err        error     // the answer
	arrived    time.Time // the script's arrival time
	first      job.ID    // of a replay: the job of the first submit; of a stand-in: the job that stands for this one
	answer     job.Word  // HELD, UNIQUE or REPLACED, of an answered entry with a unique key; "" = another
	due        time.Time // of REPLACED: when that job is due
	run        string    // the incarnation that was known before it was sent; with a journal only
	moves      bool      // another partition may take it
}

// size returns about how many bytes the entry adds to a script call. An entry that needs a call of its own fills a
// call.
func (e *entry) size() int {
	if e.alone {
		return job.MaxBatchBytes + 1
	}
	s := &e.submission
	return len(s.Payload) + len(s.Type) + len(s.Owner) + len(s.TraceID) + len(s.CallbackURL) + len(s.SpanID) + 256
}

// order is negative if e goes before other: by priority, then by arrival.
func (e *entry) order(other *entry) int {
	return cmp.Or(cmp.Compare(e.priority, other.priority), cmp.Compare(e.arrival, other.arrival))
}

// step is what an answer of the queue means for one entry.
type step int

const (
	accept    step = iota // the job is in Redis
	replay                // the job of the first submit under its Idempotency-Key is in Redis, its own is not
	mismatch              // refused for its Idempotency-Key: certainly not in Redis
	standIn               // the job that has its unique key stands for it: its own is certainly not in Redis
	taken                 // refused for its unique key: certainly not in Redis
	full                  // refused for the capacity: certainly not in Redis
	quota                 // refused for its owner's quota: certainly not in Redis
	unhealthy             // refused for health: certainly not in Redis
	again                 // certainly not executed this time: send it again
	inDoubt               // it may have been executed: only sending the same id again can tell
)

// fewTries is how many times a submit is sent to a store that certainly does not execute it, before the submit is
// refused.
const fewTries = 3

// pause is the wait before an entry is sent again.
const pause = 50 * time.Millisecond

// decide returns what the answer to one entry means. open says that an earlier copy may have been executed or may
// still be on its way. refused counts how many times the store certainly did not execute the entry, this time
// included. What each answer proves:
//
//	answer        no copy is open                   an earlier copy is open
//	OK            this copy made the job            so it did; the other will find the job and answer DUPLICATE
//	DUPLICATE     the job is there                  so it is, whichever copy made it
//	REPLAY        another submit's job has the key  the same: had a copy of ours made its job, the key would be ours
//	                                                (DUPLICATE); one still on its way finds the key taken
//	MISMATCH      as REPLAY, with another body      as REPLAY, with another body
//	HELD          as OK                             as OK
//	UNIQUE        not made, another has the key     no proof: the other may run later, when that job has ended
//	REPLACED      as UNIQUE                         as UNIQUE
//	TAKEN         as UNIQUE                         as UNIQUE
//	FULL          not made, no room                 no proof: the other may run later, and find room
//	QUOTA         not made, too many live           no proof: the other may run later, when fewer do
//	LATE          not made; the clock is read anew  no proof: the other may have been in time
//	unavailable   not executed                      no proof of the other
//	else          no proof                          no proof
//
// A key stands for at least a minute and a copy can be executed for at most 15 s (its not-after). So only a key
// that expires in these very seconds could let an open copy of a REPLAY or MISMATCH be executed: that copy is then
// a submit after the key's time.
func decide(reply job.SubmitReply, unavailable, open bool, refused int) step {
	switch word := reply.Word; {
	case word == job.OK, word == job.Duplicate, word == job.IsHeld:
		return accept
	case word == job.Replay && reply.First != "":
		return replay
	case word == job.Mismatch:
		return mismatch
	case open:
		return inDoubt
	case unavailable && refused >= fewTries:
		return unhealthy
	case unavailable, word == job.Late: // the queue has corrected its clock by now
		return again
	case word == job.IsUnique, word == job.Replaced:
		return standIn
	case word == job.IsTaken:
		return taken
	case word == job.Full:
		return full
	case word == job.Quota:
		return quota
	}
	return inDoubt
}
