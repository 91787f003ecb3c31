package job

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// The errors of schedules.
var (
	ErrNoSchedule    = errors.New("no such schedule")
	ErrBadSchedule   = errors.New("schedule is not valid") // a ScheduleError says why
	ErrScheduleState = errors.New("the schedule's state does not allow that")
)

// Overlap says what happens to an occurrence of a schedule while the job of an earlier one lives.
type Overlap string

// The values of Overlap.
const (
	OverlapSkip    Overlap = "skip"    // it is missed
	OverlapAllow   Overlap = "allow"   // its job runs beside the earlier one
	OverlapOne     Overlap = "one"     // its job waits for the end of the earlier one; while one job waits, it is missed
	OverlapReplace Overlap = "replace" // as OverlapOne, but the newest job waits, and a job that waited is cancelled
)

// Overlaps lists all overlaps.
var Overlaps = []Overlap{OverlapSkip, OverlapAllow, OverlapOne, OverlapReplace}

// Living returns how many jobs of a schedule may live when an occurrence becomes a further job; -1 = any number.
func (o Overlap) Living() int {
	switch o {
	case OverlapAllow, OverlapReplace:
		return -1
	case OverlapOne:
		return 1
	case OverlapSkip:
	}
	return 0
}

// CatchUp says which of the occurrences that no server could fire in time are fired later.
type CatchUp string

// The values of CatchUp.
const (
	CatchUpLast CatchUp = "last" // the last one
	CatchUpNone CatchUp = "none" // none: an occurrence is missed a minute after its time
	CatchUpAll  CatchUp = "all"  // the last hundred
)

// CatchUps lists all values of CatchUp.
var CatchUps = []CatchUp{CatchUpLast, CatchUpNone, CatchUpAll}

// The bounds of schedules.
const (
	MaxSchedules        = 1000 // of all owners
	MaxSchedulesOfOwner = 500
	MaxScheduleRuns     = 100 // so many jobs of a schedule are remembered, and so many notes of missed occurrences
)

// Schedule says when jobs are made, and what they are. SQL has the schedules.
type Schedule struct {
	Name     string        `json:"-"`
	Cron     string        `json:"cron,omitempty"`  // either Cron or Every
	Every    time.Duration `json:"every,omitempty"` // whole seconds, counted from Start
	Timezone string        `json:"timezone,omitempty"`
	Start    time.Time     `json:"start,omitzero"` // no occurrence is before it
	End      time.Time     `json:"end,omitzero"`   // no occurrence is after it; zero = the schedule goes on for ever
	Jitter   time.Duration `json:"jitter,omitempty"`
	Overlap  Overlap       `json:"overlap"`
	CatchUp  CatchUp       `json:"catchUp"`
	Job      ScheduledJob  `json:"job"`

	Paused *SchedulePause `json:"paused,omitempty"`

	Owner       string    `json:"-"` // the id of the API key that stored it last; "" = a caller without one
	Version     int64     `json:"-"` // grows by one with each change
	Incarnation string    `json:"-"` // another one if a schedule of this name is deleted and made again
	Next        time.Time `json:"-"` // the occurrence that becomes a job next; zero = none does
	Due         time.Time `json:"-"` // when it does: Next, and the schedule's part of Jitter
	Last        time.Time `json:"-"` // the occurrence before; zero = there was none
	CreatedAt   time.Time `json:"-"` // by the database's clock
	ChangedAt   time.Time `json:"-"`
}

// ScheduledJob describes the jobs of a schedule, with the members of a submit.
type ScheduledJob struct {
	Tier       Tier          `json:"tier"`
	Type       string        `json:"type"`
	Payload    []byte        `json:"-"`
	Queue      string        `json:"queue,omitempty"` // "" = main
	Line       string        `json:"line,omitempty"`
	MaxRetries int           `json:"maxRetries"` // -1 = the plan's
	MaxRun     time.Duration `json:"maxRun,omitempty"`
	Callback   string        `json:"callback,omitempty"`
	ExpiresIn  time.Duration `json:"expiresIn,omitempty"` // counted from when the job is made
	Everybody  bool          `json:"everybody,omitempty"`
}

// SchedulePause says since when and why a schedule makes no jobs.
type SchedulePause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

var scheduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)

// IsScheduleName says whether a schedule can have this name.
func IsScheduleName(name string) bool { return scheduleName.MatchString(name) }

// ScheduleError is an ErrBadSchedule that names the wrong member, in words for its caller.
type ScheduleError struct{ Member, Reason string }

func (e *ScheduleError) Error() string { return e.Member + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrBadSchedule) true.
func (e *ScheduleError) Unwrap() error { return ErrBadSchedule }

// BadSchedule returns a ScheduleError.
func BadSchedule(member, format string, args ...any) error {
	return &ScheduleError{member, fmt.Sprintf(format, args...)}
}

// MissedReason says why an occurrence became no job.
type MissedReason string

// The reasons.
const (
	MissedDown    MissedReason = "DOWN"    // no server could fire it in time, or a store did not answer
	MissedGate    MissedReason = "GATE"    // the health gate was closed
	MissedPaused  MissedReason = "PAUSED"  // a pause refused such jobs
	MissedFull    MissedReason = "FULL"    // the capacity was used
	MissedQuota   MissedReason = "QUOTA"   // the owner had as many living jobs as its key allows
	MissedOverlap MissedReason = "OVERLAP" // the job of an earlier occurrence lived
	MissedInvalid MissedReason = "INVALID" // the tier or the queue of its jobs is gone
)

// MissedReasons lists all reasons.
var MissedReasons = []MissedReason{MissedDown, MissedGate, MissedPaused, MissedFull, MissedQuota, MissedOverlap,
	MissedInvalid}

// ScheduleRun is an occurrence that was fired, or several missed occurrences in a row.
type ScheduleRun struct {
	Occurrence time.Time
	Request    string // of a run that an operator asked for: the hash of the request; "" = the schedule's own
	JobID      ID     // "" = missed
	// Of missed occurrences: the last one, how many they are (0 = too many to count), and why.
	Through time.Time
	Missed  int
	Reason  MissedReason
	Detail  string
	At      time.Time // when it was recorded, by the database's clock
	Living  bool      // the job has not ended, as far as SQL knows
}

// Firing is a change of a schedule from one occurrence to the next. SQL makes it once.
type Firing struct {
	Name       string
	Version    int64
	Occurrence time.Time     // the schedule's Next before the change; zero = it had none
	Before     time.Time     // the occurrence right before that one; zero = none is known
	Missed     []ScheduleRun // occurrences that were missed
	Unmiss     time.Time     // notes of missed occurrences that go beyond this time are deleted first; zero = none is
	Run        ScheduleRun   // with Row: the occurrence that becomes a job
	Row        *JournalRow   // nil = none does
	Living     int           // see Overlap.Living: if more jobs live, the occurrence is missed
	Replaces   bool          // jobs of earlier occurrences that wait are cancelled, and the oldest one's place is kept
	Running    []ID          // with Replaces: the jobs that do not wait
	Replaced   []ID          // with Replaces, set by the call: the jobs that SQL has marked to be cancelled
	Last       time.Time     // the last occurrence of Missed and Run
	Next, Due  time.Time     // the schedule's, after the change
}

// Fired is the answer to a Firing.
type Fired string

// The answers.
const (
	FiredJob  Fired = "FIRED"
	FiredSkip Fired = "SKIPPED" // the occurrence was missed: jobs of earlier occurrences live
	FiredNone Fired = "NONE"    // no occurrence became a job, as asked
	FiredLost Fired = "LOST"    // another process made the change, or the schedule is another one by now
)
