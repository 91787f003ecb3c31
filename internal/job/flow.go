package job

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OnFailure is the fate of a job of a flow after a job that it waits for has failed, expired or been cancelled.
type OnFailure string

// The values of OnFailure.
const (
	FlowCancels OnFailure = "cancel" // it ends CANCELLED with the cause DEPENDENCY_FAILED, at once
	FlowRuns    OnFailure = "run"    // it runs, once all have ended
	FlowWaits   OnFailure = "wait"   // it waits on, until the failed one was requeued and has completed
)

// Known says whether the word is one of the three.
func (f OnFailure) Known() bool { return f == FlowCancels || f == FlowRuns || f == FlowWaits }

// The bounds of a flow.
const (
	MaxFlowJobs     = 1000
	MaxFlowEdges    = 10_000 // pairs of two jobs, the first of which waits for the second; patterns are resolved
	MaxFlowJobName  = 100
	MaxFlowName     = 100
	flowPattern     = "/*"
	FlowJobNameRule = "has 1 to 100 letters, digits and . _ - with / between parts, such as resize or split/7"
)

// FlowState says how a flow stands as a whole.
type FlowState string

// The states of a flow.
const (
	FlowRunning   FlowState = "RUNNING"   // a job of it runs or is about to
	FlowStuck     FlowState = "STUCK"     // all that is left waits for a failed job to be requeued
	FlowCompleted FlowState = "COMPLETED" // all jobs are COMPLETED
	FlowFailed    FlowState = "FAILED"    // all jobs have ended, and one of them is FAILED or EXPIRED
	FlowCancelled FlowState = "CANCELLED" // all jobs have ended, none is FAILED or EXPIRED, and one is CANCELLED
)

// Known says whether the word is a state of a flow.
func (s FlowState) Known() bool {
	return s == FlowRunning || s == FlowStuck || s == FlowCompleted || s == FlowFailed || s == FlowCancelled
}

// Flow is a set of jobs of which some wait for the ends of others.
type Flow struct {
	ID        ID // a UUIDv7; its last byte is no partition
	Name      string
	Owner     string
	TraceID   string
	CreatedAt time.Time // by Redis' clock: the arrival of all its jobs
	EndedAt   time.Time // when its last job's end was recorded, by the database's clock; zero = not all have ended
	State     FlowState
	Cancelled bool // somebody asked to cancel the flow as a whole
	Request   Idempotency
	Jobs      []FlowJob
	Counts    map[Status]int // how many jobs, by FlowNode.Status; of a flow in a list
}

// FlowJob is a job of a flow. Job.Status is WAITING, PENDING or a final one: the flow does not know whether a job that
// it released runs.
type FlowJob struct {
	Job
	Flow      ID
	Name      string
	After     []string // names, and patterns such as split/*
	OnFailure OnFailure
	Priority  int           // of the tier when the flow was made
	Delay     time.Duration // from the release
	ExpiresIn time.Duration // from the release; 0 = not named. Options.ExpiresMs is a fixed time
	// DependencyFailed says that the job was cancelled because of a job that it waited for.
	DependencyFailed bool
}

// FlowInput is what a job of a flow can read of a job that it waited for.
type FlowInput struct {
	Name      string
	ID        ID
	Status    Status
	Result    []byte // JSON; nil = none, or TooLarge
	Cause     Cause
	LastError string
	TooLarge  bool // the result was left out: it has to be asked for by its name
}

// FlowInputInline is how many bytes a result may have to be in a list of inputs.
const FlowInputInline = 1024

// FlowWait is a job that a WAITING job waits for.
type FlowWait struct {
	Name string
	Job
}

// FlowFilter selects flows; a zero field selects all.
type FlowFilter struct {
	Owner *string // nil = all owners
	State FlowState
	JobID ID // the flow of this job
}

// FlowAnswer is the answer to a flow that was offered.
type FlowAnswer struct {
	ID       ID
	Jobs     map[string]ID
	Replayed bool // the Idempotency-Key was known: this is the flow of the first request
}

// FlowError says what is wrong with one job of a flow.
type FlowError struct{ Job, Reason string }

func (e *FlowError) Error() string { return fmt.Sprintf("flow job %q: %s", e.Job, e.Reason) }

// ErrFlowNotFound means that there is no such flow.
var ErrFlowNotFound = errors.New("flow not found")

// ErrFlowName means that a flow has a job of that name with another content.
var ErrFlowName = errors.New("the flow has another job of that name")

// ErrFlowCancelled means that a flow takes no more jobs.
var ErrFlowCancelled = errors.New("the flow was cancelled")

// ErrFlowFull means that a flow has as many jobs as it may have.
var ErrFlowFull = fmt.Errorf("a flow has at most %d jobs", MaxFlowJobs)

// FlowJobID returns the id of the job of a flow with this name: the same in each process, with the flow's time.
func FlowJobID(flow ID, name string, partition int) ID {
	var u [16]byte
	_, _ = hex.Decode(u[:], []byte(strings.ReplaceAll(string(flow), "-", ""))) // a flow's id is a UUID
	sum := sha256.Sum256([]byte("flow " + string(flow) + " " + name))
	copy(u[6:15], sum[:])
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // the variant of RFC 9562
	u[15] = byte(partition)
	text := hex.EncodeToString(u[:])
	return ID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// FlowHome returns the hash that chooses the partition of a job of a flow, as Submission.Home does.
func FlowHome(s *Submission, flow ID, name string) string {
	if home := homeOfLine(s.Line); home != "" {
		return home
	}
	if hash := s.UniqueHash(); hash != "" {
		return hash
	}
	sum := sha256.Sum256([]byte("flow " + string(flow) + " " + name))
	return hex.EncodeToString(sum[16 : 16+HomeDigits])
}

// IsFlowJobName says whether a text keeps FlowJobNameRule.
func IsFlowJobName(name string) bool {
	if len(name) < 1 || len(name) > MaxFlowJobName {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			switch c := part[i]; {
			case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
			default:
				return false
			}
		}
	}
	return true
}

// IsFlowAfter says whether a text is a name of a job, or the pattern of a job and all that are named below it.
func IsFlowAfter(text string) bool { return IsFlowJobName(strings.TrimSuffix(text, flowPattern)) }
