package check

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// seed is a change that breaks one promise of the sound run.
type seed struct {
	invariant, name string
	plant           func(*Evidence)
}

func without[T any](list []T, is func(*T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return is(&x) })
}

func (e *Evidence) outcome(n, generation int) *Outcome {
	i := slices.IndexFunc(e.Outcomes, func(o Outcome) bool { return o.ID == id(n) && o.Generation == generation })
	return &e.Outcomes[i]
}

// drop removes a job's outcomes.
func (e *Evidence) drop(n int) {
	e.Outcomes = without(e.Outcomes, func(o *Outcome) bool { return o.ID == id(n) })
	e.Tables = nil
}

func (e *Evidence) run(n, attempt int) *Run {
	i := slices.IndexFunc(e.Runs, func(r Run) bool { return r.ID == id(n) && r.Attempt == attempt })
	return &e.Runs[i]
}

func (e *Evidence) submit(n int) *Op {
	i := slices.IndexFunc(e.Ops, func(o Op) bool { return o.Kind == "submit" && o.Key == fmt.Sprintf("k%d", n) })
	return &e.Ops[i]
}

// add adds one more completed job to the run.
func (e *Evidence) add(n int, sent float64, change func(*Op, *Run, *Outcome)) {
	op, run, o := submitted(n, sent), ran(n, 1, 1, "10", sent+0.1, sent+0.5, "result"),
		ended(n, 1, 1, job.Completed, sent, sent+0.5)
	change(&op, &run, &o)
	e.Tables = nil
	if op.Key != "" {
		e.Ops = append(e.Ops, op)
	}
	e.Runs, e.Outcomes = append(e.Runs, run), append(e.Outcomes, o)
}

func allSeeds() []seed {
	return slices.Concat(
		seedsOfAccepted, seedsOfRuns, seedsOfExcuses, seedsOfTimes, seedsOfSight, seedsAtRest, seedsOfKept,
		seedsOfFrozen, seedsOfFirstEnd, seedsOfOutside, seedsOfFaktory, seedsOfUnique, seedsOfLines,
		seedsOfFlows, seedsOfBatches, seedsOfSchedules,
	)
}

// PROOF.md names the right number of seeds.
func TestSeedsAreCounted(t *testing.T) {
	page, err := os.ReadFile("../../../docs/proof/PROOF.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("feed it %d kinds of broken evidence",
		len(allSeeds())+len(seedsOfWitness)); !strings.Contains(string(page), want) {
		t.Errorf("docs/proof/PROOF.md does not say %q", want)
	}
}

// Each seed breaks one promise, and exactly the invariants that it names report it.
func TestSeededViolations(t *testing.T) {
	for _, s := range allSeeds() {
		t.Run(s.invariant+" "+s.name, func(t *testing.T) {
			e := sound()
			s.plant(&e)
			if r := Check(e); broken(r) != s.invariant {
				t.Errorf("broken: %q\n%v", broken(r), r.Violations)
			}
		})
	}
}

var seedsOfAccepted = []seed{
	{"S1", "an accepted job is nowhere", func(e *Evidence) {
		e.drop(plain)
		delete(e.Live, id(plain))
	}},
	{"S1", "the journal alone has it", func(e *Evidence) {
		e.drop(plain)
		delete(e.Live, id(plain))
		e.Journal = []job.ID{id(plain)}
	}},
	{"S1", "Redis forgot it, although there is a journal", func(e *Evidence) {
		e.drop(plain)
		delete(e.Live, id(plain))
		e.Journal, e.Faults = []job.ID{},
			append(e.Faults, Fault{Kind: "F19", Target: "redis", From: at(1), To: at(2), ForgetsAcked: true})
	}},
	{"S1", "a promised life never began", func(e *Evidence) {
		e.Ops = append(e.Ops, Op{Kind: "requeue", ID: id(dead), Once: "another", Fate: OK, Sent: at(12), Answered: at(12)})
	}},
	{"S1", "a job in quarantine", func(e *Evidence) { e.Redis = []string{"1 in quarantine"} }},
	{"S2", "a result and a dead letter", func(e *Evidence) { e.outcome(plain, 1).Dead = 1 }},
	{"S2", "two outcomes", func(e *Evidence) {
		e.Outcomes = append(e.Outcomes, *e.outcome(plain, 1))
		e.Tables = nil
	}},
	{"S2", "no row for the outcome", func(e *Evidence) { e.outcome(plain, 1).Results = 0 }},
	{"S2", "a row of the other kind", func(e *Evidence) { o := e.outcome(plain, 1); o.Results, o.Dead = 0, 1 }},
	{"S2", "a cancelled job with a result", func(e *Evidence) { e.outcome(cancelled, 1).Results = 1 }},
	{"S2", "ended in Redis, and SQL was never told", func(e *Evidence) { e.drop(plain) }},
	{"S2", "it ran, nobody was told, and it is gone", func(e *Evidence) { e.drop(untold) }},
	{"S2", "a generation is missing", func(e *Evidence) {
		e.Outcomes = without(e.Outcomes, func(o *Outcome) bool { return o.ID == id(dead) && o.Generation == 1 })
		e.Tables = nil
	}},
	{"S3", "a refused job ran", func(e *Evidence) {
		e.add(20, 5, func(op *Op, _ *Run, _ *Outcome) { op.Fate, op.Status, op.Code, op.ID = Fail, 503, "QUEUE_FULL", "" })
	}},
	{"S3", "a refused job exists", func(e *Evidence) {
		e.Tables = nil
		e.Outcomes = append(e.Outcomes, ended(98, 1, 0, job.Cancelled, 9, 9.5))
	}},
	{"S3", "a key that nobody submitted", func(e *Evidence) {
		e.add(20, 5, func(op *Op, _ *Run, _ *Outcome) { op.Key = "" })
	}},
	{"S3", "an id that nobody submitted", func(e *Evidence) {
		e.Tables = nil
		e.Outcomes = append(e.Outcomes, ended(20, 1, 0, job.Cancelled, 9, 9.5))
	}},
	{"S3", "more jobs of a batch than entries", func(e *Evidence) {
		e.Tables = nil
		for n := range 2 {
			o := ended(30+n, 1, 0, job.Cancelled, 8, 9)
			o.Trace = "batch"
			e.Outcomes = append(e.Outcomes, o)
		}
	}},
	{"S3", "one submit ran as two jobs", func(e *Evidence) {
		e.add(20, 5, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k1", "t1" })
	}},
	{"S3", "a life that nobody asked for", func(e *Evidence) {
		e.Ops = without(e.Ops, func(op *Op) bool { return op.Kind == "requeue" })
	}},
	{"S13", "two answers to one key", func(e *Evidence) {
		e.add(20, 8, func(op *Op, r *Run, o *Outcome) { op.Key, op.Once, r.Key, o.Trace = "k6", "once", "k6", "t6" })
	}},
	{"S13", "a second job under a key, of which nobody was told", func(e *Evidence) {
		e.add(20, 8, func(op *Op, r *Run, o *Outcome) { op.Key, r.Key, o.Trace = "", "k6", "t6" })
	}},
}

var seedsOfRuns = []seed{
	{"S4", "more retries than allowed", func(e *Evidence) {
		e.outcome(killed, 1).RetryCount = 2
	}},
	{"S4", "more attempts than allowed", func(e *Evidence) {
		o := e.outcome(plain, 1)
		o.Attempt, o.RetryCount = 4, 1
		e.run(plain, 1).Attempt = 4
		for n := range 3 {
			o.Tries = append(o.Tries, job.Attempt{Number: n + 1, Outcome: "HANDLER_ERROR"})
		}
	}},
	{"S4", "a retry that was not counted", func(e *Evidence) {
		o := e.outcome(killed, 1)
		o.RetryCount, o.Tries[0].Outcome = 0, "HANDLER_ERROR"
	}},
	{"S4", "a crash that was not counted as a retry", func(e *Evidence) { e.outcome(killed, 1).RetryCount = 0 }},
	{"S4", "more crashes than allowed", func(e *Evidence) {
		o := e.outcome(plain, 1)
		o.Attempt, o.RetryCount, e.run(plain, 1).Attempt = 4, 1, 4
		for n := range 3 {
			o.Tries = append(o.Tries, job.Attempt{Number: n + 1, Outcome: "HEARTBEAT_STOPPED"})
		}
	}},
	{"S4", "it ran more often than it was counted", func(e *Evidence) {
		e.outcome(plain, 1).Attempt = 2
		e.submit(plain).Fails = 1
		e.run(plain, 1).Attempt = 2
		e.Runs = append(e.Runs, ran(plain, 1, 1, "10", 1.01, 1.05, ""))
	}},
	{"S5", "one attempt ran twice", func(e *Evidence) {
		e.Runs = append(e.Runs, ran(killed, 1, 2, "11", 13.5, 13.8, ""))
		o := e.outcome(killed, 1)
		o.Tries = append(o.Tries, job.Attempt{Number: 2, Outcome: "RELEASED"})
		e.Faults = append(e.Faults, Fault{Kind: "F09", Target: "10", From: at(13), To: at(13.6), Repeats: true})
	}},
	{"S5", "attempts began again with the next generation", func(e *Evidence) {
		e.run(dead, 3).Attempt, e.outcome(dead, 2).Attempt = 2, 2
	}},
	{"S5", "the outcome is an earlier attempt's", func(e *Evidence) {
		e.outcome(killed, 1).Attempt, e.outcome(killed, 1).StartedAt = 1, at(4.1)
		r := e.run(killed, 1)
		r.Ended, r.Result = at(13.5), "result"
	}},
	{"S5", "completed by an attempt that has no end", func(e *Evidence) {
		r := e.run(plain, 1)
		r.Ended, r.Result = time.Time{}, ""
	}},
	{"S14", "a worker was killed before the job began there",
		func(e *Evidence) { e.Faults[0].From, e.Faults[0].To = at(1), at(1) }},
	{"S14", "another worker was killed", func(e *Evidence) { e.Faults[0].Target = "13" }},
	{"S14", "a stall of Redis is no reason", func(e *Evidence) {
		e.Faults[0] = Fault{Kind: "F13", Target: "redis", From: at(5), To: at(10)}
	}},
	{"S14", "it ran on after it was done", func(e *Evidence) {
		r := e.run(killed, 1)
		r.Ended, r.Result = at(4.2), "result"
		e.Faults[0].From, e.Faults[0].To = at(10), at(10)
	}},
	{"S15", "tried before it arrived",
		func(e *Evidence) { o := e.outcome(plain, 1); o.FirstTriedAt, o.StartedAt = at(0.5), at(0.5) }},
	{"S15", "ended before it began",
		func(e *Evidence) { o := e.outcome(untold, 1); o.FirstTriedAt, o.StartedAt = at(5.3), at(5.3) }},
	{"S18", "another payload", func(e *Evidence) { e.run(plain, 1).Sum = "changed" }},
	{"S18", "another result in SQL", func(e *Evidence) {
		e.outcome(killed, 1).ResultSum = "changed"
	}},
	{"S18", "another result over HTTP", func(e *Evidence) {
		for i := range e.Polls {
			if p := &e.Polls[i]; p.ID == id(dead) && p.Status == job.Completed {
				p.ResultSum = "changed"
			}
		}
	}},
	{"L2", "a dead worker's job lay about", func(e *Evidence) {
		o := e.outcome(killed, 1)
		o.Tries[0].FinishedAt, o.EndedAt, o.StartedAt = at(19), at(19.6), at(19.5)
		r := e.run(killed, 2)
		r.Began, r.Ended = at(19.5), at(19.6)
	}},
	{"L3", "a run that was not stopped", func(e *Evidence) {
		e.Faults = nil
		e.submit(killed).Hangs = true
		e.outcome(killed, 1).RetryCount = 1
		e.outcome(killed, 1).EndedAt, e.outcome(killed, 1).Tries[0] = at(40),
			job.Attempt{Number: 1, Outcome: "MAX_TIME_EXCEEDED", StartedAt: at(4.1), FinishedAt: at(30)}
		e.run(killed, 2).Began, e.run(killed, 2).Ended = at(39), at(40)
	}},
}

var seedsOfSight = []seed{
	{"S12", "an end that others saw was not one",
		func(e *Evidence) { e.Polls = append(e.Polls, seen("c", plain, 1, job.Processing, 6)) }},
	{"S12", "two ends", func(e *Evidence) { e.Polls = append(e.Polls, seen("c", killed, 1, job.Failed, 15)) }},
	{"S12", "an older generation was seen again",
		func(e *Evidence) { e.Polls = append(e.Polls, seen("c", dead, 1, job.Failed, 13)) }},
	{"S12", "a life after a success", func(e *Evidence) {
		o := e.outcome(dead, 1)
		*o = ended(dead, 1, 2, job.Completed, 2, 4)
		o.RetryCount, o.Tries = 1, []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR"}}
		r := e.run(dead, 2)
		r.Result = "result"
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(dead) && p.Generation == 1 })
		e.Tables = nil
	}},
	{"S12", "a cancel that was not kept", func(e *Evidence) {
		e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(plain), Fate: OK, Status: 202, Sent: at(1.2), Answered: at(1.2)})
	}},
	{"S16", "the same poller saw it alive again", func(e *Evidence) {
		e.Polls = without(e.Polls, func(p *Poll) bool { return p.ID == id(plain) && p.By == "b" })
		e.Polls = append(e.Polls, seen("a", plain, 1, job.Pending, 6))
	}},
	{"S16", "known, then 404", func(e *Evidence) {
		e.Polls = append(e.Polls, seen("a", untold, 1, job.Pending, 5.05),
			Poll{By: "a", ID: id(untold), HTTP: 404, Sent: at(6), At: at(6)})
	}},
	{"S16", "accepted, then 404", func(e *Evidence) {
		e.Polls = append(e.Polls, Poll{By: "c", ID: id(plain), HTTP: 404, Sent: at(6), At: at(6)})
	}},
}

var seedsAtRest = []seed{
	{"S4", "the audit saw retries", func(e *Evidence) { e.Redis = []string{"partition 0: x: 3 retries of 2"} }},
	{"S6", "in two sets", func(e *Evidence) { e.Redis = []string{"x: PENDING (ttl -1ms) is in [queue outbox], not in [queue]"} }},
	{"S6", "watched by one watch only", func(e *Evidence) { e.Places["run_deadlines"] = 1 }},
	{"S8", "a score that changed", func(e *Evidence) { e.Redis = []string{"x: score 5 in the queue, its own is 4"} }},
	{"S9", "a counter that lost a decrement", func(e *Evidence) { e.Places["fresh"] = 1 }},
	{"S9", "a tier's counter", func(e *Evidence) { e.Places["PUBLIC:ready"] = 1 }},
	{"S9", "a counter below zero", func(e *Evidence) { e.Places["PUBLIC:delayed"] = -1 }},
	{"S9", "the audit saw a counter", func(e *Evidence) { e.Redis = []string{"counter PUBLIC:ready is 1, counted 0"} }},
	{"S10", "a living job will expire",
		func(e *Evidence) { e.Redis = []string{"x: PENDING, a living job with a time to live of 1h0m0s"} }},
	{"S11", "running without a claim",
		func(e *Evidence) { e.Redis = []string{"x: running without first, token or attempt"} }},
	{"S15", "the audit saw times", func(e *Evidence) { e.Redis = []string{"x: first 5, started 4, ended 0"} }},
	{"S19", "alive in Redis, ended in SQL", func(e *Evidence) { e.Live[id(plain)] = "PENDING 1" }},
	{"S19", "another end in Redis", func(e *Evidence) { e.Live[id(killed)] = "FAILED 1" }},
	{"S19", "the journal kept an ended job", func(e *Evidence) { e.Journal = []job.ID{id(plain)} }},
	{"S20", "a row without an outcome", func(e *Evidence) { e.Tables.Completed++ }},
	{"S20", "a job that the servers did not count", func(e *Evidence) {
		e.Metrics = &Sums{Accepted: 7, Completed: 6, Failed: 1, Cancelled: 1}
	}},
	{"S20", "one accepted that no client knows", func(e *Evidence) {
		e.Metrics = &Sums{Accepted: 9, Completed: 6, Failed: 1, Cancelled: 2}
	}},
	{"L1", "no rest", func(e *Evidence) { e.Rested = time.Time{} }},
	{"L1", "rest, but late", func(e *Evidence) { e.Rested = at(100) }},
	{"L1", "something is left", func(e *Evidence) { e.Places["scheduled"] = 1; e.Places["PUBLIC:scheduled"] = 1 }},
	{"L1", "an accepted job still waits", func(e *Evidence) {
		e.drop(untold)
		e.Live[id(untold)] = "PENDING 1"
	}},
}
