package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// fireSlack is how much the clock that a schedule is fired by may differ from that of the operators.
	fireSlack = 300 * time.Millisecond
	// stillActs is how long after its client gave up, or after the fault that held it up, a request may still be executed.
	stillActs = 8 * time.Second
	// catchesUp is how long after its time an occurrence has to be decided at the latest when all faults are over.
	catchesUp = 10 * time.Second
)

// period is a time in which the values of a schedule are certain. The versions in the answers before and after it show
// that no request without an answer was executed in it.
type period struct {
	from, to time.Time
	wish     *ScheduleWish // nil = there was no such schedule
	paused   bool
	life     int  // counts the deletions before it
	last     bool // the load ended the schedule after it
}

func (p *period) active() bool { return p.wish != nil && !p.paused }

func (p *period) String() string {
	switch {
	case p.wish == nil:
		return fmt.Sprintf("was deleted from %s to %s", clock(p.from), clock(p.to))
	case p.paused:
		return fmt.Sprintf("was paused from %s to %s", clock(p.from), clock(p.to))
	}
	return fmt.Sprintf("was every %s as %s from %s to %s", p.wish.Every, p.wish.Key, clock(p.from), clock(p.to))
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

// schedule has the evidence about one schedule.
type schedule struct {
	name    string
	periods []period
	changes []*ScheduleChange
	rows    []*OccurrenceRun // by occurrence
	asked   []*Op            // operators' requests to run it
}

// in returns the period that has a moment, which is not within slack of its ends; nil = no period has it.
func (t *schedule) in(at time.Time, slack time.Duration) *period {
	for i := range t.periods {
		if s := &t.periods[i]; at.After(s.from.Add(slack)) && at.Before(s.to.Add(-slack)) {
			return s
		}
	}
	return nil
}

// schedules returns the schedules by name.
func (b *book) schedules() []*schedule {
	of := map[string]*schedule{}
	get := func(name string) *schedule {
		if of[name] == nil {
			of[name] = &schedule{name: name}
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
	var all []*schedule
	for _, t := range of {
		slices.SortStableFunc(t.rows, func(x, y *OccurrenceRun) int { return x.Occurrence.Compare(y.Occurrence) })
		b.certainties(t)
		all = append(all, t)
	}
	slices.SortFunc(all, func(x, y *schedule) int { return cmp.Compare(x.name, y.name) })
	return all
}

// certainties finds the periods of a schedule. Each begins with the answer to a change, and ends when the next change
// is sent, whether that change has an answer or not.
func (b *book) certainties(t *schedule) {
	known, life, from := &ScheduleChange{Verb: "delete", Fate: OK}, 0, 0
	for i, next := range t.changes {
		if next.Fate != OK {
			continue
		}
		sent := slices.IndexFunc(t.changes[from:i+1], func(c *ScheduleChange) bool { return c.Fate != Fail })
		if first := t.changes[from+sent]; b.nothingBetween(t, known, next) {
			t.periods = append(t.periods, period{from: known.Answered, to: first.Sent, wish: b.wish(known.Now),
				paused: known.Paused, life: life, last: first.Final})
		}
		if next.Now == "" {
			life++
		}
		known, from = next, i+1
	}
}

// nothingBetween says whether the answers to a change and to the next change with an answer show that no other change
// was executed after the first answer: the second change has made the next version, or it has found the schedule as it
// should be. Each put asks for another payload, and so makes a version. Two pauses make one version: if an earlier
// pause has no answer, it may have come between.
func (b *book) nothingBetween(t *schedule, known, next *ScheduleChange) bool {
	was := known.Version
	if known.Now == "" {
		was = 0
	}
	if next.Verb == "put" {
		return next.Version == was+1
	}
	late := slices.ContainsFunc(t.changes, func(c *ScheduleChange) bool {
		return c.Fate == Unknown && c.Verb == next.Verb && c.Sent.Before(known.Sent) &&
			b.actsUntil(c.Sent, c.Answered, c.Server).After(known.Answered)
	})
	return !late && (next.Version == was || next.Version == was+1 && next.Verb != "delete")
}

// actsUntil returns until when a request without an answer may be executed: some time after its client gave up, and
// after a fault that may hold it up has ended.
func (b *book) actsUntil(sent, answered time.Time, server string) time.Time {
	until := answered.Add(stillActs)
	for again := true; again; {
		again = false
		for i := range b.Faults {
			f := &b.Faults[i]
			holds := f.Target == "mysql" || f.Target == "" || f.Froze != "" && f.Froze == server
			if later := f.To.Add(stillActs); holds && f.overlaps(sent, until) && later.After(until) {
				until, again = later, true
			}
		}
	}
	return until
}
