package check

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// occurrenceID is the id of the job of an occurrence.
func occurrenceID(second float64) job.ID {
	ms := at(second).UnixMilli()
	return job.ID(fmt.Sprintf("%08x-%04x-7000-8000-%012d", ms>>16, ms&0xffff, int(1000*second)))
}

// fire adds an occurrence and its job, as a wish.
func (e *Evidence) fire(second float64, wish string) {
	of := occurrenceID(second)
	e.Schedules.Runs = append(e.Schedules.Runs, OccurrenceRun{Name: "s", Occurrence: at(second), Through: at(second),
		JobID: of, At: at(second + 0.01)})
	e.Schedules.Owned = append(e.Schedules.Owned, of)
	e.Runs = append(e.Runs, Run{ID: of, Key: wish, Generation: 1, Attempt: 1, Worker: "10", Sum: "sum " + wish,
		Began: at(second + 0.1), Ended: at(second + 0.4), Result: "result"})
	e.Outcomes = append(e.Outcomes, Outcome{ID: of, Generation: 1, Attempt: 1, Outcome: job.Completed, Tier: job.Public,
		Type: Type, Trace: "any", Results: 1, ResultSum: "result", ArrivedAt: at(second + 0.02),
		FirstTriedAt: at(second + 0.05), StartedAt: at(second + 0.05), EndedAt: at(second + 0.4)})
	e.Tables = nil
}

// miss adds a note of missed occurrences.
func (e *Evidence) miss(from, through float64) *OccurrenceRun {
	e.Schedules.Runs = append(e.Schedules.Runs, OccurrenceRun{Name: "s", Occurrence: at(from), Through: at(through),
		Missed: int(through-from) + 1, Reason: job.MissedDown, At: at(through + 1)})
	return &e.Schedules.Runs[len(e.Schedules.Runs)-1]
}

// unfire removes the rows of the occurrences from a second on, and before another second.
func (e *Evidence) unfire(from, before float64) {
	e.Schedules.Runs = without(e.Schedules.Runs, func(r *OccurrenceRun) bool {
		return !r.Occurrence.Before(at(from)) && r.Occurrence.Before(at(before))
	})
}

// forget removes the job of an occurrence from SQL and from the handlers' notes.
func (e *Evidence) forget(second float64) {
	of := occurrenceID(second)
	e.Runs = without(e.Runs, func(r *Run) bool { return r.ID == of })
	e.Outcomes = without(e.Outcomes, func(o *Outcome) bool { return o.ID == of })
	e.Schedules.Owned = without(e.Schedules.Owned, func(id *job.ID) bool { return *id == of })
}

func (e *Evidence) occurrence(second float64) *OccurrenceRun {
	i := slices.IndexFunc(e.Schedules.Runs, func(r OccurrenceRun) bool { return r.Occurrence.Equal(at(second)) })
	return &e.Schedules.Runs[i]
}

// scheduled adds a schedule of every second, as w1, from 20 on: it misses 25 and 26, is paused from 30 to 35, is of
// every other second, as w2, from 40 on, is deleted at 50, made again as w3 at 55, and ended at 75. An operator asks
// for a job at 45.5.
func (e *Evidence) scheduled() {
	wish := func(key string, every time.Duration) ScheduleWish {
		return ScheduleWish{Name: "s", Key: key, Every: every, Overlap: job.OverlapSkip, Tier: job.Public, Sum: "sum " + key}
	}
	e.Schedules.Wishes = []ScheduleWish{wish("w1", time.Second), wish("w2", 2*time.Second), wish("w3", time.Second)}
	version := 0
	change := func(verb string, sent float64, now string) *ScheduleChange {
		if version++; verb == "delete" {
			version--
		}
		e.Schedules.Changes = append(e.Schedules.Changes, ScheduleChange{Name: "s", Verb: verb, Sent: at(sent),
			Answered: at(sent + 0.1), Fate: OK, Asked: now, Now: now, Paused: verb == "pause", Version: version})
		return &e.Schedules.Changes[len(e.Schedules.Changes)-1]
	}
	change("put", 20.1, "w1")
	change("pause", 30.1, "w1")
	change("resume", 35.1, "w1")
	change("put", 40.1, "w2")
	change("delete", 50.1, "").Read = at(50.05)
	version = 0
	change("put", 55.1, "w3")
	change("pause", 75.1, "w3").Final = true
	for second := 21.0; second <= 75; second++ {
		switch {
		case second == 25 || second == 26 || second > 30 && second <= 35 || second > 50 && second <= 55:
		case second <= 40:
			e.fire(second, "w1")
		case second > 55:
			e.fire(second, "w3")
		case second == 42 || second == 44 || second == 46 || second == 48 || second == 50:
			e.fire(second, "w2")
		}
	}
	e.miss(25, 26)
	e.fire(45.5, "w2")
	e.occurrence(45.5).Asked = true
	run := submitted(45, 45.4)
	run.Key, run.Trace, run.ID, run.Schedule, run.Answered = "run", "run", occurrenceID(45.5), "s", at(45.6)
	e.Ops = append(e.Ops, run)
	e.Quiet, e.Rested = at(60), at(76)
}

// A schedule of which each occurrence is one job, or missed, breaks no rule. Its jobs count as accepted.
func TestSoundSchedules(t *testing.T) {
	before, e := Check(sound()).Counts, sound()
	e.scheduled()
	r := Check(e)
	if len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
	if c := r.Counts; c.Accepted != before.Accepted+c.Occurred || c.Occurred != 39 || c.Missed != 2 || c.Judged != 37 {
		t.Errorf("%d accepted, before %d; %d fired, %d missed; %d judged", c.Accepted, before.Accepted, c.Occurred, c.Missed,
			c.Judged)
	}
}

// Where a change without an answer may have been executed, nothing is certain; what a deletion has deleted proves
// nothing; and a request without an answer may have made a job.
func TestSchedulesInDoubt(t *testing.T) {
	for name, plant := range map[string]func(*Evidence){
		"a pause without an answer": func(e *Evidence) {
			c := &e.Schedules.Changes[1]
			c.Fate, c.Status = Unknown, 0
			e.Schedules.Changes[2].Fate = Fail
			e.unfire(33, 35)
			e.fire(32, "w1")
		},
		"late, from a frozen server": func(e *Evidence) {
			c := &e.Schedules.Changes[0]
			late := *c
			late.Sent, late.Answered, late.Fate, late.Server = at(20.1), at(20.2), Unknown, "a"
			e.Schedules.Changes[1].Version = 3 // late was the second one
			e.Schedules.Changes = append([]ScheduleChange{late}, e.Schedules.Changes...)
			e.Faults = append(e.Faults, Fault{Kind: "F10", Froze: "a", From: at(20), To: at(27)})
			e.unfire(23, 24)
			e.forget(23)
		},
		"a job whose row was deleted": func(e *Evidence) { e.unfire(50, 51) },
		"the first answer to a run is lost": func(e *Evidence) {
			first := e.Ops[len(e.Ops)-1]
			first.Fate, first.ID, first.Sent, first.Answered = Unknown, "", at(45.45), at(45.46)
			e.Ops = slices.Insert(e.Ops, len(e.Ops)-1, first)
		},
		"the answer to a run is lost": func(e *Evidence) {
			op := &e.Ops[len(e.Ops)-1]
			op.Fate, op.ID = Unknown, ""
		},
	} {
		e := sound()
		e.scheduled()
		plant(&e)
		if r := Check(e); len(r.Violations) > 0 {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
}

// planted returns a seed of a run that has the schedule.
func planted(invariant, name string, plant func(*Evidence)) seed {
	return seed{invariant, name, func(e *Evidence) {
		e.scheduled()
		plant(e)
	}}
}

var seedsOfSchedules = []seed{
	planted("S28", "an occurrence is passed over", func(e *Evidence) {
		e.unfire(23, 24)
		e.forget(23)
	}),
	planted("S28", "an occurrence is passed over before a change whose first answer is lost", func(e *Evidence) {
		lost := e.Schedules.Changes[1]
		lost.Sent, lost.Answered, lost.Fate = at(30.01), at(30.02), Unknown
		e.Schedules.Changes = slices.Insert(e.Schedules.Changes, 1, lost)
		e.unfire(23, 24)
		e.forget(23)
	}),
	planted("S28", "an occurrence is fired and missed", func(e *Evidence) { e.miss(23, 23) }),
	planted("S28", "an occurrence is two jobs", func(e *Evidence) {
		e.fire(23, "w1")
		last := &e.Schedules.Runs[len(e.Schedules.Runs)-1]
		twin := last.JobID[:len(last.JobID)-1] + "f"
		for _, id := range []*job.ID{&e.Schedules.Owned[len(e.Schedules.Owned)-1], &e.Runs[len(e.Runs)-1].ID,
			&e.Outcomes[len(e.Outcomes)-1].ID} {
			*id = twin
		}
		e.Schedules.Runs = e.Schedules.Runs[:len(e.Schedules.Runs)-1]
		e.Outcomes[len(e.Outcomes)-1].Outcome = job.Cancelled
		e.Outcomes[len(e.Outcomes)-1].Results = 0
	}),
	planted("S28", "a job has another time", func(e *Evidence) {
		r := e.occurrence(23)
		e.forget(23)
		e.fire(23.25, "w1")
		r.JobID = occurrenceID(23.25)
		e.unfire(23.25, 23.5)
	}),
	planted("S28", "a paused schedule fires", func(e *Evidence) { e.fire(32, "w1") }),
	planted("S28", "a paused schedule notes what it missed", func(e *Evidence) {
		e.unfire(29, 30)
		e.forget(29)
		e.miss(29, 29).At = at(32)
	}),
	planted("S28", "a note goes on over a pause", func(e *Evidence) {
		e.unfire(30, 37)
		e.forget(30)
		e.forget(36)
		e.miss(30, 36)
	}),
	planted("S28", "a deleted schedule fires", func(e *Evidence) { e.fire(53, "w2") }),
	planted("S28", "a changed schedule fires when it did before", func(e *Evidence) { e.fire(43, "w2") }),
	planted("S28", "a changed schedule makes the jobs that it made before", func(e *Evidence) {
		i := slices.IndexFunc(e.Runs, func(r Run) bool { return r.ID == occurrenceID(44) })
		e.Runs[i].Key, e.Runs[i].Sum = "w1", "sum w1"
	}),
	planted("S28", "a change is answered and not made", func(e *Evidence) { e.Schedules.Changes[3].Asked = "w4" }),
	planted("S28", "nobody asked for it", func(e *Evidence) {
		e.fire(47.5, "w2")
		e.occurrence(47.5).Asked = true
	}),
	planted("S28", "two jobs that must not overlap run at once", func(e *Evidence) {
		i := slices.IndexFunc(e.Outcomes, func(o Outcome) bool { return o.ID == occurrenceID(22) })
		e.Outcomes[i].EndedAt = at(23.3)
	}),
	planted("S28", "it stopped to fire", func(e *Evidence) {
		e.unfire(60, 76)
		for second := 60.0; second <= 75; second++ {
			e.forget(second)
		}
	}),
	planted("S28", "it is claimed before its time", func(e *Evidence) {
		i := slices.IndexFunc(e.Outcomes, func(o Outcome) bool { return o.ID == occurrenceID(23) })
		o := &e.Outcomes[i]
		o.ArrivedAt, o.FirstTriedAt, o.StartedAt = at(22.5), at(22.6), at(22.6)
	}),
	planted("S28", "missed without a reason", func(e *Evidence) { e.occurrence(25).Reason = "" }),
	planted("S1", "the job of an occurrence is nowhere", func(e *Evidence) { e.forget(23) }),
	planted("S18", "a job has another payload than its schedule", func(e *Evidence) {
		i := slices.IndexFunc(e.Runs, func(r Run) bool { return r.ID == occurrenceID(23) })
		e.Runs[i].Sum = "another"
	}),
}
