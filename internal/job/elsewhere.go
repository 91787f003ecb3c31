package job

import "time"

// This file has the words for workers outside tierq's processes. Such a worker shows a sealed lease with each call: a
// text that only tierq can read, bound to the worker's API key.

// WorkerClaim asks for jobs.
type WorkerClaim struct {
	Key    string // the id of the caller's API key; "" = none
	Worker string // the worker's own name
	ID     string // the claim's
	Repeat int    // how often the worker had sent the claim before
	Queues []string
	ByName bool   // inside a tier the queues go in this order, and not the one with the oldest job first
	Tiers  []Tier // none = all
	Max    int
	Wait   time.Duration // how long to wait for a job
	Lease  time.Duration // how long a lease lives without a heartbeat; 0 = Plan.Lease of its tier
}

// WorkerLease is a lease for its worker. Until and Ends are times of this process' own clock, at which Redis has not
// passed the deadline yet.
type WorkerLease struct {
	Lease
	Sealed string
	For    time.Duration // how long the lease lives without a heartbeat
	Until  time.Time     // when it ends without a heartbeat
	MaxRun time.Duration // how long the attempt may run, from StartedAt
	Ends   time.Time     // when the attempt must have ended
}

// BeatEvery returns how often the holder of a lease sends a heartbeat: three times per lease, and at least every two
// seconds, so that progress and cancels are seen soon.
func BeatEvery(lease time.Duration) time.Duration { return min(lease/3, 2*time.Second) }

// WorkerBeat extends a sealed lease.
type WorkerBeat struct {
	Sealed     string
	Extend     time.Duration // by how much, from now; 0 = as long as it was claimed for
	Save       int           // the checkpoint's number, from 1; 0 = no checkpoint
	Checkpoint []byte        // JSON
	Step       int64         // the progress' number, from 1; 0 = the worker does not number what it tells
	Progress   *Progress     // how far the attempt is; nil = it is not told
}

// WorkerPulse is the answer to a WorkerBeat: OK or CANCEL, and until when the lease lives, as in WorkerLease; or LOST.
type WorkerPulse struct {
	Word  Word
	For   time.Duration
	Until time.Time
	Err   error // with LOST: job.ErrBadLease for a text that is no lease
}

// WorkerLog adds lines to the log of the job of a sealed lease. From is the number of the first line, which the worker
// counts from 1 per lease; the others follow it. 0 = they come behind the last line, and a repeat adds them again.
type WorkerLog struct {
	Sealed string
	From   int
	Lines  []LogEntry // without leases and numbers
}

// WorkerLogged is the answer to a WorkerLog: OK or LOST, or OFF where the queue's jobs have no logs.
type WorkerLogged struct {
	Word Word
	Err  error // ErrBadLease
}

// WorkerReport says how the attempt of a sealed lease ended.
type WorkerReport struct {
	Sealed string
	Report
}

// WorkerEnd is the answer to a WorkerReport.
type WorkerEnd struct {
	ID                     ID
	How                    Ending
	Cause                  Cause // of a RETRIED and a FAILED
	At                     time.Time
	RunAt                  time.Time // of a job that waits for a time: when it is due
	RetryCount, MaxRetries int
	// ErrBadLease, ErrLeaseLost, or an error of the store: the same report may then be sent again.
	Err error
}
