package check

import (
	"slices"
	"time"
)

// forgot says whether Redis may have forgotten, between the two times, what it had answered. Each invariant
// decides for itself what that excuses, and excuses no more than the design allows: with the accept journal on, no
// accepted job is lost.
func (b *book) forgot(from, to time.Time) bool {
	return b.lost(from, to, func(Keeps) bool { return false })
}

// lost is forgot without the faults after which the servers keep the answer in question.
func (b *book) lost(from, to time.Time, kept func(Keeps) bool) bool {
	return slices.ContainsFunc(b.amnesia, func(f Fault) bool { return !kept(f.Keeps) && f.overlaps(from, to) })
}

func keptEnds(k Keeps) bool   { return k.Ends }
func keptLives(k Keeps) bool  { return k.Lives }
func keptLeases(k Keeps) bool { return k.Leases }
func keptCancel(k Keeps) bool { return k.Cancels }

func (b *book) forgotWithin(j *entry) bool {
	if len(b.amnesia) == 0 {
		return false
	}
	first, last := j.span()
	if j.outcome(j.generations()) == nil {
		last = b.last() // SQL does not have its end: Redis had the job until the last moment
	}
	return b.forgot(first, last)
}

// forgotBetween is forgot for an answer about a job that contradicts the job's last end. Redis forgot one of the
// two, so that only a fault between the two times is an excuse.
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

// since returns from when on a loss of Redis excuses that a poll's end is taken back. That is when the poll was
// sent or, if the job ran again after that end, the end itself: polls show an end from SQL even after Redis lost
// it, until Redis is asked again.
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
