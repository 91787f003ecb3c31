package httpapi

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Submitter accepts jobs. Its errors are job.ErrUnknownTier, job.ErrUnhealthy, job.ErrQueueFull, job.ErrMismatch
// and job.ErrFateUnknown (with the id). If a refusal has a method RetryIn() time.Duration, it says when to try
// again.
type Submitter interface {
	Submit(ctx context.Context, s job.Submission) (job.Accepted, error)
	// SubmitBatch returns one answer and one error for each submission, in their order. The error is nil if the
	// submission was accepted.
	SubmitBatch(ctx context.Context, batch []job.Submission) ([]job.Accepted, []error)
	// Hint estimates how long a job of this tier takes from its submit to its end.
	Hint(t job.Tier) time.Duration
}

// Jobs finds jobs in Redis and in SQL. Its errors are job.ErrNotFound, job.ErrUnavailable and job.ErrAmbiguous.
type Jobs interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
	// Whole adds the stored payload and options to a job that Find returned. kept is false if neither is stored any
	// more; the job then has neither.
	Whole(ctx context.Context, j job.Job) (whole job.Job, kept bool, err error)
	// Attempts returns the stored attempts, which are those that did not end well, of all generations, oldest first.
	Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error)
	// Logs returns the lines of the job's log behind a line, of all generations, oldest first; after 0 = from the
	// beginning. A job without a log has none.
	Logs(ctx context.Context, id job.ID, after int64) ([]job.LogLine, error)
	// List returns a page and the cursor of the next page, "" at the end. A page with fewer than limit jobs may still
	// have a next one. job.ErrBadCursor: the cursor is not from this list.
	List(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error)
	// Reasons returns the reasons that were given for cancelling, requeueing and dismissing the job.
	Reasons(ctx context.Context, j *job.Job) ([]job.Reason, error)
	// Cancel returns job.WasCancelled (the job is cancelled) or job.Cancel (its worker is told to stop). A repeat gets
	// the same answer. The reason ("" = none) is stored first. job.ErrWrongState: the job has ended. job.ErrNotKept:
	// the reason cannot be stored, and nothing was done. job.ErrAmbiguous: the job may have been cancelled.
	Cancel(ctx context.Context, id job.ID, reason string) (job.Word, error)
	// Kill makes a dead letter of a SCHEDULED or PENDING job. nil = it is one, also after a repeat. job.ErrWrongState:
	// the job runs, or has ended otherwise. job.ErrAmbiguous: the job may have been killed.
	Kill(ctx context.Context, id job.ID, reason string) error
	// Hasten makes a SCHEDULED job PENDING. nil = it is, also after a repeat. The errors are those of Kill.
	Hasten(ctx context.Context, id job.ID) error
}

// DeadLetters lists the jobs that failed for good and have been neither requeued nor dismissed.
type DeadLetters interface {
	Dead(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error)
	DeadPage(ctx context.Context, f job.Filter, page, size int) (items []job.DeadLetter, total int64, err error)
	EachDead(ctx context.Context, f job.Filter, yield func(job.DeadLetter) error) error
}

// Requeuer requeues dead jobs, or dismisses their letters.
type Requeuer interface {
	// Requeue promises to requeue a job: nil = it will happen. A repeat with the same request.ID is the same promise.
	// job.ErrWrongState: the job is not FAILED. job.ErrAmbiguous: it may happen.
	Requeue(ctx context.Context, id job.ID, request job.Request) error
	// RequeueOwn is Requeue for the job's owner, within the tier's share (job.ErrQueueFull) and the owner's quota
	// (job.ErrQuota; 0 = no quota).
	RequeueOwn(ctx context.Context, id job.ID, request job.Request, quota int) error
	// RequeueDead requeues at most limit dead letters that match f; with dryRun it only counts them. With
	// job.ErrAmbiguous more of them may have been requeued than it returns.
	RequeueDead(
		ctx context.Context,
		f job.Filter,
		limit int,
		dryRun bool,
		reason string,
	) (matched, requeued int, err error)
	// Dismiss takes a dead letter off the list. nil = it is off, also after a repeat. job.ErrWrongState: the job is not
	// FAILED, or somebody requeues it. job.ErrAmbiguous: it may be off.
	Dismiss(ctx context.Context, id job.ID, reason string) error
}

// Waiter waits for changes of jobs.
type Waiter interface {
	// Await returns the job when done returns true for it; a nil done waits for the job's end. If ctx or the process
	// ends first, Await returns the job's present state and a nil error.
	Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error)
	// Follow calls heard with the present state of the job and again after each change, until the job has ended or
	// heard fails. What a running handler tells, progress and lines of its log, is a change too. The error is nil also
	// if the process ends.
	Follow(ctx context.Context, id job.ID, heard func(job.Job) error) error
}

// Events streams the changes of all jobs. Stream continues after the message lastID, "" = from now on.
type Events interface {
	Stream(lastID string) Subscription
}

// Subscription is one listener's share of Events. Its channel may be closed when no more messages come.
type Subscription interface {
	C() <-chan job.Message
	Close()
}

// QueuePosition says where jobs stand in the queue and how fast the queue moves.
type QueuePosition interface {
	// Position counts the ready jobs that go before j, over all tiers and partitions.
	Position(ctx context.Context, j *job.Job) (int64, error)
	// Rate returns how many jobs end per second, over all processes; 0 = not known.
	Rate() float64
	// LineOf returns where j, which has a line, stands in it.
	LineOf(ctx context.Context, j *job.Job) (job.LinePlace, error)
}

// Readiness reports whether this process should get traffic.
type Readiness interface {
	Ready(ctx context.Context) Report
}

// Types knows the job types. Check returns nil, job.ErrUnknownType or an error that wraps job.ErrBadPayload.
type Types interface {
	Check(typ string, payload []byte) error
	Types() []string
}

// Plans reads and changes the plans of the tiers.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
	All() []job.Plan
	// StorePlan stores a plan and returns it with its new version. ifVersion is the version that it must replace: 0 =
	// the tier must be new, -1 = any version. job.ErrChanged: another version is stored. job.ErrBadPlan: the plan
	// cannot be served. job.ErrAmbiguous: it may have been stored.
	StorePlan(ctx context.Context, p job.Plan, ifVersion int64) (job.Plan, error)
}

// Queues reads and changes the declared queues.
type Queues interface {
	Find(name string) (job.Queue, bool)
	All() []job.Queue
	// For returns the queue for jobs of a type that this server does not run, whose submit names no queue.
	For(typ string) (job.Queue, bool)
	// Count returns how many of a queue's jobs have not ended.
	Count(name string) job.QueueCount
	// Limit returns how many jobs of a declared queue may be ready, and never claimed.
	Limit(q job.Queue) int
	// StoreQueue stores a queue and returns it with its new version. ifVersion is the version that it must replace: 0 =
	// the queue must be new, -1 = any version. job.ErrChanged: another version is stored. job.ErrBadQueue: the queue
	// cannot be declared. job.ErrAmbiguous: it may have been stored.
	StoreQueue(ctx context.Context, q job.Queue, ifVersion int64) (job.Queue, error)
	// DeleteQueue removes a declaration. job.ErrUnknownQueue: there is none. job.ErrQueueInUse: the queue has jobs.
	DeleteQueue(ctx context.Context, name string) error
	// PurgeQueue cancels ready jobs of a queue, some thousand at most; more: there may be others. After an error it has
	// cancelled as many as it says.
	PurgeQueue(ctx context.Context, name string) (cancelled int, more bool, err error)
}

// Pauses reads and changes what is paused.
type Pauses interface {
	All() job.Pauses
	Find(scope string) (job.Pause, bool)
	// Readers returns which version of the pauses each process has that claims jobs.
	Readers(ctx context.Context) ([]PauseReader, error)
	// Pause pauses what p.Scope names. job.ErrBadScope, job.ErrUnknownTier, job.ErrUnknownQueue.
	Pause(ctx context.Context, p job.Pause) (job.Pause, error)
	// Resume ends a pause, and returns it; on is false if there was none.
	Resume(ctx context.Context, scope string) (was job.Pause, on bool, err error)
}

// Schemas checks payloads by the JSON Schemas of queues. Compile returns a schema as it is stored, or an error that
// says what is wrong with it. Check returns nil, an error that wraps job.ErrBadPayload, or that of an unreadable
// schema.
type Schemas interface {
	Compile(text []byte) (compact string, err error)
	Check(schema string, payload []byte) error
}

// Leases hands out leases to workers outside tierq's processes, and takes their reports. key is the id of the caller's
// API key. An error of the store means that the same call may be sent again.
type Leases interface {
	// Claim waits until a job is there, c.Wait is over or the process drains. The worker is owed what it returns: where
	// the answer cannot be sent, GiveBack releases the leases.
	Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error)
	GiveBack(leases []job.WorkerLease)
	// Heartbeat answers each lease. job.ErrBadLease: one of the texts is no lease, and none was extended.
	Heartbeat(ctx context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error)
	// AddLines answers each lease. With an error some lines may have been added, and those with numbers may be sent
	// again.
	AddLines(ctx context.Context, key string, logs []job.WorkerLog) ([]job.WorkerLogged, error)
	// End answers each report.
	End(ctx context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd
	// Draining says whether claims find nothing because the process ends.
	Draining() bool
	// See notes that a worker has called, and Asked says what an operator asks of it.
	See(s job.WorkerSight)
	Asked(key, worker string) job.WorkerState
}

// Workers are all workers, of all processes, and what operators ask of them.
type Workers interface {
	// Workers lists those that were heard of lately, by name.
	Workers() []job.WorkerInfo
	// AskWorker asks something of a worker, from about a second later on. job.ErrAmbiguous: it may be asked.
	AskWorker(ctx context.Context, name string, state job.WorkerState) error
}

// Artifacts opens the files that jobs made; job.ErrNoArtifact if the job has none. The caller closes body. A
// negative size is not known.
type Artifacts interface {
	Artifact(ctx context.Context, id job.ID) (body io.ReadCloser, name, contentType string, size int64, err error)
}

// Overview reports on the system as a whole.
type Overview interface {
	Stats(ctx context.Context) (Stats, error)
	Why(ctx context.Context, id job.ID) (Why, error)
	Health(ctx context.Context) Health
}

// Route is an address that another room serves, such as the description of the API. Path is in gin's syntax (:name,
// *rest).
type Route struct {
	Method, Path string
	Handler      http.Handler
	Permission   Permission // required: the zero value refuses every caller
}

// Deps has what the handlers need. A field that is not marked as optional is required for its routes.
type Deps struct {
	Submit    Submitter
	Queues    Queues
	Pauses    Pauses
	Strict    bool // tiers do not overlap
	Lines     Lines
	Schedules Schedules
	Batches   Batches
	Leases    Leases
	Workers   Workers
	Flows     Flows
	Jobs      Jobs
	Dead      DeadLetters
	Requeue   Requeuer
	Wait      Waiter
	Events    Events
	Line      QueuePosition
	Ready     Readiness
	Types     Types
	Schemas   Schemas
	Plans     Plans
	Artifacts Artifacts
	Overview  Overview
	Charts    Charts
	Audit     Audits
	Doors     Doors   // nil = an open server: every caller may do everything
	Keys      Keys    // optional: without it no keys are made or listed
	Changes   Changes // optional: without it nothing is recorded

	Gateways Gateways // optional: without it keys have no passwords for gateways

	// Insecure lets an open server answer to any host name: its operator has confirmed that others may reach it.
	Insecure bool
	// TrustedProxies are the networks whose X-Forwarded-For is believed; none = no proxy is trusted.
	TrustedProxies []netip.Prefix
	// Redact names the members of payloads and results that read-only callers do not see, by job type; "*" hides
	// everything.
	Redact map[string][]string

	// CheckURL returns why a callbackUrl is refused, in words for its sender. If the field is nil, no callbackUrl is
	// accepted.
	CheckURL func(url string) error
	// WebhookKeys returns the secret and the public key with which receivers verify an owner's messages, "" if the
	// owner has none. Optional: without it no caller is shown any.
	WebhookKeys func(owner string) (secret, public string)
	// FaktoryURL returns where the Faktory gateway listens, tcp://host:port or tcp+tls://host:port; "" = nowhere in this
	// process. A host that means all addresses (0.0.0.0) becomes the host of the request. Optional: without it the
	// gateway's address is port 7419 of that host.
	FaktoryURL func() string
	// Trace begins the span of a submit below the caller's span. end ends it with the job's id. Optional.
	Trace func(ctx context.Context, t job.Tier, traceID, parentSpan string) (spanID string, end func(job.ID, error))
	// Metrics serves /metrics; the profiles of /debug/pprof are served along with it. nil = neither is served.
	Metrics http.Handler
	// Pages are served to browsers. Live is the dashboard's stream, for operators; nil = there is none. The contract
	// does not cover their answers.
	Pages []Page
	Live  http.Handler
	Lost  http.Handler // answers a browser that asks for a page that does not exist; nil = a problem in JSON
	// HealthOnly limits the addresses to /livez, /readyz, Metrics and Extra, and /actuator/health if there is an
	// Overview. It is for a listener besides the API's, or for a process without the api role. Only Ready is required
	// then.
	HealthOnly bool
	// OneWord limits the health answers of an open server to one word. With keys, callers who are not operators get
	// one word anyway.
	OneWord bool
	Extra   []Route // more addresses, with the same headers and the same handling of panics

	Partitions   int // of the queue
	PayloadLimit int // bytes of one payload; 64 KiB if not positive
	Requests     int // under way at once, over all connections; unbounded if not positive
	Waiting      int // long-polls and streams at once, in this process; 5000 if not positive
	Log          *slog.Logger
	Now          func() time.Time // the host's clock, which only stamps answers. Optional
	Clock        func() time.Time // Redis' clock, which decides when a job is due. Now if nil
}

func (d Deps) withDefaults() Deps {
	if d.PayloadLimit <= 0 {
		d.PayloadLimit = 64 << 10
	}
	if d.Waiting <= 0 {
		d.Waiting = 5000
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Clock == nil {
		d.Clock = d.Now
	}
	return d
}
