package check

import (
	"slices"
	"time"
)

// forgot says whether Redis may have forgotten, between the two times, what it had answered. What a promise loses by
// that is said where it is checked, and no more than the design allows: with the accept journal on, nothing that was
// accepted is lost.
func (b *book) forgot(from, to time.Time) bool {
	return b.lost(from, to, func(Keeps) bool { return false })
}

// lost is forgot without the faults whose servers keep the answer in question.
func (b *book) lost(from, to time.Time, kept func(Keeps) bool) bool {
	return slices.ContainsFunc(b.amnesia, func(f Fault) bool { return !kept(f.Keeps) && f.overlaps(from, to) })
}

func keptEnds(k Keeps) bool   { return k.Ends }
func keptLives(k Keeps) bool  { return k.Lives }
func keptCancel(k Keeps) bool { return k.Cancels }

func (b *book) forgotWithin(j *entry) bool {
	if len(b.amnesia) == 0 {
		return false
	}
	first, last := j.span()
	if j.outcome(j.generations()) == nil {
		last = b.last() // SQL never heard of its end: Redis had it until the last moment
	}
	return b.forgot(first, last)
}

// forgotBetween says the same of what was answered about a job, where its last ending says otherwise: Redis forgot one
// of the two, and only what befell it between them is an excuse.
func (b *book) forgotBetween(j *entry, g int, sent, answered time.Time, kept func(Keeps) bool) bool {
	first, last := sent, answered
	for i := range j.outcomes {
		ended := j.outcomes[i].EndedAt
		switch {
		case g != 0 && j.outcomes[i].Generation != g:
		case ended.IsZero():
			return b.forgotWithin(j) && b.lost(first, b.last(), kept)
		case ended.Before(first):
			first = ended
		case ended.After(last):
			last = ended
		}
	}
	return b.lost(first, last, kept)
}

// since says from when on a loss of Redis excuses that the end which a poll was told is taken back: the poll, or, for a
// job that ran again after that end, the end itself. SQL tells such an end also after Redis has lost it, until Redis is
// asked again.
func (j *entry) since(told *Poll) time.Time {
	runs := j.of(told.Generation)
	for i := range runs {
		ended := runs[i].Ended
		again := func(r Run) bool { return r.Began.After(ended) }
		if !ended.IsZero() && ended.Before(told.Sent) && runs[i].Result != "" && slices.ContainsFunc(runs, again) {
			return ended
		}
	}
	return told.Sent
}
