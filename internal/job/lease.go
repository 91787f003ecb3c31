package job

import "time"

// Word is what a script answers about one entry. docs/STATES.md says which script answers which words.
type Word string

// The words. An unknown word is an error that names the script.
const (
	OK Word = "OK"
	// submit: the tier's share of the capacity, of the scheduled or of the living jobs is taken
	Full      Word = "FULL"
	Quota     Word = "QUOTA"     // submit: the owner has as many jobs under way as it may
	Late      Word = "LATE"      // submit, requeue, restore: the call arrived after its not-after and did nothing
	Lost      Word = "LOST"      // the lease is not the stored one; nothing changed
	Duplicate Word = "DUPLICATE" // submit, requeue, restore: it is there already
	Busy      Word = "BUSY"      // restore: an earlier generation lives, or its end is not in SQL yet
	Replay    Word = "REPLAY"    // submit: the Idempotency-Key is known; the first submit's job stands
	Mismatch  Word = "MISMATCH"  // submit: the Idempotency-Key is known with another body
	Empty     Word = "EMPTY"     // claim: an old number; cancel, acknowledge: nothing there to act on
	Cancel    Word = "CANCEL"    // heartbeat: the user asked to cancel; cancel: the running job has been asked
	// fail, release, reclaim: retries spent or permanent; the dead letter is in the outbox
	Discarded    Word = "FAILED"
	WasCancelled Word = "CANCELLED" // an ending of a job whose cancel was requested; cancel: done at once
	Ended        Word = "ENDED"     // cancel: the job ended before
	Suspect      Word = "SUSPECT"   // reclaim: expired at this look; taken back at a later one
	// reclaim, promote: a set names a job that is not there or not in that state; audit: nobody can explain it
	Quarantined Word = "QUARANTINED"
	Repaired    Word = "REPAIRED" // audit, recount: something was wrong and was put right
	Reported    Word = "REPORTED" // audit, recount: something is wrong that no script may put right
)

// LeaseRef is the proof a worker shows with every write: the script acts only if attempt and token are the stored ones.
type LeaseRef struct {
	ID      ID
	Attempt int
	Token   string // <process nonce>:<claim number>
}

// Lease is a claimed job: the job as it was when claimed (Attempt is this claim's number) and the token to show.
type Lease struct {
	Job
	Token string
}

// Ref is the lease's proof.
func (l *Lease) Ref() LeaseRef { return LeaseRef{ID: l.ID, Attempt: l.Attempt, Token: l.Token} }

// ClaimRequest asks a partition for up to Max jobs. Number must grow with each new claim of a process; the same Number
// again answers the same leases, a lower one answers none.
type ClaimRequest struct {
	Number int64
	Max    int     // at most 100
	Bound  float64 // only scores up to this; +Inf = all
}

// ClaimReply is what a claim took, and the score of the best job left behind (math.Inf(1) if none).
type ClaimReply struct {
	Leases []Lease
	Next   float64
}

// SubmitReply answers one submission: OK, DUPLICATE, REPLAY, MISMATCH, FULL or LATE. First is the job of the first
// submit, for a REPLAY. ArrivedAt is the arrival of the job that is there, for OK and DUPLICATE; zero if that job has
// ended and was forgotten.
type SubmitReply struct {
	Word      Word
	First     ID
	ArrivedAt time.Time
	Living    bool // of a FULL: the tier's share of the living jobs is taken, or of their bytes
}

// Beat extends a lease's crash deadline to Redis' now + Timeout. With Save > 0 the Checkpoint is stored with the job,
// unless one of this lease with the same or a higher Save is there: a copy that was late on its way changes nothing.
type Beat struct {
	LeaseRef
	Timeout    time.Duration
	Save       int // counts the lease's checkpoints from 1; 0 = none
	Checkpoint []byte
}

// Completion reports success. Result is JSON, at most TIERQ_RESULT_LIMIT bytes.
type Completion struct {
	LeaseRef
	Result []byte
}

// Cancellation asks to end a job. Generation 0 means whichever lives.
type Cancellation struct {
	ID         ID
	Generation int
}

// Failure reports that an attempt failed. It costs a retry; if none is left, or Final is set, the job becomes a dead
// letter.
type Failure struct {
	LeaseRef
	Cause Cause
	Error string        // at most 2 KiB, valid UTF-8
	Final bool          // do not retry
	Delay time.Duration // before the next attempt; 0 = back to its place at once
}

// Release returns a job unharmed: no retry is spent. Delay 0 puts it back at its place (release, when draining); a
// positive Delay schedules it (the handler's Later), and its history keeps the Reason; beyond the bounds of Later it
// spends a retry, or fails the job.
type Release struct {
	LeaseRef
	Delay  time.Duration
	Reason string // why a Delay was asked for: valid UTF-8, at most 512 bytes
}

// EndReply answers one completion, failure or give-back: OK, FAILED, CANCELLED or LOST. At is Redis' time of the ending
// as it was first made: a repeat of the same ending gets the same word and time.
type EndReply struct {
	Word Word
	At   time.Time
}

// Watch names one of the two watches over running jobs.
type Watch string

// The watches: the heartbeat (the process died) and the maximum processing time (the job hangs).
const (
	Crashed Watch = "crashed"
	Stuck   Watch = "stuck"
)

// Cause is what a watch writes down when it takes a job back.
func (w Watch) Cause() Cause {
	if w == Crashed {
		return HeartbeatStopped
	}
	return MaxTimeExceeded
}

// Reclaimed is what a look of a watch did with one expired job: SUSPECT, OK (back to its place), FAILED, CANCELLED or
// QUARANTINED. Tier is "" with SUSPECT and QUARANTINED.
type Reclaimed struct {
	ID   ID
	Word Word
	Tier Tier
}

// MaxBatch and MaxBatchBytes bound one script call.
const (
	MaxBatch      = 100
	MaxBatchBytes = 1 << 20
)

// Batches cuts items into script calls: each holds items of one partition, at most MaxBatch of them and about
// MaxBatchBytes, in their order. It calls yield with each and stops when yield says so.
func Batches[T any](items []T, id func(*T) ID, bytes func(*T) int) func(yield func(partition int, batch []T) bool) {
	return func(yield func(int, []T) bool) {
		byPartition := map[int][]T{}
		var order []int
		for i := range items {
			p := id(&items[i]).Partition()
			if _, seen := byPartition[p]; !seen {
				order = append(order, p)
			}
			byPartition[p] = append(byPartition[p], items[i])
		}
		for _, p := range order {
			rest := byPartition[p]
			for len(rest) > 0 {
				n, size := 0, 0
				for n < len(rest) && n < MaxBatch {
					size += bytes(&rest[n])
					if n > 0 && size > MaxBatchBytes {
						break
					}
					n++
				}
				if !yield(p, rest[:n:n]) {
					return
				}
				rest = rest[n:]
			}
		}
	}
}
