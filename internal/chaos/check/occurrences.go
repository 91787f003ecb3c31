package check

import (
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// onTime is S28. Each occurrence of a schedule is one job, whose id has its time, or is missed with a reason: no
// occurrence is passed over, and none comes twice. From the answer to a pause, a deletion or a change on, no occurrence
// of the earlier schedule comes; the answer shows the change. Each job of a schedule is one of its occurrences, or an
// operator asked for it.
func onTime(b *book) {
	all := b.schedules()
	for _, t := range all {
		for _, c := range t.changes {
			if c.Verb == "put" && c.Fate == OK && c.Now != c.Asked {
				b.say("S28", t.name, "at %s it was asked to be %s, and the answer says that it is %q", clock(c.Sent), c.Asked,
					c.Now)
			}
		}
		for _, r := range t.rows {
			switch {
			case r.JobID == "":
				b.missedRow(t, r)
			case r.Asked:
				b.askedRow(t, r)
			default:
				b.firedRow(t, r)
			}
		}
		for i := range t.periods {
			if s := &t.periods[i]; s.active() {
				b.everyOccurrence(t, s)
			}
		}
		b.noOverlap(t)
	}
	b.noOtherJob(all)
}

// firedRow checks a row of an occurrence that became a job.
func (b *book) firedRow(t *schedule, r *OccurrenceRun) {
	if !madeAt(r.JobID).Equal(r.Occurrence) {
		b.say("S28", r.JobID, "it is the job of %s at %s, and its id says %s", t.name, clock(r.Occurrence),
			clock(madeAt(r.JobID)))
	}
	if s := t.in(r.Occurrence, fireSlack); s != nil && (!s.active() || !s.wish.has(r.Occurrence)) {
		b.say("S28", r.JobID, "%s fired its occurrence of %s, and it %s", t.name, clock(r.Occurrence), s)
	}
	s, j := t.in(r.At, apart), b.jobs[r.JobID]
	switch {
	case s == nil:
	case !s.active():
		b.say("S28", r.JobID, "%s fired at %s, and it %s", t.name, clock(r.At), s)
	case len(j.runs) > 0 && j.runs[0].Key != s.wish.Key:
		b.say("S28", r.JobID, "%s made a job as %s at %s, and it %s", t.name, j.runs[0].Key, clock(r.At), s)
	}
	if o := j.outcome(1); o != nil && !o.FirstTriedAt.IsZero() && o.FirstTriedAt.Before(r.Occurrence.Add(-fireSlack)) {
		b.say("S28", r.JobID, "it was claimed at %s, before its time %s", clock(o.FirstTriedAt), clock(r.Occurrence))
	}
}

// missedRow checks a row of missed occurrences: none of them is of a time in which the schedule did not fire.
func (b *book) missedRow(t *schedule, r *OccurrenceRun) {
	if r.Reason == "" {
		b.say("S28", t.name, "the occurrence of %s was missed without a reason", clock(r.Occurrence))
	}
	if s := t.in(r.At, apart); s != nil && !s.active() {
		b.say("S28", t.name, "it missed an occurrence at %s, and it %s", clock(r.At), s)
	}
	for i := range t.periods {
		s := &t.periods[i]
		if s.wish == nil || !s.paused {
			continue
		}
		from := s.from.Add(fireSlack)
		if r.Occurrence.After(from) {
			from = r.Occurrence.Add(-1)
		}
		if at := s.wish.after(from); !at.After(r.Through) && at.Before(s.to.Add(-fireSlack)) {
			b.say("S28", t.name, "it missed the occurrences from %s to %s, and it %s", clock(r.Occurrence), clock(r.Through), s)
		}
	}
}

// askedRow checks a row of a job that an operator asked for.
func (b *book) askedRow(t *schedule, r *OccurrenceRun) {
	known := slices.ContainsFunc(t.asked, func(op *Op) bool {
		return op.ID == r.JobID || op.Fate == Unknown && b.may(op, r.Occurrence)
	})
	if !known {
		b.say("S28", r.JobID, "nobody asked %s for a job at %s", t.name, clock(r.Occurrence))
	}
	if s := t.in(r.At, apart); s != nil && s.wish == nil {
		b.say("S28", r.JobID, "it was asked for at %s, and %s %s", clock(r.At), t.name, s)
	}
}

// may says whether an operator's request without an answer may have been executed at a time.
func (b *book) may(op *Op, at time.Time) bool {
	return at.After(op.Sent.Add(-fireSlack)) && at.Before(b.actsUntil(op.Sent, op.Answered, op.Server))
}

// everyOccurrence checks that no occurrence was passed over, and none came twice, while a schedule fired. An occurrence
// that was due and not decided when the schedule was changed is not judged. At the end of the run no due occurrence may
// be undecided.
func (b *book) everyOccurrence(t *schedule, s *period) {
	decided := time.Time{} // the last occurrence that was decided in this time
	for _, r := range t.rows {
		through := r.Through
		if !through.Before(s.to) {
			through = s.to.Add(-1)
		}
		if !r.Asked && r.Occurrence.Before(s.to) && through.After(s.from) && through.After(decided) {
			decided = through
		}
	}
	if due := s.to.Add(-catchesUp); s.last && s.wish.after(s.from.Add(fireSlack)).Before(due) && decided.Before(due) {
		b.say("S28", t.name, "its last occurrence was decided at %s, although it %s", clock(decided), s)
	}
	for at := s.wish.after(s.from.Add(time.Second)); !at.After(decided); at = s.wish.after(at) {
		b.report.Counts.Judged++
		var as []any
		for _, r := range t.rows {
			switch {
			case r.Asked || at.Before(r.Occurrence) || at.After(r.Through):
			case r.JobID == "":
				as = append(as, r.Reason)
			default:
				as = append(as, r.JobID)
			}
		}
		if len(as) != 1 {
			b.say("S28", t.name, "its occurrence of %s became %v, and it %s", clock(at), as, s)
			return
		}
	}
}

// noOverlap checks that no two jobs of a schedule run at once, unless its overlap allows that or a worker may run a
// job that Redis forgot.
func (b *book) noOverlap(t *schedule) {
	type run struct {
		attempt
		life    int
		overlap job.Overlap
	}
	var runs []run
	for _, r := range t.rows {
		s := t.in(r.At, apart)
		if r.JobID == "" || s == nil || s.wish == nil || s.wish.Overlap == job.OverlapAllow {
			continue
		}
		j := b.jobs[r.JobID]
		for i := range j.outcomes {
			for _, a := range attemptsOf(&j.outcomes[i]) {
				runs = append(runs, run{a, s.life, s.wish.Overlap})
			}
		}
	}
	waits := func(o job.Overlap) bool { return o != job.OverlapSkip } // on the unique key of the schedule
	slices.SortStableFunc(runs, func(x, y run) int { return x.from.Compare(y.from) })
	for i := range runs {
		for k := range i {
			before, r := &runs[k], &runs[i]
			if before.ID != r.ID && before.life == r.life && waits(before.overlap) == waits(r.overlap) &&
				before.to.After(r.from) && !b.forgot(before.from.Add(-limitsBack), r.from) {
				b.say("S28", r.ID, "it was claimed at %s, and %s, another job of %s, ended at %s", clock(r.from), before.ID, t.name,
					clock(before.to))
				return
			}
		}
	}
}

// noOtherJob checks that each job of the schedules' API key is in a row, or in an answer to an operator.
func (b *book) noOtherJob(all []*schedule) {
	for _, s := range b.submits {
		if !s.unnoted() {
			continue
		}
		excused := slices.ContainsFunc(all, func(t *schedule) bool {
			return (s.Schedule == "?" || s.Schedule == t.name) && b.rowIsLost(t, madeAt(s.ID))
		})
		if !excused {
			b.say("S28", s.ID, "it belongs to the schedules, and %s has no note of it; its id says %s", s.Schedule,
				clock(madeAt(s.ID)))
		}
	}
}

// rowIsLost says whether a schedule may have made a job at a time of which no row was read: its deletion deleted the
// row. The row of an occurrence is written late while a store is away.
func (b *book) rowIsLost(t *schedule, at time.Time) bool {
	noted := slices.ContainsFunc(t.rows, func(r *OccurrenceRun) bool { return r.Occurrence.Equal(at) })
	return !noted && slices.ContainsFunc(t.changes, func(c *ScheduleChange) bool {
		until := c.Answered
		if c.Fate == Unknown {
			until = b.actsUntil(c.Sent, c.Answered, c.Server)
		}
		return c.Verb == "delete" && c.Fate != Fail && at.After(c.Read.Add(-lateRow)) && at.Before(until.Add(fireSlack))
	})
}

// lateRow is how long after an occurrence its row is written at the latest.
const lateRow = 30 * time.Second
