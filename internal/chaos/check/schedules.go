package check

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Schedules is the evidence of a run about its schedules.
type Schedules struct {
	Wishes  []ScheduleWish   // of the operators, each once
	Changes []ScheduleChange // by schedule in the order of sending; one operator changes a schedule
	Runs    []OccurrenceRun  // the rows of schedule_runs, each as it was read last
	Owned   []job.ID         // the jobs with an outcome that belong to the API key of the schedules
}

// ScheduleWish has the values that an operator asked for in a put of a schedule. No two wishes have the same key in the
// payload.
type ScheduleWish struct {
	Name    string // of the schedule
	Key     string // of the payload
	Every   time.Duration
	Start   time.Time // zero = 1970
	Overlap job.Overlap
	Tier    job.Tier
	Sum     string // SHA-256 of the payload
	Fails   int    // the first attempts of a job that do not end well
}

// ScheduleChange is a request that changes a schedule.
type ScheduleChange struct {
	Name, Verb     string // put, pause, resume, delete
	Sent, Answered time.Time
	Server         string
	Fate           Fate
	Status         int
	Asked          string // of a put: the key of the wish
	// After an answer of 2xx: the key of the wish that the schedule fulfils now, "" = it is deleted; whether it is paused;
	// and its version, which each change raises by one. A deletion says which version it deleted; 0 = there was none.
	Now     string
	Paused  bool
	Version int
	Read    time.Time // of a delete, which deletes the runs too: when these were read last before it
	Final   bool      // the load ends the schedule, when all faults are over
}

// OccurrenceRun is a row of schedule_runs: a job, or occurrences that were missed.
type OccurrenceRun struct {
	Name                string
	Occurrence, Through time.Time
	Asked               bool   // an operator asked for the job
	JobID               job.ID // "" = missed
	Missed              int
	Reason              job.MissedReason
	At                  time.Time // when the row was written, by the database's clock
}

// wish returns the wish with a key; nil = there is none.
func (b *book) wish(key string) *ScheduleWish {
	for i := range b.Schedules.Wishes {
		if w := &b.Schedules.Wishes[i]; w.Key == key {
			return w
		}
	}
	return nil
}

// These begin the keys of the submits that stand for the jobs of schedules: those that a row of schedule_runs names,
// and the others.
const (
	notedKey   = "noted job "
	unnotedKey = "unnoted job "
)

// made says whether readSchedules made the submit.
func (op *Op) made() bool { return strings.HasPrefix(op.Key, notedKey) || op.unnoted() }

func (op *Op) unnoted() bool { return strings.HasPrefix(op.Key, unnotedKey) }

// readSchedules adds a submit to the evidence for each job that a schedule made and that no answer to an operator
// named. From then on the judge knows these jobs as accepted ones: a row of schedule_runs is written with the journal
// row of its job. A job that no row names is known too, and the rules of S28 ask where it comes from.
func (b *book) readSchedules() {
	b.Ops = slices.Clone(b.Ops) // the evidence stays as it is
	ran := map[job.ID]*ScheduleWish{}
	for i := range b.Runs {
		if w := b.wish(b.Runs[i].Key); w != nil {
			ran[b.Runs[i].ID] = w
		}
	}
	told, of := map[job.ID]bool{}, map[string]*ScheduleWish{} // of has the wishes by the keys of submits
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Kind == "submit" && op.Fate != Fail && op.ID != "" {
			told[op.ID] = true
			of[op.Key] = cmp.Or(ran[op.ID], of[op.Key])
		}
	}
	for i := range b.Ops {
		op := &b.Ops[i]
		if w := of[op.Key]; w != nil && op.Schedule != "" { // S28 asks whether the schedule was so
			op.Tier, op.Sum, op.Fails = w.Tier, w.Sum, w.Fails
		}
	}
	add := func(key, name string, id job.ID, at time.Time) {
		if told[id] {
			return
		}
		told[id] = true
		key += string(id)
		op := Op{Kind: "submit", Key: key, Trace: key, ID: id, Type: Type, Fate: OK, Sent: at, Answered: at, Schedule: name}
		if w := ran[id]; w != nil {
			op.Schedule, op.Tier, op.Sum, op.Fails = w.Name, w.Tier, w.Sum, w.Fails
		}
		b.Ops = append(b.Ops, op)
	}
	for i := range b.Schedules.Runs {
		if r := &b.Schedules.Runs[i]; r.JobID != "" {
			b.report.Counts.Occurred++
			add(notedKey, r.Name, r.JobID, r.At)
		} else {
			b.report.Counts.Missed += max(r.Missed, 1)
		}
	}
	for _, id := range b.Schedules.Owned {
		add(unnotedKey, "?", id, madeAt(id))
	}
	for i := range b.Runs {
		if id := b.Runs[i].ID; ran[id] != nil {
			add(unnotedKey, "?", id, madeAt(id))
		}
	}
}

// madeAt returns the time in a job's id.
func madeAt(id job.ID) time.Time {
	digits := strings.ReplaceAll(string(id), "-", "")
	ms, _ := strconv.ParseInt(digits[:min(12, len(digits))], 16, 64) // an id that is none is of 1970, and no occurrence
	return time.UnixMilli(ms).UTC()
}
