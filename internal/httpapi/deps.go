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

// Submitter lets jobs in. Its errors are job.ErrUnknownTier, job.ErrUnhealthy, job.ErrQueueFull, job.ErrMismatch and
// job.ErrFateUnknown (with the id). A refusal that has a method RetryIn() time.Duration says when to come again.
type Submitter interface {
	Submit(ctx context.Context, s job.Submission) (job.Accepted, error)
	// SubmitBatch answers every submission by itself, in their order: one answer and one error, nil if it was accepted,
	// for each.
	SubmitBatch(ctx context.Context, batch []job.Submission) ([]job.Accepted, []error)
	// Hint guesses how long a job of this tier takes from here to its end.
	Hint(t job.Tier) time.Duration
}

// Jobs finds jobs wherever they are kept: job.ErrNotFound, job.ErrUnavailable or job.ErrAmbiguous if it cannot.
type Jobs interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
	// Whole adds the payload and the options that are kept of a job that Find found; kept is false for one that keeps
	// neither any more, and has neither then.
	Whole(ctx context.Context, j job.Job) (whole job.Job, kept bool, err error)
	// Attempts are those that did not end well, of all generations, oldest first.
	Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error)
	// List returns a page and the cursor of the next, "" at the end; job.ErrBadCursor. A page may be short and still have
	// a next one.
	List(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error)
	// Reasons are why the job was cancelled and requeued.
	Reasons(ctx context.Context, j *job.Job) ([]job.Reason, error)
	// Cancel answers job.WasCancelled (done) or job.Cancel (its worker is told); job.ErrWrongState if the job has
	// ended. Asked again it answers the same. job.ErrAmbiguous: it may have been done. A reason ("" = none) is kept
	// before; job.ErrNotKept: it cannot be, and nothing was done.
	Cancel(ctx context.Context, id job.ID, reason string) (job.Word, error)
}

// DeadLetters are the jobs that failed for good and that nobody has requeued.
type DeadLetters interface {
	Dead(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error)
	DeadPage(ctx context.Context, f job.Filter, page, size int) (items []job.DeadLetter, total int64, err error)
	EachDead(ctx context.Context, f job.Filter, yield func(job.DeadLetter) error) error
}

// Requeuer gives dead jobs a new life.
type Requeuer interface {
	// Requeue promises it: nil = it will happen. The same request.ID is the same promise. job.ErrWrongState unless the
	// job is FAILED; job.ErrAmbiguous: it may happen.
	Requeue(ctx context.Context, id job.ID, request job.Request) error
	// RequeueOwn is Requeue for the job's owner, within his tier's share and his quota (0 = none): job.ErrQueueFull,
	// job.ErrQuota.
	RequeueOwn(ctx context.Context, id job.ID, request job.Request, quota int) error
	// RequeueDead counts those it knows of: with job.ErrAmbiguous there may be more.
	RequeueDead(
		ctx context.Context,
		f job.Filter,
		limit int,
		dryRun bool,
		reason string,
	) (matched, requeued int, err error)
}

// Waiter waits for jobs to change.
type Waiter interface {
	// Await returns the job when done says so, nil = when it has ended; or, with the state it is in and a nil error, when
	// ctx or the process ends.
	Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error)
	// Follow calls heard for the state the job is in and for each change, until it has ended; a nil error also when the
	// process ends.
	Follow(ctx context.Context, id job.ID, heard func(job.Job) error) error
}

// Events is everything that happens. Stream goes on behind the message lastID, "" = from now on.
type Events interface {
	Stream(lastID string) Subscription
}

// Subscription is one listener's part of Events. Its channel may be closed when there is nothing more to come.
type Subscription interface {
	C() <-chan job.Message
	Close()
}

// QueuePosition is the queue as those who wait in it see it.
type QueuePosition interface {
	// Position counts the ready jobs that go before j, over all tiers and partitions.
	Position(ctx context.Context, j *job.Job) (int64, error)
	// Rate is how many jobs end per second, over all processes; 0 = not known.
	Rate() float64
}

// Readiness says whether this process should get traffic.
type Readiness interface {
	Ready(ctx context.Context) Report
}

// Types knows the job types: Check returns nil, job.ErrUnknownType or an error that is job.ErrBadPayload.
type Types interface {
	Check(typ string, payload []byte) error
	Types() []string
}

// Plans knows the tiers, and changes them.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
	All() []job.Plan
	// StorePlan returns the plan with its new version. ifVersion is the version it must replace: 0 = it must be new, -1 =
	// whatever is there; else job.ErrChanged. A plan that cannot be served is job.ErrBadPlan. job.ErrAmbiguous: it may
	// have been stored.
	StorePlan(ctx context.Context, p job.Plan, ifVersion int64) (job.Plan, error)
}

// Artifacts are the files that jobs made: job.ErrNoArtifact.
type Artifacts interface {
	Artifact(ctx context.Context, id job.ID) (body io.ReadCloser, name, contentType string, size int64, err error)
}

// Overview is what there is to see of the whole.
type Overview interface {
	Stats(ctx context.Context) (Stats, error)
	Why(ctx context.Context, id job.ID) (Why, error)
	Health(ctx context.Context) Health
}

// Route is an address that another room serves: the description, its page. Path is in gin's words (:name, *rest).
type Route struct {
	Method, Path string
	Handler      http.Handler
	Permission   Permission // must be said
}

// Deps are what the handlers need. What is not said to be optional is required for its routes.
type Deps struct {
	Submit    Submitter
	Jobs      Jobs
	Dead      DeadLetters
	Requeue   Requeuer
	Wait      Waiter
	Events    Events
	Line      QueuePosition
	Ready     Readiness
	Types     Types
	Plans     Plans
	Artifacts Artifacts
	Overview  Overview
	Charts    Charts
	Audit     Audits
	Doors     Doors   // nil = an open server: everybody may do everything
	Keys      Keys    // optional: without it no keys are made or listed
	Changes   Changes // optional: without it nothing is recorded

	// Insecure lets an open server be called by any name: its users said that others may reach it.
	Insecure bool
	// TrustedProxies are the networks whose X-Forwarded-For is believed; none = nobody's.
	TrustedProxies []netip.Prefix
	// Redact are the members of payloads and results, by job type, that read-only callers do not see; "*" = all of them.
	Redact map[string][]string

	// CheckURL says why a callbackUrl is not taken, in words for its sender; nil = none is taken.
	CheckURL func(url string) error
	// WebhookKeys are what the receivers of an owner's messages verify with: a secret and a public key, "" without one.
	// Optional: without it no caller is shown any.
	WebhookKeys func(owner string) (secret, public string)
	// Trace begins the span of a submit below the caller's; end hears the job's id. Optional.
	Trace func(ctx context.Context, t job.Tier, traceID, parentSpan string) (spanID string, end func(job.ID, error))
	// Metrics serves /metrics, and the profiles of /debug/pprof come with it; nil = neither is here.
	Metrics http.Handler
	// Pages are what browsers see; Live is the dashboard's stream, for operators, and nil = there is none. What they
	// answer is not of the contract.
	Pages []Page
	Live  http.Handler
	Lost  http.Handler // answers a browser that looks for a page where there is none; nil = as anybody else is answered
	// HealthOnly serves /livez, /readyz, Metrics and Extra alone, and /actuator/health if there is an Overview: for a
	// listener beside the API's, or of a process without the api role. It needs Ready and nothing else.
	HealthOnly bool
	// OneWord lets health answer one word to everybody but operators, also while there are no keys.
	OneWord bool
	Extra   []Route // more addresses, with the same headers, the same containment of panics, and a Permission each

	PayloadLimit int // bytes of one payload; 64 KiB if not positive
	Requests     int // under way at once, each connection brings as many as it likes; unbounded if not positive
	Waiting      int // long-polls and streams at once, in this process; 5000 if not positive
	Log          *slog.Logger
	Now          func() time.Time // the host's clock: it stamps answers, nothing more. Optional
	Clock        func() time.Time // Redis' time: what is due when. Now if nil
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
