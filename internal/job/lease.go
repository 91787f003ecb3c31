package job

import "time"

// Word is a script's answer about one entry. docs/STATES.md lists the words of each script.
type Word string

// The words. An unknown word is an error that names the script.
const (
	OK Word = "OK"
	// submit: the tier's share of the capacity, of the scheduled jobs or of the living jobs is used
	Full      Word = "FULL"
	Quota     Word = "QUOTA"     // submit: the owner has as many living jobs as its quota allows
	Late      Word = "LATE"      // submit, restore: the call arrived after its not_after and did nothing
	Lost      Word = "LOST"      // the lease is not the stored one; nothing changed
	Duplicate Word = "DUPLICATE" // submit, restore: the job (in this or a later generation) exists already
	// restore: an earlier generation lives or is not in SQL yet; forget: it must stay; kill, hasten: the job runs
	Busy     Word = "BUSY"
	Replay   Word = "REPLAY"   // submit: the Idempotency-Key is known; the first submit's job stands
	Mismatch Word = "MISMATCH" // submit: the Idempotency-Key is known with another body
	// submit, of a unique key: the new job is HELD; the holder stands for it; the holder keeps it out; the holder, or the
	// job that is HELD behind it, has its payload now
	IsHeld   Word = "HELD"
	IsUnique Word = "UNIQUE"
	IsTaken  Word = "TAKEN"
	Replaced Word = "REPLACED"
	// claim: an old number; cancel, kill, hasten, acknowledge, audit, forget: no such job to act on
	Empty  Word = "EMPTY"  // expire: the job does not wait for its first claim
	Cancel Word = "CANCEL" // heartbeat: a user cancelled the job; cancel: the running job has the request
	// fail, release, reclaim: no retry is left, or the error is permanent; kill: the job was killed; the dead letter is in
	// the outbox
	Discarded    Word = "FAILED"
	WasCancelled Word = "CANCELLED" // endings: the job's cancel was requested; cancel: the job is cancelled
	WasExpired   Word = "EXPIRED"   // expire: nobody had claimed the job by its time, and it has ended
	// cancel, kill, hasten: the job ended before; forget: the job ended after the given time
	Ended   Word = "ENDED"
	Suspect Word = "SUSPECT" // reclaim: expired, and reclaimed by a later look at the earliest
	// reclaim, promote: a set names a job that does not exist or has another state; audit: the data contradicts
	// itself
	Quarantined Word = "QUARANTINED"
	Off         Word = "OFF"      // of lines of a log: the queue's jobs have no logs; no script says it
	Repaired    Word = "REPAIRED" // audit, recount: a fault was repaired
	Reported    Word = "REPORTED" // audit, recount: a fault that no script may repair
)

// LeaseRef identifies a lease in every report: a script acts only if attempt and token are the stored ones.
type LeaseRef struct {
	ID      ID
	Attempt int
	Token   string // <process nonce>:<claim number>
}

// Lease is a claimed job: the job at the time of the claim (Attempt is this claim's number) and the lease's token.
type Lease struct {
	Job
	Token string
	For   time.Duration // how long the lease lives without a heartbeat; 0 = not known
	Own   bool          // the pool of an embedded server claimed it; set for the journal
}

// Ref returns the lease's LeaseRef.
func (l *Lease) Ref() LeaseRef { return LeaseRef{ID: l.ID, Attempt: l.Attempt, Token: l.Token} }

// Waited returns the time by Redis' clock from the job's arrival (or from when a delayed job was due) to the first
// claim of its generation; -1 for a later claim.
func (l *Lease) Waited() time.Duration {
	if l.StartedAt.IsZero() || !l.StartedAt.Equal(l.FirstTriedAt) {
		return -1
	}
	since := l.ArrivedAt
	if l.RunAt.After(since) { // until then the client wanted the job to wait
		since = l.RunAt
	}
	return max(l.StartedAt.Sub(since), 0)
}

// ClaimRequest asks a partition for up to Max jobs. Number must grow with each new claim of a process. A repeat of
// the last Number gets the same leases, a lower Number gets none.
type ClaimRequest struct {
	Number int64
	Max    int        // at most 100
	Bound  float64    // the highest score to claim; +Inf = all
	Room   *ClaimRoom // for which jobs there are slots; nil = for any

	Elsewhere *Elsewhere // for whom the claim is; nil = for this process, from its own queues
}

// Elsewhere says for which worker outside tierq's processes a claim is. Its Number does not count. A repeat with the
// same Repeat and Delivery gets the same leases. Another Delivery of the same Worker and ID, within 60 s, gets those of
// the last answer's jobs that still run, under new tokens. An earlier one then gets none: one that was answered before,
// or that has a lower Repeat.
type Elsewhere struct {
	Worker string // in tokens and histories; without blanks, and without ':'
	ID     string // of the claim; without blanks, ':' and ','
	Repeat int    // how often the worker had sent the claim before
	// Delivery names the answer that the worker waits for: the repeats of one call have the same. Without blanks, ':',
	// '.' and ','.
	Delivery string
	Queues   []string      // to claim from
	ByName   bool          // inside a tier the queues go in this order, and not the one with the oldest job first
	Lease    time.Duration // how long a lease lives without a heartbeat; 0 = Plan.Lease of its tier
	Low      float64       // the lowest score to claim; -Inf = any
}

// ClaimReply has the leases of a claim, and the score of the best job left that the claim may have (math.Inf(1) if
// there is none). PassedOver says that there are others, for which ClaimRequest.Room has no slots. Expired counts jobs
// that the claim ended in the place of leases, because nobody had claimed them by their time.
type ClaimReply struct {
	Leases     []Lease
	Next       float64
	PassedOver bool
	Expired    int
	Now        time.Time // Redis' time at the claim
}

// SubmitReply is the answer to one submission: OK, HELD, DUPLICATE, REPLAY, MISMATCH, UNIQUE, TAKEN, REPLACED, FULL,
// QUOTA or LATE. First is the other job of a REPLAY, UNIQUE, TAKEN or REPLACED. ArrivedAt is the arrival of the
// accepted job, for OK, HELD and DUPLICATE; it is zero if that job has ended and Redis has forgotten it. Due is when a
// REPLACED job is due; the zero time = at once, or as soon as it is not HELD any more.
type SubmitReply struct {
	Word      Word
	First     ID
	ArrivedAt time.Time
	Due       time.Time
	Living    bool // for FULL: the tier's share of the living jobs, or of their bytes, is used
	Queue     bool // for FULL: the job's queue has as many jobs as it may have
	Line      bool // with FULL: the key of its line has as many jobs as its limit allows
}

// Beat extends a lease's crash deadline to Redis' now + Timeout. With Save > 0 the Checkpoint is stored with the
// job, unless this lease has stored one with the same or a higher Save: a late copy changes nothing.
type Beat struct {
	LeaseRef
	Timeout    time.Duration
	Save       int // the checkpoint's number, from 1 per lease; 0 = no checkpoint
	Checkpoint []byte
	Step       int64     // the progress' number, from 1 per lease; 0 = it has none, and is later than all before
	Progress   *Progress // nil = it is not told; an earlier Step replaces no later one
}

// Completion reports success. Result is JSON, at most TIERQ_RESULT_LIMIT bytes.
type Completion struct {
	LeaseRef
	Result []byte
}

// Cancellation asks to cancel a job. Generation 0 means any generation.
type Cancellation struct {
	ID         ID
	Generation int
}

// Killing asks to make a dead letter of a waiting job, in this generation and no other.
type Killing struct {
	ID         ID
	Generation int
	Reason     string // the error of the dead letter; see KillReason
}

// KillReason returns the error of a dead letter whose job was killed: why, in the caller's words, if the caller said
// so.
func KillReason(reason string) string {
	if reason == "" {
		return "killed, no reason given"
	}
	return reason
}

// Failure reports that an attempt failed. It costs a retry; if none is left, or Final is set, the job becomes a dead
// letter.
type Failure struct {
	LeaseRef
	Cause Cause
	Error string        // at most 2 KiB, valid UTF-8
	Final bool          // do not retry
	Delay time.Duration // the wait before the next attempt; 0 = back to its place at once
}

// Release gives a job back without spending a retry. Delay 0 puts the job back at its place (when draining). A
// positive Delay schedules it (the handler's Later), and its history keeps the Reason. Beyond the limits of Later
// it spends a retry, or fails a job without one.
type Release struct {
	LeaseRef
	Delay  time.Duration
	Reason string // why the handler asked for a Delay: valid UTF-8, at most 512 bytes
	// Returned says that the worker was there and gave the job back without a Delay. If that happens again and again the
	// store delays the job.
	Returned bool
}

// EndReply is the answer to one completion, failure or release: OK, FAILED, CANCELLED or LOST. At is Redis' time
// of the first call for this ending: a repeat of the same ending gets the same word and time. At is zero for LOST.
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

// Cause returns the cause that a watch looks for. The stuck watch records HeartbeatStopped for a worker that has been
// silent as well.
func (w Watch) Cause() Cause {
	if w == Crashed {
		return HeartbeatStopped
	}
	return MaxTimeExceeded
}

// Reclaimed is the result of a watch's look at one expired job: SUSPECT, OK (back to its place), FAILED, CANCELLED
// or QUARANTINED. Tier and Cause are "" with SUSPECT and QUARANTINED. Of an OK it has the attempt that ended, how many
// retries that spent, and 1 if it counts as a crash.
type Reclaimed struct {
	ID    ID
	Word  Word
	Tier  Tier
	Cause Cause

	Attempt, Spent, Crashed int
}

// MaxBatch and MaxBatchBytes bound one script call: entries, and roughly bytes.
const (
	MaxBatch      = 100
	MaxBatchBytes = 1 << 20
)

// Batches splits items into script calls: each call has items of one partition, at most MaxBatch of them and about
// MaxBatchBytes, in their order. It calls yield with each and stops when yield returns false.
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
