package web

import "time"

// PollView is /poll: the form, and the job if one was asked for.
type PollView struct {
	Frame
	Asked string // the id as it was typed
	Job   *Job   // nil = none was asked for, or there is none
	Base  string
}

// Job is a job with all there is to see of it. Zero times mean "not yet".
type Job struct {
	ID              string
	Generation      int
	Tier            string
	Type            string
	Status          string
	Attempt         int
	RetryCount      int
	MaxRetries      int
	CancelRequested bool
	Worker          string
	Owner           string
	Key             string // of its line; "" = its submit said none
	Schedule        string // that made it; "" = none
	KeyLinks        bool   // the caller may see the page of the key
	TraceID         string
	CallbackURL     string
	ArrivedAt       time.Time
	FirstTriedAt    time.Time
	StartedAt       time.Time
	EndedAt         time.Time
	RunAt           time.Time
	ExpiresAt       time.Time // zero: it does not, or a worker has claimed it
	Cause           string
	LastError       string
	Payload         []byte // JSON; nil = none, or not kept
	PayloadKept     bool   // false = not any more
	Result          []byte // JSON
	Note            string // of the result
	Artifact        string // address of the file it made; "" = none
	Attempts        []Attempt
	Reasons         []Reason
	Why             []string // why it has not ended
	BatchID         string   // the batch whose member it is; "" = none
	FlowID          string   // the flow whose job it is; "" = none
	Holder          string   // of a HELD job: the job that has its unique key; "" = not known
	Line            string   // in words, where a PENDING job waits in a line; "" = in none
	Position        int64    // jobs before it; -1 = not known, or it does not wait
	ETA             time.Duration
	Redis           []Field // the texts that Redis has of it; nil = not shown
	Progress        *Progress
	Log             []LogLine // the last lines of its log
	LogSkipped      bool      // there are earlier ones

	Follow   string // address of its stream; "" = it has ended
	CanStop  bool   // the caller may cancel it now
	CanRetry bool   // the caller may requeue it now

	CanKill, CanHasten, CanDismiss bool // the caller may do that now
}

// Reason is the text that a caller gave for a cancel, a requeue or a dismissal of the job. Action is cancel, requeue or
// dismiss.
type Reason struct {
	Action     string
	Generation int
	At         time.Time
	Text       string
}

// Progress is how far the attempt is that runs, or that ended the job, in its handler's own units.
type Progress struct {
	At          time.Time
	Done, Total int64 // Total 0 = not known
	Note        string
}

// LogLine is a line of a job's log. Of lines that are lost, Lost says how many.
type LogLine struct {
	Attempt     int
	At          time.Time
	Level, Text string
	Attrs       []byte // JSON; nil = none
	Lost        int
}

// Attempt is one claim. Outcome is RUNNING, SUCCESS, FAILURE, RELEASED, LATER or CANCELLED.
type Attempt struct {
	Number     int
	Worker     string
	StartedAt  time.Time
	FinishedAt time.Time // zero = it runs
	Outcome    string
	Cause      string
	Error      string
	Generation int       // 0 = not known any more
	Reason     string    // of a LATER
	Until      time.Time // of a LATER
}

// Ended says whether nothing but a requeue can move the job any more.
func (j *Job) Ended() bool {
	return j.Status == "COMPLETED" || j.Status == "FAILED" || j.Status == "CANCELLED" || j.Status == "EXPIRED"
}

// DemoView is /demo. Playing posts {"scenario": id} to Play; what happens comes from the stream Events.
type DemoView struct {
	Frame
	Scenarios []Scenario
	Play      string // address
	Events    string // address of the stream
	Slots     int    // of its workers
	Capacity  int
}

// Scenario is one of the seven.
type Scenario struct {
	ID, Title, About string
	Steps            []string // what one will see, for those who cannot watch it
}
