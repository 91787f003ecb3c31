package check

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// batchID is the id of the batch that batching makes.
const batchID = job.ID("019de340-0000-7000-8000-00000000ba00")

// The jobs of batching: three members and the then jobs of two rounds.
const (
	memberDone, memberDead, memberUntold = 50, 51, 52
	thenFirst, thenSecond                = 53, 54
)

// batching adds a batch. Its members end; the second of them fails, is requeued after the end of the round and
// completes. Of the third the client never learned that it was accepted. Each of the two rounds has its then job.
func (e *Evidence) batching() {
	const name = "b"
	ask := func(kind string, fate Fate, sent float64) Op {
		return Op{Kind: kind, ID: batchID, Batch: name, Fate: fate, Status: 200, Sent: at(sent), Answered: at(sent + 0.05)}
	}
	made := ask(MakeBatch, OK, 20)
	made.Key, made.Trace, made.Tier, made.Type, made.Sum, made.On = "then", name, job.Public, Type, "sum", job.ThenFinished
	unsure := made
	unsure.ID, unsure.Fate, unsure.Sent, unsure.Answered = "", Unknown, at(19.8), at(19.9)
	e.Ops = append(e.Ops, unsure, made, ask(SealBatch, Unknown, 22), ask(SealBatch, OK, 22.2), ask(SealBatch, OK, 27),
		Op{Kind: "requeue", ID: id(memberDead), Once: "again", Fate: OK, Status: 202, Sent: at(24), Answered: at(24.1)})
	member := func(op *Op, _ *Run, _ *Outcome) { op.Batch = name }
	e.add(memberDone, 21, member)
	e.add(memberDead, 21, func(op *Op, r *Run, o *Outcome) {
		op.Batch, op.Fails = name, 2
		*r = ran(memberDead, 1, 2, "10", 21.4, 21.5, "")
		*o = ended(memberDead, 1, 2, job.Failed, 21, 22.5)
		o.RetryCount, o.Requeued, o.StartedAt = 1, true, at(21.3)
		o.Tries = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR", StartedAt: at(21.1), FinishedAt: at(21.2)},
			{Number: 2, Outcome: "HANDLER_ERROR", StartedAt: at(21.3), FinishedAt: at(22.5)}}
	})
	e.Runs = append(e.Runs, ran(memberDead, 1, 1, "10", 21.1, 21.2, ""), ran(memberDead, 2, 3, "10", 25.1, 25.5, "result"))
	e.Outcomes = append(e.Outcomes, ended(memberDead, 2, 3, job.Completed, 25, 25.5))
	e.add(memberUntold, 21.2, func(op *Op, _ *Run, _ *Outcome) { op.Batch, op.Fate, op.ID = name, Unknown, "" })
	for round, n := range map[int]int{1: thenFirst, 2: thenSecond} {
		counts := job.BatchCounts{BatchID: batchID, Name: name, Round: round, Total: 3, Completed: 2, Failed: 1}
		if round == 2 {
			counts.Completed, counts.Failed = 3, 0
		}
		e.add(n, 23+float64(round-1)*3, func(op *Op, r *Run, o *Outcome) {
			op.Key, r.Key, r.Batch, o.Trace = "", "then", &counts, name
		})
	}
	members := make([]job.BatchMember, 3)
	for i, n := range []int{memberDone, memberDead, memberUntold} {
		members[i] = job.BatchMember{ID: id(n), Generation: 1, Status: job.Completed}
	}
	members[1].Generation = 2
	e.Batches = []Batch{{ID: batchID, Name: name, Sealed: true, Total: 3, Completed: 3, Round: 2, EndedRound: 2,
		Members: members}}
	view := func(sent float64, state job.BatchState, round int, living int64) BatchSeen {
		return BatchSeen{ID: batchID, Sent: at(sent), At: at(sent + 0.05), HTTP: 200, State: state,
			Sealed: state != job.BatchOpen, Round: round, Total: 3, Living: living, Finished: 3 - living}
	}
	e.BatchesSeen = []BatchSeen{view(21.5, job.BatchOpen, 1, 2), view(22.3, job.BatchRunning, 1, 1),
		view(23, job.BatchFinished, 1, 0), view(25, job.BatchRunning, 2, 1), view(32, job.BatchFinished, 2, 0)}
	e.Quiet, e.Rested = at(30), at(31)
}

func inBatch(change func(*Evidence, *Batch)) func(*Evidence) {
	return func(e *Evidence) {
		e.batching()
		change(e, &e.Batches[0])
	}
}

// made returns the ops that made the batch.
func (e *Evidence) made() (ops []*Op) {
	for i := range e.Ops {
		if e.Ops[i].Kind == MakeBatch {
			ops = append(ops, &e.Ops[i])
		}
	}
	return ops
}

// A batch with two rounds breaks no rule. Nor does a batch that waits for the success of all members, was sealed only
// by a request without an answer, or was never made.
func TestSoundBatches(t *testing.T) {
	for name, change := range map[string]func(*Evidence, *Batch){
		"as it is": func(*Evidence, *Batch) {},
		"on succeeded": func(e *Evidence, _ *Batch) {
			for _, op := range e.made() {
				op.On = job.ThenSucceeded
			}
			gone := func(id job.ID) bool { return id == idOfThen(1) }
			e.Runs = without(e.Runs, func(r *Run) bool { return gone(r.ID) })
			e.Outcomes = without(e.Outcomes, func(o *Outcome) bool { return gone(o.ID) })
		},
		"sealed by a request without an answer": func(e *Evidence, _ *Batch) {
			for i := range e.Ops {
				if e.Ops[i].Kind == SealBatch {
					e.Ops[i].Fate = Unknown
				}
			}
		},
		"an unknown batch that nobody could use": func(e *Evidence, _ *Batch) {
			e.Ops = append(e.Ops, Op{Kind: MakeBatch, Key: "other", Trace: "c", Batch: "c", Fate: Unknown, Sent: at(1)})
		},
		"one that was made by a request without an answer": func(e *Evidence, _ *Batch) {
			e.Ops = append(e.Ops, Op{Kind: MakeBatch, Key: "other", Trace: "c", Batch: "c", Fate: Unknown, Sent: at(1)})
			e.Batches = append(e.Batches, Batch{ID: "c", Name: "c", Round: 1})
		},
	} {
		e := sound()
		inBatch(change)(&e)
		if r := Check(e); len(r.Violations) > 0 {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
}

// Without the journal the members of batches have rows all the same: a member that was refused in the end may have been
// cancelled, and a member without an answer may have the arrival of its row.
func TestSoundBatches_Rows(t *testing.T) {
	e := sound()
	e.batching()
	e.Ops = append(e.Ops, Op{Kind: "submit", Key: "k60", Trace: "t60", Batch: "b", Tier: job.Public, Type: Type,
		Fate: Fail, Status: 503, Code: "SYSTEM_UNHEALTHY", Sent: at(21.6), Answered: at(21.7)})
	e.Outcomes = append(e.Outcomes, ended(60, 1, 0, job.Cancelled, 21.6, 21.7))
	e.outcome(memberUntold, 1).ArrivedAt = at(21.2 - 0.04)
	e.Tables = nil
	r := Check(e)
	if len(r.Violations) > 0 || r.Counts.Withdrawn != 1 {
		t.Errorf("%d withdrawn: %v", r.Counts.Withdrawn, r.Violations)
	}
}

func idOfThen(round int) job.ID { return id(thenFirst + round - 1) }

var seedsOfBatches = []seed{
	{"S30", "a then job begins before the last member's end", inBatch(func(e *Evidence, _ *Batch) {
		o := e.outcome(memberDead, 1)
		o.EndedAt, o.Tries[1].FinishedAt = at(23.2), at(23.2)
	})},
	{"S30", "the last then job begins before a requeued member's end", inBatch(func(e *Evidence, _ *Batch) {
		e.outcome(memberDead, 2).EndedAt, e.run(memberDead, 3).Ended = at(26.3), at(26.3)
	})},
	{"S30", "a then job begins before the seal was asked for", inBatch(func(e *Evidence, _ *Batch) {
		for i := range e.Ops {
			if op := &e.Ops[i]; op.Kind == SealBatch {
				op.Sent, op.Answered = op.Sent.Add(4*time.Second), op.Answered.Add(4*time.Second)
			}
		}
	})},
	{"S30", "a round without its then job", inBatch(func(e *Evidence, _ *Batch) {
		e.Runs = without(e.Runs, func(r *Run) bool { return r.ID == idOfThen(1) })
		e.drop(thenFirst)
	})},
	{"S30", "a round with two then jobs", inBatch(func(e *Evidence, _ *Batch) {
		counts := *e.run(thenSecond, 1).Batch
		e.add(55, 27, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, r.Batch, o.Trace = "", "then", &counts, "b" })
	})},
	{"S30", "a then job of a batch that is open", inBatch(func(e *Evidence, r *Batch) {
		e.Ops = without(e.Ops, func(op *Op) bool { return op.Kind == SealBatch })
		r.Sealed, r.EndedRound = false, 0
		for i := range e.BatchesSeen {
			e.BatchesSeen[i].Sealed, e.BatchesSeen[i].State = false, job.BatchOpen
		}
	})},
	{"S30", "a then job although members failed", inBatch(func(e *Evidence, _ *Batch) {
		for _, op := range e.made() {
			op.On = job.ThenSucceeded
		}
	})},
	{"S30", "a then job was told of a round with a living member", inBatch(func(e *Evidence, _ *Batch) {
		e.run(thenFirst, 1).Batch.Failed = 0
	})},
	{"S30", "a then job was told other counts than those of the batch", inBatch(func(e *Evidence, _ *Batch) {
		n := e.run(thenSecond, 1).Batch
		n.Completed, n.Expired = 2, 1
	})},
	{"S30", "a then job was told nothing", inBatch(func(e *Evidence, _ *Batch) { e.run(thenFirst, 1).Batch = nil })},
	{"S30", "a count that is not that of the members", inBatch(func(e *Evidence, r *Batch) {
		r.Completed, r.Cancelled = 2, 1
		n := e.run(thenSecond, 1).Batch
		n.Completed, n.Cancelled = 2, 1
	})},
	{"S30", "a member's end is another one than its job's", inBatch(func(e *Evidence, r *Batch) {
		r.Members[0].Status, r.Completed, r.Expired = job.Expired, 2, 1
		n := e.run(thenSecond, 1).Batch
		n.Completed, n.Expired = 2, 1
	})},
	{"S30", "an accepted member is none", inBatch(func(e *Evidence, r *Batch) {
		r.Members, r.Total, r.Completed = r.Members[1:], 2, 2
		for _, n := range []int{thenFirst, thenSecond} {
			c := e.run(n, 1).Batch
			c.Total, c.Completed = 2, c.Completed-1
		}
		e.BatchesSeen = nil
	})},
	{"S30", "a member that nobody submitted to it", inBatch(func(e *Evidence, _ *Batch) {
		e.submit(memberDone).Batch = ""
	})},
	{"S30", "a member that nobody has seen", inBatch(func(e *Evidence, r *Batch) {
		r.Members = append(slices.Clone(r.Members), job.BatchMember{ID: id(59), Generation: 1, Status: job.Expired})
		r.Total, r.Expired = 4, 1
		for _, n := range []int{thenFirst, thenSecond} {
			c := e.run(n, 1).Batch
			c.Total, c.Expired = 4, 1
		}
		e.BatchesSeen = nil
	})},
	{"S30", "a job is accepted after the seal", inBatch(func(e *Evidence, _ *Batch) {
		e.submit(memberDone).Sent, e.submit(memberDone).Answered = at(22.3), at(22.4)
		o, r := e.outcome(memberDone, 1), e.run(memberDone, 1)
		o.ArrivedAt, o.FirstTriedAt, o.StartedAt, r.Began = at(22.35), at(22.35), at(22.35), at(22.36)
		o.EndedAt, r.Ended = at(22.4), at(22.4)
	})},
	{"S30", "a batch that was sealed is open", inBatch(func(e *Evidence, r *Batch) {
		r.Sealed, r.EndedRound = false, 0
		e.Runs = without(e.Runs, func(r *Run) bool { return r.Key == "then" })
		e.drop(thenFirst)
		e.drop(thenSecond)
		e.BatchesSeen = nil
	})},
	{"S30", "a batch that nobody sealed is sealed", inBatch(func(e *Evidence, _ *Batch) {
		e.Ops = without(e.Ops, func(op *Op) bool { return op.Kind == SealBatch })
		e.Runs = without(e.Runs, func(r *Run) bool { return r.Key == "then" })
		for _, n := range []int{thenFirst, thenSecond} {
			e.outcome(n, 1).FirstTriedAt, e.outcome(n, 1).StartedAt = time.Time{}, time.Time{}
			*e.outcome(n, 1) = ended(n, 1, 0, job.Cancelled, 25, 26)
			e.outcome(n, 1).Trace = "b"
		}
	})},
	{"S30", "no member lives, and the round goes on", inBatch(func(e *Evidence, r *Batch) {
		r.EndedRound = 1
		e.Runs = without(e.Runs, func(r *Run) bool { return r.ID == idOfThen(2) })
		e.drop(thenSecond)
	})},
	{"S30", "a round that no requeue began", inBatch(func(e *Evidence, r *Batch) {
		r.Round, r.EndedRound = 3, 3
		counts := *e.run(thenSecond, 1).Batch
		counts.Round = 3
		e.add(55, 27, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, r.Batch, o.Trace = "", "then", &counts, "b" })
		e.BatchesSeen = nil
	})},
	{"S30", "one key, two batches", inBatch(func(e *Evidence, r *Batch) {
		e.Batches = append(e.Batches, Batch{ID: "other", Name: r.Name, Round: 1})
	})},
	{"S30", "a batch that nobody made", inBatch(func(e *Evidence, _ *Batch) {
		e.Batches = append(e.Batches, Batch{ID: "other", Name: "other", Round: 1})
	})},
	{"S30", "a batch that was made is gone", inBatch(func(e *Evidence, _ *Batch) {
		e.Ops = append(e.Ops, Op{Kind: MakeBatch, Key: "other", Trace: "c", Batch: "c", ID: "c", Fate: OK, Sent: at(1)})
	})},
	{"S30", "a batch that was refused exists", inBatch(func(e *Evidence, _ *Batch) {
		e.Ops = append(e.Ops, Op{Kind: MakeBatch, Key: "other", Trace: "c", Batch: "c", Fate: Fail, Sent: at(1)})
		e.Batches = append(e.Batches, Batch{ID: "c", Name: "c", Round: 1})
	})},
	{"S30", "a batch was shown in an earlier round", inBatch(func(e *Evidence, _ *Batch) {
		e.BatchesSeen[3].Round, e.BatchesSeen[2].Round = 1, 2
	})},
	{"S30", "a sealed batch was shown open", inBatch(func(e *Evidence, _ *Batch) { e.BatchesSeen[2].Sealed = false })},
	{"S30", "a batch was shown with counts that do not add up", inBatch(func(e *Evidence, _ *Batch) {
		e.BatchesSeen[0].Finished++
	})},
	{"S30", "a batch was shown finished while a member lived", inBatch(func(e *Evidence, _ *Batch) {
		e.BatchesSeen[1].State = job.BatchFinished
	})},
	{"S30", "a batch that was made was not found", inBatch(func(e *Evidence, _ *Batch) { e.BatchesSeen[1].HTTP = 404 })},
	{"S30", "at rest a batch was shown otherwise than SQL has it", inBatch(func(e *Evidence, _ *Batch) {
		e.BatchesSeen[4].Total, e.BatchesSeen[4].Finished = 4, 4
	})},
	{"S14", "a then job ran again without a reason", inBatch(func(e *Evidence, _ *Batch) {
		counts := *e.run(thenFirst, 1).Batch
		r := ran(thenFirst, 1, 2, "11", 24, 24.2, "result")
		r.Key, r.Batch = "then", &counts
		e.Runs = append(e.Runs, r)
		o := e.outcome(thenFirst, 1)
		o.Attempt, o.StartedAt, o.EndedAt = 2, at(23.9), at(24.2)
		o.Tries = []job.Attempt{{Number: 1, Outcome: "RELEASED", StartedAt: at(23.1), FinishedAt: at(23.5)}}
	})},
	{"S18", "a then job got another payload", inBatch(func(e *Evidence, _ *Batch) { e.run(thenFirst, 1).Sum = "other" })},
}

// One callback tells of each round, with its counts; a batch without a callbackUrl has no callback.
func TestRoundsTold(t *testing.T) {
	t.Parallel()
	sound := func() (Evidence, Witness) {
		e := Evidence{Ops: []Op{{Kind: MakeBatch, Key: "k", Batch: "b", On: job.ThenSucceeded},
			{Kind: MakeBatch, Key: "l", Batch: "quiet"}},
			Batches: []Batch{{ID: batchID, Name: "b", Sealed: true, Total: 2, Completed: 2, Round: 2, EndedRound: 2},
				{ID: "quiet", Name: "quiet", Sealed: true, Round: 1, EndedRound: 1}}, Rested: at(9)}
		call := func(round int, what string, completed int64, http int) RoundCall {
			return RoundCall{Type: what, HTTP: http, At: at(5), Counts: job.BatchCounts{BatchID: batchID, Name: "b",
				Round: round, Total: 2, Completed: completed, Failed: 2 - completed}}
		}
		w := Witness{Asked: map[string]Asked{"b": {Call: true}}, Rounds: []RoundCall{call(1, "batch.stuck", 1, 500),
			call(1, "batch.stuck", 1, 200), call(2, "batch.finished", 2, 200)}}
		for n := range 2 {
			e.Outcomes = append(e.Outcomes, Outcome{ID: id(n), Generation: 1, Type: job.CallbackType, Trace: CallbackTrace("b")})
		}
		return e, w
	}
	for what, change := range map[string]func(*Evidence, *Witness){
		"":                        func(*Evidence, *Witness) {},
		"nobody was told":         func(_ *Evidence, w *Witness) { w.Rounds = w.Rounds[:2] },
		"only with an error":      func(_ *Evidence, w *Witness) { w.Rounds[2].HTTP = 500 },
		"no CALLBACK job":         func(e *Evidence, _ *Witness) { e.Outcomes = e.Outcomes[:1] },
		"two CALLBACK jobs":       func(e *Evidence, _ *Witness) { e.Outcomes = append(e.Outcomes, e.Outcomes[0]) },
		"finished, and it is not": func(_ *Evidence, w *Witness) { w.Rounds[0].Type = "batch.finished" },
		"a member lives":          func(_ *Evidence, w *Witness) { w.Rounds[2].Counts.Completed = 1 },
		"a round that did not end": func(_ *Evidence, w *Witness) {
			w.Rounds = append(w.Rounds, w.Rounds[2])
			w.Rounds[3].Counts.Round = 3
		},
		"a callback that nobody wanted": func(e *Evidence, _ *Witness) {
			e.Outcomes = append(e.Outcomes, Outcome{ID: id(8), Generation: 1, Type: job.CallbackType,
				Trace: CallbackTrace("quiet")})
		},
	} {
		e, w := sound()
		change(&e, &w)
		found := toldOfRounds(e, w)
		if (len(found) > 0) != (what != "") {
			t.Errorf("%q: %v", what, found)
		}
		if calls := toldOfEnds(e, w); len(calls) > 0 {
			t.Errorf("%q: S21 objects: %v", what, calls)
		}
		if again := toldOfRounds(e, w); fmt.Sprint(again) != fmt.Sprint(found) {
			t.Errorf("%q: another order: %v, %v", what, found, again)
		}
	}
}
