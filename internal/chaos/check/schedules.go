package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Schedules is what a run leaves behind about its schedules.
type Schedules struct {
	Wishes  []ScheduleWish   // what operators asked for, each once
	Changes []ScheduleChange // by schedule in the order of sending; one operator changes a schedule
	Runs    []OccurrenceRun  // the rows of schedule_runs, each as it was read last
	Owned   []job.ID         // the jobs with an outcome that belong to the API key of the schedules
}

// ScheduleWish is what an operator asked a schedule to be. No two wishes have the same key in the payload.
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
	// After an answer of 2xx: the key of the wish that the schedule fulfils now, "" = it is deleted; and whether it is
	// paused.
	Now    string
	Paused bool
	Read   time.Time // of a delete, which deletes the runs too: when these were read last before it
	Final  bool      // the load ends the schedule, when all faults are over
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

const (
	// fireSlack is how much the clock that a schedule is fired by may differ from that of the operators.
	fireSlack = 300 * time.Millisecond
	// strikes is how long after its client gave up, or after the fault that held it up, a change may still be executed.
	strikes = 8 * time.Second
	// catchesUp is how long after its time an occurrence has to be decided at the latest when all faults are over.
	catchesUp = 10 * time.Second
)

// tense is a time in which it is certain what a schedule was: no request that may change it was under way.
type tense struct {
	from, to time.Time
	wish     *ScheduleWish // nil = there was no such schedule
	paused   bool
	life     int  // counts the deletions before it
	last     bool // the load ended the schedule after it
}

func (t *tense) active() bool { return t.wish != nil && !t.paused }

func (t *tense) String() string {
	switch {
	case t.wish == nil:
		return fmt.Sprintf("was deleted from %s to %s", clock(t.from), clock(t.to))
	case t.paused:
		return fmt.Sprintf("was paused from %s to %s", clock(t.from), clock(t.to))
	}
	return fmt.Sprintf("was every %s as %s from %s to %s", t.wish.Every, t.wish.Key, clock(t.from), clock(t.to))
}

// has says whether a time is an occurrence of a wish.
func (w *ScheduleWish) has(at time.Time) bool {
	return !at.Before(w.Start) && at.Sub(w.anchor())%w.Every == 0
}

func (w *ScheduleWish) anchor() time.Time {
	if w.Start.IsZero() {
		return time.Unix(0, 0)
	}
	return w.Start
}

// after returns the first occurrence of a wish after a time.
func (w *ScheduleWish) after(at time.Time) time.Time {
	if at.Before(w.Start) {
		return w.Start
	}
	return at.Add(w.Every - at.Sub(w.anchor())%w.Every)
}

// timetable is the story of one schedule.
type timetable struct {
	name    string
	tenses  []tense
	changes []*ScheduleChange
	rows    []*OccurrenceRun // by occurrence
	asked   []*Op            // operators' requests to run it
}

// in returns the certain time that has a moment, which is not within slack of its ends; nil = there is none.
func (t *timetable) in(at time.Time, slack time.Duration) *tense {
	for i := range t.tenses {
		if s := &t.tenses[i]; at.After(s.from.Add(slack)) && at.Before(s.to.Add(-slack)) {
			return s
		}
	}
	return nil
}

// timetables returns the schedules by name.
func (b *book) timetables() []*timetable {
	of := map[string]*timetable{}
	get := func(name string) *timetable {
		if of[name] == nil {
			of[name] = &timetable{name: name}
		}
		return of[name]
	}
	for i := range b.Schedules.Changes {
		t := get(b.Schedules.Changes[i].Name)
		t.changes = append(t.changes, &b.Schedules.Changes[i])
	}
	for i := range b.Schedules.Runs {
		t := get(b.Schedules.Runs[i].Name)
		t.rows = append(t.rows, &b.Schedules.Runs[i])
	}
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Schedule != "" && op.Kind == "submit" && !op.made() {
			t := get(op.Schedule)
			t.asked = append(t.asked, op)
		}
	}
	var all []*timetable
	for _, t := range of {
		slices.SortStableFunc(t.rows, func(x, y *OccurrenceRun) int { return x.Occurrence.Compare(y.Occurrence) })
		b.certainties(t)
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y *timetable) int { return cmp.Compare(x.name, y.name) })
	return all
}

// certainties finds the times in which it is certain what a schedule was. After a change without an answer nothing is,
// until a change that was sent after it can no more be executed has an answer.
func (b *book) certainties(t *timetable) {
	now, unsure := &tense{}, time.Time{}
	life := 0
	for _, c := range t.changes {
		if c.Fate == Fail {
			continue
		}
		if now != nil {
			now.to, now.last = c.Sent, c.Final
			t.tenses = append(t.tenses, *now)
			now = nil
		}
		if c.Verb == "delete" {
			life++
		}
		if c.Fate == Unknown {
			if until := b.strikes(c.Sent, c.Answered, c.Server); until.After(unsure) {
				unsure = until
			}
		} else if !c.Sent.Before(unsure) {
			now = &tense{from: c.Answered, wish: b.wish(c.Now), paused: c.Paused, life: life}
		}
	}
	if now != nil {
		now.to = b.last()
		t.tenses = append(t.tenses, *now)
	}
}

// strikes returns until when a request without an answer may be executed: some time after its client gave up, and
// after a fault that may hold it up has ended.
func (b *book) strikes(sent, answered time.Time, server string) time.Time {
	until := answered.Add(strikes)
	for again := true; again; {
		again = false
		for i := range b.Faults {
			f := &b.Faults[i]
			holds := f.Target == "mysql" || f.Target == "" || f.Froze != "" && f.Froze == server
			if later := f.To.Add(strikes); holds && f.overlaps(sent, until) && later.After(until) {
				until, again = later, true
			}
		}
	}
	return until
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
