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
// ended, also those that waited for a retry. A job that came before its submit was answered may have waited in the
// journal until then, with its arrival: it holds up none that was claimed meanwhile.
func strictOrder(b *book) {
	for line, limits := range b.Lines {
		if !limits.Strict {
			continue
		}
		all := slices.DeleteFunc(b.certain(line), func(o *Outcome) bool {
			return o.FirstTriedAt.IsZero() || b.jobs[o.ID].submit.Fate != OK
		})
		slices.SortFunc(all, func(x, y *Outcome) int {
			return cmp.Or(x.ArrivedAt.Compare(y.ArrivedAt), x.FirstTriedAt.Compare(y.FirstTriedAt), cmp.Compare(x.ID, y.ID))
		})
		for i := 1; i < len(all); i++ {
			before, o := all[i-1], all[i]
			if o.FirstTriedAt.Before(before.EndedAt) && !o.FirstTriedAt.Before(b.jobs[before.ID].submit.Answered) &&
				!b.forgot(before.FirstTriedAt.Add(-limitsBack), o.FirstTriedAt) {
				b.say("S27", o.ID, "it arrived at %s and was claimed at %s, and %s, which arrived before it under the key %s, "+
					"ended at %s", clock(o.ArrivedAt), clock(o.FirstTriedAt), before.ID, line, clock(before.EndedAt))
			}
		}
	}
}

// lineRates is the part of S27 about rates: of any attempts of a key in a row, at most as many start within a time as
// the burst and the rate allow.
func lineRates(b *book) {
	for line, limits := range b.Lines {
		if limits.Rate == 0 {
			continue
		}
		var starts []attempt
		for _, o := range b.certain(line) {
			starts = append(starts, attemptsOf(o)...)
		}
		slices.SortFunc(starts, func(x, y attempt) int { return cmp.Or(x.from.Compare(y.from), cmp.Compare(x.ID, y.ID)) })
		for i, last := range starts {
			for n := limits.Burst + 1; n <= limits.Burst+20 && n <= i+1; n++ {
				first := starts[i+1-n]
				least := time.Duration(float64(n-limits.Burst) / limits.Rate * float64(time.Second))
				if last.from.Sub(first.from)+rateSlack < least && !b.forgot(first.from.Add(-limitsBack), last.from) {
					b.say("S27", last.ID, "%d attempts of the key %s were claimed from %s to %s; that takes %s at least", n, line,
						clock(first.from), clock(last.from), least)
					return
				}
			}
		}
	}
}

// rateSlack is how much the times of claims, in whole milliseconds, may be apart less than a rate says.
const rateSlack = 3 * time.Millisecond

// Hold is a time in which a key of lines had other limits than b.Lines: at most Most of its attempts ran, and if that
// is 0 none started. The server had answered the change at From.
type Hold struct {
	Line     string
	Most     int
	From, To time.Time
}

// linesHeld is the part of S27 about limits that change: an attempt that starts during a hold finds fewer attempts of
// its key than may run.
func linesHeld(b *book) {
	for _, h := range b.Holds {
		var all []attempt
		for _, o := range b.certain(h.Line) {
			all = append(all, attemptsOf(o)...)
		}
		from, to := h.From.Add(holdSlack), h.To.Add(-holdSlack)
		for _, one := range all {
			if !one.from.After(from) || !one.from.Before(to) || b.forgot(h.From.Add(-limitsBack), one.from) {
				continue
			}
			open := 0
			for _, other := range all {
				if !other.from.After(one.from) && other.to.After(one.from) {
					open++
				}
			}
			if open > h.Most {
				b.say("S27", one.ID, "it was claimed at %s, and %d attempts of the key %s ran then; from %s to %s %d may",
					clock(one.from), open, h.Line, clock(h.From), clock(h.To), h.Most)
			}
		}
	}
}

// holdSlack is how far the clocks of Redis and of the checker may be apart.
const holdSlack = 300 * time.Millisecond
