package check

import (
	"cmp"
	"slices"
	"time"
)

// limitsBack is how long after a loss of Redis' memory the limits of keys may be missing: a reconciler gives them back
// when it has found the loss, and SQL may be away at that time.
const limitsBack = 30 * time.Second

// attempt is a lease of a job with a key of lines, by Redis' own times. A lease that was lost ends when it was taken
// back.
type attempt struct {
	*Outcome
	from, to time.Time
}

// attemptsOf returns the attempts of a generation. The history has those that did not end well; the outcome has the
// times of the last one.
func attemptsOf(o *Outcome) (all []attempt) {
	last := !o.StartedAt.IsZero()
	for _, t := range o.Tries {
		all = append(all, attempt{o, t.StartedAt, t.FinishedAt})
		last = last && t.Number != o.Attempt
	}
	if last {
		all = append(all, attempt{o, o.StartedAt, o.EndedAt})
	}
	return all
}

// certain returns the outcomes of the jobs of a key of whose attempts Redis forgot nothing.
func (b *book) certain(line string) (all []*Outcome) {
	for _, id := range b.order {
		j := b.jobs[id]
		if j.submit == nil || j.submit.Line != line || b.forgotWithin(j) {
			continue
		}
		for i := range j.outcomes {
			all = append(all, &j.outcomes[i])
		}
	}
	return all
}

// lineLimits is the part of S27 about limits: attempts of a key that run at the same time are never more than the key
// may have, strict keys one.
func lineLimits(b *book) {
	for line, limits := range b.Lines {
		most := limits.Running
		if limits.Strict {
			most = 1
		}
		var all []attempt
		for _, o := range b.certain(line) {
			all = append(all, attemptsOf(o)...)
		}
		slices.SortFunc(all, func(x, y attempt) int { return cmp.Or(x.from.Compare(y.from), cmp.Compare(x.ID, y.ID)) })
		var open []attempt
		for _, one := range all {
			open = slices.DeleteFunc(open, func(o attempt) bool { return !o.to.After(one.from) })
			if open = append(open, one); most > 0 && len(open) > most && !b.forgot(one.from.Add(-limitsBack), one.from) {
				b.say("S27", one.ID, "it was claimed at %s, and %d attempts of the key %s ran then; %d may", clock(one.from),
					len(open), line, most)
			}
		}
	}
}

// strictOrder is the part of S27 about strict keys: a job starts when the jobs of the key that arrived before it have
// ended, also those that waited for a retry.
func strictOrder(b *book) {
	for line, limits := range b.Lines {
		if !limits.Strict {
			continue
		}
		all := slices.DeleteFunc(b.certain(line), func(o *Outcome) bool { return o.FirstTriedAt.IsZero() })
		slices.SortFunc(all, func(x, y *Outcome) int {
			return cmp.Or(x.ArrivedAt.Compare(y.ArrivedAt), x.FirstTriedAt.Compare(y.FirstTriedAt), cmp.Compare(x.ID, y.ID))
		})
		for i := 1; i < len(all); i++ {
			before, o := all[i-1], all[i]
			if o.FirstTriedAt.Before(before.EndedAt) && !b.forgot(before.FirstTriedAt.Add(-limitsBack), o.FirstTriedAt) {
				b.say("S27", o.ID, "it arrived at %s and was claimed at %s, and %s, which arrived before it under the key %s, "+
					"ended at %s", clock(o.ArrivedAt), clock(o.FirstTriedAt), before.ID, line, clock(before.EndedAt))
			}
		}
	}
}
