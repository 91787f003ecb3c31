package check

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// at returns a moment of the run, in seconds from its beginning.
func at(seconds float64) time.Time {
	return time.Date(2026, 5, 1, 12, 0, 0, 0,
		time.UTC).Add(time.Duration(seconds * float64(time.Second)).Round(time.Microsecond))
}

func id(n int) job.ID { return job.ID(fmt.Sprintf("019de340-0000-7000-8000-0000000%03d00", n)) }

// These are the jobs of the sound run. Each has its own history.
const (
	plain     = 1 // completed at once
	dead      = 2 // failed as asked, requeued, completed
	cancelled = 3 // cancelled while it waited
	killed    = 4 // its worker was killed; run again
	untold    = 5 // its submit timed out; it ran
	keyed     = 6 // submitted twice under an Idempotency-Key; the first answer was lost
	notice    = 7 // a callback
	batched   = 8 // of a batch without an answer, cancelled before it ran: only its trace id is known
)

func submitted(n int, sent float64) Op {
	return Op{
		Kind: "submit", Key: fmt.Sprintf("k%d", n), Trace: fmt.Sprintf("t%d", n), ID: id(n), Tier: job.Public, Type: Type,
		Sum: "sum", Fate: OK, Status: 202,
		Sent: at(sent), Answered: at(sent + 0.01),
	}
}

func ran(n, generation, attempt int, worker string, began, ended float64, result string) Run {
	r := Run{ID: id(n), Key: fmt.Sprintf("k%d", n), Generation: generation, Attempt: attempt, Worker: worker, Sum: "sum",
		Began: at(began), Result: result}
	if ended > 0 {
		r.Ended = at(ended)
	}
	return r
}

func ended(n, generation, attempt int, how job.Status, arrived, over float64) Outcome {
	o := Outcome{
		ID: id(n), Generation: generation, Attempt: attempt, Outcome: how, MaxRetries: 1, Tier: job.Public, Type: Type,
		Trace:     fmt.Sprintf("t%d", n),
		ArrivedAt: at(arrived), EndedAt: at(over),
	}
	switch how {
	case job.Completed:
		o.Results, o.ResultSum, o.FirstTriedAt, o.StartedAt = 1, "result", at(arrived+0.1), at(arrived+0.1)
	case job.Failed:
		o.Dead, o.FirstTriedAt, o.StartedAt = 1, at(arrived+0.1), at(arrived+0.1)
	}
	return o
}

func seen(by string, n, generation int, status job.Status, when float64) Poll {
	p := Poll{By: by, ID: id(n), Generation: generation, Status: status, HTTP: 200, Sent: at(when - 0.01), At: at(when)}
	if status == job.Completed {
		p.ResultSum = "result"
	}
	return p
}

// sound returns a run with many events in which every promise was kept.
func sound() Evidence {
	unsure := func(n int, sent float64) Op {
		op := submitted(n, sent)
		op.Fate, op.Status, op.ID = Unknown, 0, ""
		return op
	}
	first, again := unsure(keyed, 5), submitted(keyed, 7)
	first.Once, again.Once = "once", "once"
	fails := submitted(dead, 2)
	fails.Fails = 2
	batch, other := unsure(batched, 8), unsure(99, 8)
	batch.Trace, other.Trace = "batch", "batch"
	refused := submitted(98, 9)
	refused.Fate, refused.Status, refused.Code, refused.ID = Fail, 503, "QUEUE_FULL", ""
	try := func(n int, outcome string, began, ended float64) job.Attempt {
		return job.Attempt{Number: n, Outcome: outcome, StartedAt: at(began), FinishedAt: at(ended)}
	}
	failed, revived := ended(dead, 1, 2, job.Failed, 2, 4), ended(dead, 2, 3, job.Completed, 10, 11)
	failed.RetryCount, failed.Requeued, failed.StartedAt = 1, true, at(3.8)
	failed.Tries = []job.Attempt{try(1, "HANDLER_ERROR", 2.1, 2.5), try(2, "HANDLER_ERROR", 3.8, 4)}
	repeated := ended(killed, 1, 2, job.Completed, 4, 14)
	repeated.RetryCount, repeated.StartedAt, repeated.Tries = 1, at(12.9),
		[]job.Attempt{try(1, "HEARTBEAT_STOPPED", 4.1, 12)}
	callback := ended(notice, 1, 1, job.Completed, 3, 3.5)
	callback.Type, callback.ResultSum = "CALLBACK", "other"
	lone := ended(batched, 1, 0, job.Cancelled, 8, 9)
	lone.Trace = "batch"
	return Evidence{
		Ops: []Op{
			submitted(plain, 1), fails, submitted(cancelled, 3), submitted(killed, 4), unsure(untold, 5), first, again, batch,
			other, refused,
			{Kind: "cancel", ID: id(cancelled), Fate: OK, Status: 200, Sent: at(3.5), Answered: at(3.6)},
			{Kind: "requeue", ID: id(dead), Once: "r", Fate: Unknown, Sent: at(9), Answered: at(9.5)},
			{Kind: "requeue", ID: id(dead), Once: "r", Fate: OK, Status: 202, Sent: at(9.9), Answered: at(10)},
		},
		Polls: []Poll{
			seen("a", plain, 1, job.Pending, 1.05), seen("a", plain, 1, job.Completed, 1.6),
			seen("b", plain, 1, job.Completed, 5),
			seen("a", dead, 1, job.Failed, 5), seen("a", dead, 2, job.Pending, 10.05), seen("b", dead, 2, job.Completed, 12),
			{By: "b", ID: id(untold), HTTP: 404, Sent: at(5), At: at(5.01)},
			{By: "b", ID: id(killed), HTTP: 503, Sent: at(6), At: at(6.01)},
			seen("b", cancelled, 1, job.Cancelled, 4),
		},
		Runs: []Run{
			ran(plain, 1, 1, "10", 1.1, 1.5, "result"), ran(dead, 1, 1, "10", 2.1, 2.4, ""), ran(dead, 1, 2, "11", 3.9, 4, ""),
			ran(dead, 2, 3, "11", 10.5, 11, "result"),
			ran(killed, 1, 1, "12", 4.1, 0, ""), ran(killed, 1, 2, "10", 13, 14, "result"),
			ran(untold, 1, 1, "11", 5.1, 5.2, "result"), ran(keyed, 1, 1, "11", 5.1, 5.2, "result"),
		},
		Faults: []Fault{{Kind: "F01", Target: "12", From: at(5), To: at(5), Kills: 1, Repeats: true},
			{Kind: "F13", Target: "redis", From: at(1), To: at(2)}},
		Outcomes: []Outcome{
			ended(plain, 1, 1, job.Completed, 1, 1.5), failed, revived, ended(cancelled, 1, 0, job.Cancelled, 3, 3.5), repeated,
			ended(untold, 1, 1, job.Completed, 5, 5.2), ended(keyed, 1, 1, job.Completed, 5, 5.2), callback, lone,
		},
		Live:   map[job.ID]string{id(plain): "COMPLETED 1", id(dead): "COMPLETED 2"},
		Places: map[string]int{"queue": 0, "fresh": 0},
		Plans: map[job.Tier]job.Plan{job.Public: {Tier: job.Public, Priority: 3, MaxRetries: 1,
			HeartbeatTimeout: time.Second, MaxProcessingTime: 2 * time.Second}},
		Tables: &Sums{Completed: 6, Failed: 1, Cancelled: 2},
		Quiet:  at(15), Rested: at(20), Bound: time.Minute,
	}
}

// broken returns the names of the invariants that a report names.
func broken(r Report) string {
	var names []string
	for _, v := range r.Violations {
		if len(names) == 0 || names[len(names)-1] != v.Invariant {
			names = append(names, v.Invariant)
		}
	}
	return strings.Join(names, " ")
}

// The checker reports nothing about a sound run, and its counts are right.
func TestSoundRun(t *testing.T) {
	r := Check(sound())
	for _, v := range r.Violations {
		t.Error(v)
	}
	want := Counts{
		Accepted: 5, Refused: 1, Unknown: 3, UnknownExist: 2, Requeued: 1, Callbacks: 1, Completed: 6, Failed: 1,
		Cancelled: 2, Executions: 8, Beyond: 2,
	}
	if r.Counts != want {
		t.Errorf("counted %+v,\nwant    %+v", r.Counts, want)
	}
	if r.Explained["F01"] != 1 || r.Explained[byHandler] != 1 || len(r.Explained) != 2 {
		t.Errorf("explained by %v", r.Explained)
	}
	if r.Crashed.N != 1 || r.Crashed.Quiet != 1 || r.Crashed.Max != 7*time.Second || r.Rest != 5*time.Second ||
		r.Kills != 1 {
		t.Errorf("%+v, rest %s, kills %d", r.Crashed, r.Rest, r.Kills)
	}
}

// A second end of a generation is counted wherever it was seen, and once per generation.
func TestDoubled(t *testing.T) {
	for _, tc := range []struct {
		name  string
		plant func(*Evidence)
	}{
		{"in SQL", func(e *Evidence) { e.outcome(plain, 1).Dead = 1 }},
		{"by a later attempt", func(e *Evidence) {
			e.outcome(killed, 1).Attempt = 1
			e.run(killed, 1).Ended, e.run(killed, 1).Result = at(13.5), "result"
		}},
		{"to one client", func(e *Evidence) { e.Polls = append(e.Polls, seen("c", killed, 1, job.Failed, 15)) }},
		{"to two clients, and in Redis", func(e *Evidence) {
			e.Polls = append(e.Polls, seen("c", killed, 1, job.Failed, 15), seen("d", killed, 1, job.Cancelled, 16))
			e.Live[id(killed)] = "FAILED 1"
		}},
		{"in Redis", func(e *Evidence) { e.Live[id(killed)] = "FAILED 1" }},
	} {
		e := sound()
		tc.plant(&e)
		if n := Check(e).Counts.Doubled; n != 1 {
			t.Errorf("%s: %d doubled", tc.name, n)
		}
	}
}
