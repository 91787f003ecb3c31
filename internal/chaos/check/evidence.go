// Package check is the judge of a chaos run: from what the clients saw, what the handlers did, which faults landed and
// what the stores hold at rest it says which promises were broken. It knows nothing of how the run was made, and shares
// no code with the server but the words.
package check

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Fate is what a client knows of its request.
type Fate string

// The fates, as Jepsen has them.
const (
	OK      Fate = "ok"      // 2xx: it was done
	Fail    Fate = "fail"    // a definite refusal: it was not done and never will be
	Unknown Fate = "unknown" // a timeout, a cut connection, 504: it may have been done
)

// Op is one request that changes something.
type Op struct {
	Kind string // submit, cancel, requeue
	// the client's own name of the job; it is in the payload too. One key is submitted again only with an Idempotency-Key
	Key  string
	ID   job.ID // "" = the client never learned it
	Tier job.Tier
	Type string
	Sum  string // SHA-256 of the payload, of a submit
	Once string // the Idempotency-Key, of a submit; the name of the request, of a requeue; "" = none
	// the trace id it was sent with; the entries of a batch share one. The stores keep it: it names a job whose id was
	// never learned
	Trace    string
	Delay    time.Duration
	Sent     time.Time
	Answered time.Time
	Server   string // the address of the server that it was sent to; "" = not recorded
	Fate     Fate
	Status   int // HTTP; 0 = no answer
	Code     string
	// What the payload asks for: so many first attempts do not end well, so many first ones kill their process, all may
	// overrun their time.
	Fails, Crashes int
	Hangs          bool
	Generation     int // of a requeue: the dead generation; 0 = unknown
}

// Poll is one answer about a job.
type Poll struct {
	By         string // the poller
	ID         job.ID
	Sent, At   time.Time // asked, answered
	HTTP       int
	Status     job.Status // "" unless HTTP is 200
	Generation int
	ResultSum  string // SHA-256 of the result; "" = none
}

// Run is one execution of a handler, as the handler itself wrote it down.
type Run struct {
	ID         job.ID
	Key        string
	Generation int
	Attempt    int
	Worker     string // pid
	Sum        string // SHA-256 of the payload that it was given
	Began      time.Time
	Ended      time.Time // zero: it never came to its end
	Result     string    // SHA-256 of what it returned, "" if it failed
	Why        string    // its context had ended when it failed, and why
}

// Fault is one that landed; one that missed is not here.
type Fault struct {
	Kind     string // F01, F10, ...
	What     string
	Target   string // a worker's pid, redis, mysql; "" = all
	From, To time.Time
	Evidence string
	Kills    int // processes that it killed; Target, if it is one of them, was gone at From
	// Repeats: it may be the reason that a job whose lease overlaps it is run again. ForgetsAcked: Redis may have
	// forgotten what it had answered.
	Repeats, ForgetsAcked bool
	Keeps                 Keeps // what survives although Redis forgot it
	// Froze is the address of the server whose process was frozen at From and went on at To; "" = no server was frozen.
	Froze string
}

// Keeps says which answers a server keeps to although its Redis forgot them: SQL has them.
type Keeps struct {
	Ends     bool // an end that a poll showed
	Lives    bool // a generation that a poll showed
	Cancels  bool // a cancel that was answered with 2xx
	Attempts bool // the number of every attempt whose handler began
}

// Outcome is a row of job_outcomes, with the rows that belong to it.
type Outcome struct {
	ID           job.ID
	Generation   int
	Outcome      job.Status
	Attempt      int
	RetryCount   int
	MaxRetries   int
	Tier         job.Tier
	Type         string
	Trace        string
	Results      int // rows of job_results for the id and generation
	Dead         int // rows of failed_jobs
	ResultSum    string
	Requeued     bool // of a dead letter: requeued_at is set
	ArrivedAt    time.Time
	FirstTriedAt time.Time
	StartedAt    time.Time
	EndedAt      time.Time
	Tries        []job.Attempt // its rows of job_attempts
}

// Sums are counts that somebody else made of the same things: what the servers say, or the tables as a whole.
type Sums struct{ Accepted, Completed, Failed, Cancelled int }

// Evidence is everything that a run left behind.
type Evidence struct {
	Ops      []Op
	Polls    []Poll
	Runs     []Run
	Faults   []Fault
	Outcomes []Outcome
	Redis    []string          // what the audit of every partition found wrong at rest
	Live     map[job.ID]string // what Redis still holds: id -> "STATUS generation"
	Places   map[string]int    // sizes of the sets and counters at rest, by the scripts' names
	Journal  []job.ID          // rows of accepted_jobs at rest; nil = the journal is off
	// rows of job_results, failed_jobs and cancelled job_outcomes (Accepted is 0); nil = not counted
	Tables  *Sums
	Metrics *Sums // what all servers together said; nil = some of them died, so that nobody knows
	Plans   map[job.Tier]job.Plan
	Quiet   time.Time     // when the last fault was over
	Rested  time.Time     // when everything had come to rest; zero = it did not
	Bound   time.Duration // by when it had to
	// KeyLife is how long an Idempotency-Key stands for its job; 0 = nothing says when a key expires.
	KeyLife time.Duration
}
