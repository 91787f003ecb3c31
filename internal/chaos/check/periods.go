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
	// stillActs is how long after its client gave up, or after the fault that held it up, a change may still be executed.
	stillActs = 8 * time.Second
	// catchesUp is how long after its time an occurrence has to be decided at the latest when all faults are over.
	catchesUp = 10 * time.Second
)

// period is a time in which it is certain what a schedule was: no request that may change it was under way.
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

// schedule is what is known of one schedule.
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

// certainties finds the periods of a schedule. A change without an answer may be executed for a while. The next period
// begins with the answer to a change that was sent after that while.
func (b *book) certainties(t *schedule) {
	now, unsure := &period{}, time.Time{}
	life := 0
	for _, c := range t.changes {
		if c.Fate == Fail {
			continue
		}
		if now != nil {
			now.to, now.last = c.Sent, c.Final
			t.periods = append(t.periods, *now)
			now = nil
		}
		if c.Verb == "delete" {
			life++
		}
		if c.Fate == Unknown {
			if until := b.actsUntil(c.Sent, c.Answered, c.Server); until.After(unsure) {
				unsure = until
			}
		} else if !c.Sent.Before(unsure) {
			now = &period{from: c.Answered, wish: b.wish(c.Now), paused: c.Paused, life: life}
		}
	}
	if now != nil {
		now.to = b.last()
		t.periods = append(t.periods, *now)
	}
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
