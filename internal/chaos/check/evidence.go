// Package check is the judge of a chaos run. From what the clients saw, what the handlers did, which faults landed
// and what the stores have at rest, it derives which promises were broken. It does not know how the run was made.
// It shares no code with the server except the types of internal/job and an error's text.
package check

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Fate is what a client knows about the outcome of its request.
type Fate string

// The fates are those of Jepsen.
const (
	OK      Fate = "ok"      // 2xx: the request was executed
	Fail    Fate = "fail"    // a definite refusal: the request was not executed and never will be
	Unknown Fate = "unknown" // a timeout, a cut connection, 504: the request may have been executed
)

// Op is one request that changes something.
type Op struct {
	Kind string // submit, cancel, requeue, or of a batch: MakeBatch, SealBatch, CancelBatch
	// Key is the client's own name of the job. The payload has it too. A key is submitted again only with an
	// Idempotency-Key.
	Key  string
	ID   job.ID // "" = the client never learned it, nor, of a push, did anyone who had the job
	Tier job.Tier
	Type string
	Sum  string // of a submit: the SHA-256 of the payload
	Once string // the Idempotency-Key; "" = none
	// Trace is the trace id that the request was sent with. The entries of a batch share one. The stores keep it, so
	// that it identifies a job whose id the client never learned.
	Trace    string
	Delay    time.Duration
	Sent     time.Time
	Answered time.Time
	Server   string // the address of the server that the request was sent to; "" = not recorded
	Fate     Fate
	Status   int // HTTP; 0 = no answer
	Code     string
	// The payload asks for these: the first Fails attempts do not end well, the first Crashes attempts kill their
	// process, and with Hangs all attempts may exceed their time.
	Fails, Crashes int
	Hangs          bool
	Unique         Unique
	Line           string // of a submit: the key of its line; "" = none
	// Flow is of a submit: the name of its flow; "" = none. After has the keys of the jobs that it waits for, however
	// these end.
	Flow  string
	After []string
	// Batch is the name of the batch that a submit adds a member to, or that the op makes, seals or cancels; "" = none.
	// The op that makes a batch describes the then job: Key, Type, Tier and Sum are those of its payload.
	Batch      string
	On         job.ThenOn // of the op that makes a batch
	Schedule   string     // of a submit: the schedule that made the job, because it was asked or by itself; "" = none
	Generation int        // of a requeue: the dead generation; 0 = unknown
}

// Poll is the answer to one poll of a job.
type Poll struct {
	By         string // the poller
	ID         job.ID
	Sent, At   time.Time // when it was asked, and answered
	HTTP       int
	Status     job.Status // "" unless HTTP is 200
	Generation int
	ResultSum  string // SHA-256 of the result; "" = none
}

// Run is one execution of a handler, as the handler itself recorded it.
type Run struct {
	ID         job.ID
	Key        string
	Generation int
	Attempt    int
	Worker     string // pid
	Sum        string // SHA-256 of the payload that the handler got
	Began      time.Time
	Ended      time.Time        // zero: the handler did not reach its end
	Result     string           // SHA-256 of the result; "" if the handler failed
	Why        string           // why the handler's context had ended when it failed; "" = it had not
	Batch      *job.BatchCounts // the counts in the payload of a then job; nil = another job
	// These are set for a run by a worker of another program, whose name is in Worker. Lease is the number of its lease;
	// 0 = a server's handler ran. The lease lives until Held at least, as the servers told the worker. The servers tell a
	// Faktory worker nothing: they extend its lease until Lives at most; zero = Held.
	Lease int
	Held  time.Time
	Lives time.Time
}

// WorkerCall is one call of a worker of another program about one lease.
type WorkerCall struct {
	Verb       string // heartbeat, complete, fail, release
	ID         job.ID
	Generation int
	Attempt    int
	Worker     string
	Lease      int    // the number of the lease, which the worker's Run has too
	Result     string // of a complete: SHA-256 of the result
	Stranger   bool   // the call came with another worker's key
	Sent       time.Time
	Answered   time.Time     // when the answer came, or the worker gave up
	HTTP       int           // 0 = no answer, or one of the Faktory protocol: it does not say whether the call counted
	Word       string        // of the answer: an outcome, the word about a heartbeat, or an error code
	For        time.Duration // of a heartbeat that was answered with OK or CANCEL: how long the lease lives from then on
}

// Fault is a fault that landed. The evidence has no faults that missed.
type Fault struct {
	Kind     string // F01, F10, ...
	What     string
	Target   string // a worker's pid, redis, mysql; "" = all
	From, To time.Time
	Evidence string
	Kills    int // how many processes the fault killed; Target, if it is one of them, was gone at From
	// Repeats: the fault may be the reason that a job is run again if the job's lease overlaps the fault.
	// ForgetsAcked: Redis may have forgotten what it had answered.
	Repeats, ForgetsAcked bool
	Keeps                 Keeps // what the servers still know although Redis forgot it
	// Froze is the address of the server whose process was frozen at From and went on at To; "" = no server was
	// frozen.
	Froze  string
	Server string // the address of the server whose process or connections the fault broke; "" = of no single server
}

// Keeps says which answers the servers stand by although their Redis forgot them, because SQL has them.
type Keeps struct {
	Ends     bool // an end that a poll showed
	Lives    bool // a generation that a poll showed
	Cancels  bool // a cancel that was answered with 2xx
	Attempts bool // the number of every attempt whose handler began
	Leases   bool // the lease of an external worker, which then lives for leastKept at least
}

// Outcome is an outcome that SQL has, with the rows of its generation.
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

// Sums are another count of the same outcomes: that of the servers' metrics, or of the tables as a whole.
type Sums struct{ Accepted, Completed, Failed, Cancelled int }

// Evidence is everything that a run leaves behind.
type Evidence struct {
	Ops      []Op
	Polls    []Poll
	Runs     []Run
	Calls    []WorkerCall // of the workers of other programs
	Faults   []Fault
	Outcomes []Outcome
	Redis    []string          // what the audit of every partition found wrong at rest
	Live     map[job.ID]string // what Redis has at rest: id -> "STATUS generation"
	Places   map[string]int    // the sizes of the sets and the counters at rest, by the scripts' names
	Journal  []job.ID          // rows of accepted_jobs at rest; nil = the journal is off
	// Tables counts the rows of job_results, of failed_jobs and of cancelled job_outcomes (Accepted is 0); nil = not
	// counted.
	Tables  *Sums
	Metrics *Sums // the sum of all servers' metrics; nil = some servers died and took their counts along
	Plans   map[job.Tier]job.Plan
	// Outside has the times of the jobs of the type Elsewhere: HeartbeatTimeout is the length of a lease,
	// MaxProcessingTime that of their queue. The rest is their tier's.
	Outside job.Plan
	// Lines are the limits that keys of lines have from before the first submit on.
	Lines       map[string]job.LineLimits
	Pauses      []Pause
	Batches     []Batch     // as SQL has them at rest, with their members
	BatchesSeen []BatchSeen // by the clients
	Holds       []Hold
	Schedules   Schedules
	Quiet       time.Time     // when the last fault was over
	Rested      time.Time     // when everything was at rest; zero = it never was
	Bound       time.Duration // how long after Quiet everything has to be at rest
	// KeyLife is how long an Idempotency-Key stands for its job; 0 = the checker does not know when a key expires.
	KeyLife time.Duration
}
