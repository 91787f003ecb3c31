package web

import (
	"encoding/json"
	"fmt"
	"time"
)

// Snapshot is the whole at one moment: what the dashboard is drawn from, and, as JSON, each message of its stream.
// Words and units are those of GET /api/stats.
type Snapshot struct {
	At        time.Time `json:"at"`
	Gate      Gate      `json:"gate"`
	Capacity  Capacity  `json:"capacity"`
	Tiers     []Lane    `json:"tiers"` // best first
	InFlight  int64     `json:"inFlight"`
	Leases    []Lease   `json:"leases"` // those whose deadline is nearest, at most 50
	Watches   []Watch   `json:"watches"`
	Workers   []Worker  `json:"workers"`
	Queues    []Queue   `json:"queues"` // main, then the declared ones by name
	Slots     Slots     `json:"slots"`
	Outbox    Outbox    `json:"outbox"`
	Journal   Journal   `json:"journal"`
	Dead      int64     `json:"dead"`      // dead letters whose requeue no caller has asked for, counted up to 10,000
	Ended     int64     `json:"ended"`     // in the last hour, completed, failed, cancelled or expired
	PerSecond float64   `json:"perSecond"` // jobs that end, over all tiers
	// what an operator should know: "PUBLIC waits 4 min while PAID arrives at 30/s"; "" = nothing
	Hint       string     `json:"hint"`
	Recoveries []FeedItem `json:"-"` // the feed so far, newest first; later items come as messages of their own
}

// MarshalJSON writes lists that are empty as such: scripts walk them without asking.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	type plain Snapshot
	s.Tiers, s.Leases, s.Watches, s.Workers = orEmpty(s.Tiers), orEmpty(s.Leases), orEmpty(s.Watches), orEmpty(s.Workers)
	s.Queues = orEmpty(s.Queues)
	return json.Marshal(plain(s))
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Capacity is how many never-claimed ready jobs there are, and may be.
type Capacity struct {
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
}

// Percent of the limit that is used, 0 to 100.
func (c Capacity) Percent() int64 {
	if c.Limit <= 0 {
		return 0
	}
	return min(100*c.Used/c.Limit, 100)
}

// Lane is one tier. Counts and percentiles are those of the last hour, rates those of the last minute.
type Lane struct {
	Tier               string      `json:"tier"`
	Depth              int64       `json:"depth"` // ready jobs
	Scheduled          int64       `json:"scheduled"`
	OldestAgeSeconds   float64     `json:"oldestAgeSeconds"`
	InFlight           int64       `json:"inFlight"`
	SubmittedPerSecond float64     `json:"submittedPerSecond"`
	FinishedPerSecond  float64     `json:"finishedPerSecond"`
	WaitSeconds        Percentiles `json:"waitSeconds"`
	RunSeconds         Percentiles `json:"runSeconds"`
	Refused            int64       `json:"refused"`
	Completed          int64       `json:"completed"`
	Failed             int64       `json:"failed"`
	Retried            int64       `json:"retried"`
	Spark              []int64     `json:"spark"`  // ended jobs per minute of the last hour, oldest first; may be absent
	Paused             string      `json:"paused"` // says since when, by whom and why; "" = it is not paused
	Plan               *Plan       `json:"-"`
}

// Percentiles are in seconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Lease is one running job with its two clocks.
type Lease struct {
	JobID            string    `json:"jobId"`
	Tier             string    `json:"tier"`
	Type             string    `json:"type"`
	Worker           string    `json:"worker"`
	Attempt          int       `json:"attempt"`
	StartedAt        time.Time `json:"startedAt"`
	HeartbeatBy      time.Time `json:"heartbeatBy"`      // without another heartbeat it counts as crashed from here on
	HeartbeatSeconds float64   `json:"heartbeatSeconds"` // the tier's heartbeatTimeout
	EndBy            time.Time `json:"endBy"`            // longer than that, and it counts as stuck
	MaxSeconds       float64   `json:"maxSeconds"`       // the tier's maxProcessingTime

	Progress *LeaseProgress `json:"progress,omitempty"` // nil = its handler told none
}

// LeaseProgress says how far the attempt of a lease is.
type LeaseProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // 0 = not known
}

// Words are a percentage, or how much is done if the total is not known.
func (p *LeaseProgress) Words() string {
	if p.Total <= 0 {
		return count(p.Done) + " done"
	}
	return fmt.Sprintf("%d %%", int64(100*min(float64(p.Done)/float64(p.Total), 1)))
}

// Watch is one of the two that take jobs back.
type Watch struct {
	Name         string    `json:"name"` // "crashed", "stuck"
	DelaySeconds float64   `json:"delaySeconds"`
	NextAt       time.Time `json:"nextAt,omitzero"` // zero = not known
}

// Worker is one process that runs jobs.
type Worker struct {
	Name      string    `json:"name"`
	State     string    `json:"state"` // the worker's kind, and what an operator asks of it
	Asked     string    `json:"asked"` // run, quiet or terminate
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	Slots     int       `json:"slots"`
	Running   int       `json:"running"`
	Stuck     int       `json:"stuck"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"`
}

// Quiets says whether an operator may ask the worker to claim nothing more.
func (w Worker) Quiets() bool { return w.Asked != "quiet" && w.Asked != "terminate" }

// Ends says whether an operator may ask the worker to end.
func (w Worker) Ends() bool { return w.Asked != "terminate" }

// Queue is one queue, over all tiers.
type Queue struct {
	Queue     string `json:"queue"`
	Depth     int64  `json:"depth"` // ready jobs
	Scheduled int64  `json:"scheduled"`
	InFlight  int64  `json:"inFlight"`
	Workers   int    `json:"workers"`          // processes that claim its jobs
	Paused    string `json:"paused,omitempty"` // as a lane's
	Push      bool   `json:"push,omitempty"`   // its jobs are posted to a URL
}

// State says in a word what keeps the queue's jobs from running, or else that they are posted; "" = neither.
func (q Queue) State() string {
	switch {
	case q.Paused != "":
		return "paused"
	case q.Workers == 0 && q.Depth > 0:
		return "no worker takes its jobs"
	case q.Push:
		return "push"
	}
	return ""
}

// Slots are those of all workers.
type Slots struct {
	Running int `json:"running"`
	Total   int `json:"total"`
}

// Outbox is what has ended and is not yet in SQL.
type Outbox struct {
	Jobs  int64 `json:"jobs"`
	Bytes int64 `json:"bytes"`
}

// Journal is the accept journal.
type Journal struct {
	On bool `json:"on"`
}

// FeedItem is one thing that happened: of the stream, a message of its own.
type FeedItem struct {
	ID    string    `json:"id"` // as the stream's Last-Event-ID has it
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"` // crashed, stuck, dead, gate, requeue
	JobID string    `json:"jobId,omitempty"`
	Tier  string    `json:"tier,omitempty"`
	Text  string    `json:"text"` // what became of it: "taken back, attempt 2 of 6"
}

// DashboardView is /dashboard.
type DashboardView struct {
	Frame
	Snapshot *Snapshot // nil = not known now
	Base     string
}

// JobRow is a job in a list.
type JobRow struct {
	ID        string
	Tier      string
	Type      string
	Status    string
	Attempt   int
	ArrivedAt time.Time
	EndedAt   time.Time // zero = it lives
	RunAt     time.Time // zero = it does not wait for its time
	Cause     string
	Error     string
	Note      string // of the result
	Requeued  bool   // a requeue was promised
}

// Query is what was asked of a list; "" = everything.
type Query struct{ ID, Status, Tier, Type, Cause, Trace, Text, From, To string }

// JobsView is /dashboard/jobs. Its form asks by id, status, tier, type, cause and text (in the latest error).
type JobsView struct {
	Frame
	Query  Query
	Rows   []JobRow
	More   string // address of the next page; "" = the end
	Asked  bool   // false = nothing was asked yet
	Tiers  []string
	Types  []string
	Base   string
	Errors []FieldError
}

// DeadView is /dashboard/dead. Its form sends scope (one, selected, all), id (as often as selected) and the filter to
// /dashboard/dead/requeue.
type DeadView struct {
	Frame
	Query  Query // tier, type, cause, from, to
	Rows   []JobRow
	Total  int64 // that the filter takes; -1 = not counted
	More   string
	Export string // address of the export under the same filter
	Tiers  []string
	Types  []string
	Base   string
	Errors []FieldError
}

// TiersView is /dashboard/tiers: the plans, each a form to /dashboard/tiers/<TIER>.
type TiersView struct {
	Frame
	Plans []Plan
}

// TierView is one plan being changed: first typed, then, with Changes, shown once more before it is stored.
type TierView struct {
	Frame
	Plan    Plan // as it is stored now
	Values  PlanValues
	Errors  []FieldError
	Changes []Change // nil = nothing was typed yet; empty = typed, and nothing differs
	Typed   bool
}

// PlanValues are what was typed, in the form's units: seconds, percent, a fraction.
type PlanValues struct {
	Priority, MaxRetries, MaxCrashes, OwnSlots, HeartbeatTimeout, MaxProcessingTime, Share, BackoffBase,
	BackoffFactor, BackoffCap, BackoffJitter, Lines, MaxWait string
}

// Change is one line of the difference.
type Change struct {
	Field, Before, After string
	Effect               string // what it means for jobs, in a sentence; "" = nothing to add
}

// Of is what is wrong with the field of that name.
func (v TierView) Of(field string) []FieldError { return errorsOf(v.Errors, field) }
