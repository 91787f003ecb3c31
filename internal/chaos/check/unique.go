package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Unique is what a submit said of its unique key.
type Unique struct {
	Key    string // with the caller's name: callers with the same key do not share it; "" = none
	Living bool   // the key is held until its job has ended, else until a worker claims the job
	On     job.UniqueOn
	// StandIn: the answer names another job than the submit's own, which it did not make.
	StandIn bool
}

// isInput says whether the submit wanted its payload to run, whoever holds the key.
func (u *Unique) isInput() bool { return u.On == job.UniqueReplace || u.On == job.UniqueAfter }

// oneHolder is the first part of S25: a job that holds its unique key until its end is claimed for the first time after
// the end of the job before it, by Redis' own times. After a loss of Redis two jobs may hold one key: a new submit may
// come before the holder is restored.
func oneHolder(b *book) {
	under := map[string][]*Outcome{}
	for _, id := range b.order {
		j := b.jobs[id]
		if j.submit == nil || !j.submit.Unique.Living {
			continue
		}
		for i := range j.outcomes {
			if o := &j.outcomes[i]; !o.FirstTriedAt.IsZero() {
				under[j.submit.Unique.Key] = append(under[j.submit.Unique.Key], o)
			}
		}
	}
	for key, all := range under {
		slices.SortFunc(all, func(x, y *Outcome) int {
			return cmp.Or(x.FirstTriedAt.Compare(y.FirstTriedAt), x.EndedAt.Compare(y.EndedAt), cmp.Compare(x.ID, y.ID))
		})
		before := all[0]
		for _, o := range all[1:] {
			if o.FirstTriedAt.Before(before.EndedAt) && !b.forgot(before.ArrivedAt, o.EndedAt) {
				b.say("S25", o.ID, "it was claimed at %s, and %s, which held %s, ended at %s", clock(o.FirstTriedAt), before.ID,
					key, clock(before.EndedAt))
			}
			if o.EndedAt.After(before.EndedAt) {
				before = o
			}
		}
	}
}

// lastInput is the second part of S25: after each accepted submit on replace or after, a job of its key runs with its
// payload, or with that of a submit that may have come later. A Redis that went back to an earlier time may have an
// earlier payload again.
func lastInput(b *book) {
	under := map[string][]*submit{}
	for _, s := range b.submits {
		if s.Unique.Key != "" && s.Unique.isInput() && s.fate != Fail {
			under[s.Unique.Key] = append(under[s.Unique.Key], s)
		}
	}
	began := map[string][]time.Time{} // by the submit's key
	for i := range b.Runs {
		began[b.Runs[i].Key] = append(began[b.Runs[i].Key], b.Runs[i].Began)
	}
	for _, all := range under {
		for _, s := range all {
			if s.fate == OK && !b.ranSince(s, all, began) && !b.forgot(s.Sent, b.last()) {
				b.say("S25", s.Key, "accepted at %s under %s, and neither it nor a later submit ran after that", clock(s.Answered),
					s.Unique.Key)
			}
		}
	}
}

// ranSince says whether a job ran, after a submit was sent, with its payload or one that may have come later.
func (b *book) ranSince(s *submit, all []*submit, began map[string][]time.Time) bool {
	return slices.ContainsFunc(all, func(other *submit) bool {
		if other.fate == OK && other.Answered.Before(s.Sent) {
			return false
		}
		return slices.ContainsFunc(began[other.Key], func(at time.Time) bool { return !at.Before(s.Sent.Add(-jitter)) })
	})
}

// standIns is the third part of S25: a job that stands for a submit exists.
func standIns(b *book) {
	for i := range b.Ops {
		op := &b.Ops[i]
		if op.Kind != "submit" || op.Fate != OK || !op.Unique.StandIn {
			continue
		}
		if j := b.jobs[op.ID]; (j == nil || !j.exists()) && (b.journaled() || !b.forgot(op.Sent, b.last())) {
			b.say("S25", op.Key, "the job %s stands for it, and no store has that", op.ID)
		}
	}
}
