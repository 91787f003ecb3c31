package check

import (
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The kinds of ops about a batch. Their ID is the id of the batch.
const (
	MakeBatch   = "make a batch"
	SealBatch   = "seal a batch"
	CancelBatch = "cancel a batch"
)

// Batch is a batch as SQL has it at rest.
type Batch struct {
	ID                                           job.ID
	Name                                         string
	Sealed                                       bool
	Total, Completed, Failed, Cancelled, Expired int64
	Round, EndedRound                            int
	Members                                      []job.BatchMember
}

// batchOps has the requests of clients about one batch.
type batchOps struct {
	name  string
	then  *submit // the submit of its then jobs: the op that made the batch, and its repeats
	seals []*Op   // the requests to seal or to cancel it that were not refused
}

// readBatchOp notes an op about a batch. The op that makes a batch counts as the submit of its then jobs, but not among
// the submits: no client is told their ids, and a batch has as many then jobs as its rounds owe.
func (b *book) readBatchOp(op *Op) {
	of := b.batches[op.Batch]
	if of == nil {
		of = &batchOps{name: op.Batch}
		b.batches[op.Batch] = of
	}
	switch {
	case op.Kind == MakeBatch && of.then == nil:
		of.then = &submit{Op: op, ops: []*Op{op}, fate: op.Fate}
		b.byKey[op.Key] = of.then
		b.byTrace[op.Trace] = append(b.byTrace[op.Trace], of.then)
	case op.Kind == MakeBatch:
		of.then.ops = append(of.then.ops, op)
		if op.Fate == OK || op.Fate == Unknown && of.then.fate == Fail {
			of.then.fate = op.Fate
		}
	case op.Fate != Fail:
		of.seals = append(of.seals, op)
	}
}

// sealed returns when the first request to seal or cancel the batch was sent, and the first answer of 2xx to one.
// Zero = there is none.
func (o *batchOps) sealed() (sent, answered time.Time) {
	for _, op := range o.seals {
		if sent.IsZero() || op.Sent.Before(sent) {
			sent = op.Sent
		}
		if op.Fate == OK && (answered.IsZero() || op.Answered.Before(answered)) {
			answered = op.Answered
		}
	}
	return sent, answered
}

// isThen says whether the job is a then job.
func (j *entry) isThen() bool { return j.submit != nil && j.submit.Kind == MakeBatch }

// hasRow says whether a job has a row in SQL from before its submit script on: with the accept journal every job has
// one, without it the members of batches.
func (b *book) hasRow(j *entry) bool {
	return b.journaled() || j.submit != nil && j.submit.Batch != "" ||
		slices.ContainsFunc(b.byTrace[j.trace], func(s *submit) bool { return s.Batch != "" })
}

// batchRounds is S30: the members of a batch are the jobs that were accepted into it, and their ends and its counts
// those of the jobs' outcomes. No job is accepted after the seal. Each round that owes a then job has a then job, which
// is claimed and runs after the last member's end; a batch that no request sealed has no then job. SQL has all of this,
// whatever Redis forgot; so there is no excuse.
func batchRounds(b *book) {
	stored := map[string][]*Batch{}
	for i := range b.Batches {
		r := &b.Batches[i]
		stored[r.Name] = append(stored[r.Name], r)
		if of := b.batches[r.Name]; of == nil || of.then == nil {
			b.say("S30", r.ID, "nobody made the batch %q", r.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.batches)) {
		of, rows := b.batches[name], stored[name]
		switch {
		case of.then == nil:
		case len(rows) > 1:
			b.say("S30", name, "one Idempotency-Key made %d batches", len(rows))
		case len(rows) == 0 && of.then.fate == OK:
			b.say("S30", name, "the batch was made, and SQL does not have it")
		case len(rows) == 1 && of.then.fate == Fail:
			b.say("S30", name, "the batch was refused, and SQL has it")
		case len(rows) == 1:
			b.members(of, rows[0])
			b.counts(of, rows[0])
			b.thens(of, rows[0])
		}
	}
}

// members compares the members of a batch with the submits that named it, and with the outcomes of the jobs.
func (b *book) members(of *batchOps, r *Batch) {
	in := map[job.ID]bool{}
	for i := range r.Members {
		m := &r.Members[i]
		in[m.ID] = true
		j := b.jobs[m.ID]
		if j == nil || !j.exists() {
			b.say("S30", m.ID, "the batch %s has it as a member, and nobody has seen the job", of.name)
			continue
		}
		named := func(s *submit) bool { return s.Kind == "submit" && s.Batch == of.name }
		if j.submit != nil && !named(j.submit) || j.submit == nil && !slices.ContainsFunc(b.byTrace[j.trace], named) {
			b.say("S30", m.ID, "the batch %s has it as a member, and no submit asked for that", of.name)
		}
		o := j.outcome(j.generations())
		switch {
		case b.Rested.IsZero(): // L1 has that
		case o == nil && m.Status != "":
			b.say("S30", m.ID, "the batch %s has counted it as %s, and it has not ended", of.name, m.Status)
		case o != nil && (m.Status != o.Outcome || m.Generation != o.Generation):
			b.say("S30", m.ID, "the batch %s has it as %q in generation %d, its outcome is %s in generation %d", of.name,
				m.Status, m.Generation, o.Outcome, o.Generation)
		}
	}
	_, closed := of.sealed()
	for _, s := range b.submits {
		if s.Batch != of.name {
			continue
		}
		for _, id := range s.named {
			if !in[id] {
				b.say("S30", id, "it was accepted into the batch %s, and is no member", of.name)
			}
		}
		after := func(op *Op) bool { return op.Sent.After(closed) }
		if !closed.IsZero() && s.fate == OK && !slices.ContainsFunc(s.ops, func(op *Op) bool { return !after(op) }) {
			b.say("S30", s.Key, "it was accepted into the batch %s at %s, which was sealed at %s", of.name, clock(s.Answered),
				clock(closed))
		}
	}
}

// counts compares the counts and rounds of a batch with its members and with the requests about it.
func (b *book) counts(of *batchOps, r *Batch) {
	sent, answered := of.sealed()
	switch {
	case r.Sealed && sent.IsZero():
		b.say("S30", r.ID, "nobody sealed the batch %s, and it is sealed", of.name)
	case !r.Sealed && !answered.IsZero():
		b.say("S30", r.ID, "the batch %s was sealed at %s, and is open", of.name, clock(answered))
	}
	if b.Rested.IsZero() {
		return
	}
	n := map[job.Status]int64{}
	possible := 0 // requeues of members
	for _, m := range r.Members {
		n[m.Status]++
		if j := b.jobs[m.ID]; j != nil {
			_, some := requests(j.requeues)
			possible += some
		}
	}
	if total := int64(len(r.Members)); total != r.Total || n[job.Completed] != r.Completed || n[job.Failed] != r.Failed ||
		n[job.Cancelled] != r.Cancelled || n[job.Expired] != r.Expired {
		b.say("S30", r.ID, "the batch %s counts %d: %d completed, %d failed, %d cancelled, %d expired; of its %d members "+
			"these are %d, %d, %d and %d", of.name, r.Total, r.Completed, r.Failed, r.Cancelled, r.Expired, total,
			n[job.Completed], n[job.Failed], n[job.Cancelled], n[job.Expired])
	}
	switch {
	case !r.Sealed && r.EndedRound > 0:
		b.say("S30", r.ID, "the batch %s is open, and its round %d has ended", of.name, r.EndedRound)
	case r.Sealed && n[""] == 0 && r.EndedRound != r.Round:
		b.say("S30", r.ID, "no member of the batch %s lives, and its round %d has not ended", of.name, r.Round)
	case r.Round-1 > possible:
		b.say("S30", r.ID, "the batch %s is in round %d, after %d requeues of its members", of.name, r.Round, possible)
	}
}

// owed returns how many then jobs the ended rounds of a batch owe. If the then job waits for all members to succeed,
// that is the last round at most: the next round would need a member that failed.
func (r *Batch) owed(on job.ThenOn) int {
	switch {
	case on == job.ThenFinished:
		return r.EndedRound
	case r.EndedRound > 0 && r.Completed == r.Total:
		return 1
	}
	return 0
}

// thens checks the then jobs of a batch: their number, the rounds that their payloads name, and when they began.
func (b *book) thens(of *batchOps, r *Batch) {
	if owed := r.owed(of.then.On); !b.Rested.IsZero() && len(of.then.jobs) != owed {
		b.say("S30", r.ID, "%d rounds of the batch %s have ended and owe %d then jobs, it has %d: %v", r.EndedRound, of.name,
			owed, len(of.then.jobs), of.then.jobs)
	}
	thenOf := map[int]job.ID{} // the then job of each round
	sealed, _ := of.sealed()
	for _, id := range of.then.jobs {
		j := b.jobs[id]
		round := 0
		for i := range j.runs {
			told := j.runs[i].Batch
			if told == nil {
				b.say("S30", id, "attempt %d of the then job of %s was not told the counts", j.runs[i].Attempt, of.name)
				continue
			}
			round = told.Round
			if other, is := thenOf[round]; is && other != id {
				b.say("S30", id, "it is the then job of round %d of the batch %s, and so is %s", round, of.name, other)
			}
			thenOf[round] = id
			b.told(r, id, told)
		}
		began, how := j.began()
		if began.IsZero() {
			continue
		}
		if sealed.IsZero() || sealed.After(began.Add(released)) {
			b.say("S30", id, "the then job of %s %s at %s, and the first request to seal the batch was sent at %s", of.name, how,
				clock(began), clock(sealed))
		}
		b.afterMembers(r, id, began, how, round == r.EndedRound)
	}
}

// told checks the counts that the payload of a then job has of its round.
func (b *book) told(r *Batch, id job.ID, n *job.BatchCounts) {
	ended := n.Completed + n.Failed + n.Cancelled + n.Expired
	switch {
	case n.BatchID != r.ID || n.Name != r.Name || n.Round < 1 || n.Round > r.EndedRound && !b.Rested.IsZero():
		b.say("S30", id, "its payload names round %d of the batch %s, %d rounds of %s have ended", n.Round, n.BatchID,
			r.EndedRound, r.ID)
	case ended != n.Total || n.Total != r.Total:
		b.say("S30", id, "at the end of round %d of the batch %s it was told that %d of %d members had ended; there are %d",
			n.Round, r.Name, ended, n.Total, r.Total)
	case n.Round == r.EndedRound && n.Round == r.Round &&
		(n.Completed != r.Completed || n.Failed != r.Failed || n.Cancelled != r.Cancelled || n.Expired != r.Expired):
		b.say("S30", id, "of the last round %d of the batch %s it was told %+v, the counts are %d completed, %d failed, "+
			"%d cancelled, %d expired", n.Round, r.Name, *n, r.Completed, r.Failed, r.Cancelled, r.Expired)
	}
}

// afterMembers checks that a then job began after the end of each member's first generation and, if it is the then job
// of the last round, of all its generations.
func (b *book) afterMembers(r *Batch, id job.ID, began time.Time, how string, isLast bool) {
	for _, m := range r.Members {
		j := b.jobs[m.ID]
		if j == nil {
			continue
		}
		for i := range j.outcomes {
			o := &j.outcomes[i]
			if (o.Generation == 1 || isLast) && o.EndedAt.After(began.Add(released)) {
				b.say("S30", id, "the then job of %s %s at %s, and generation %d of its member %s ended at %s", r.Name, how,
					clock(began), o.Generation, m.ID, clock(o.EndedAt))
				return
			}
		}
	}
}
