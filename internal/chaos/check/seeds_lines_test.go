package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// queueing adds jobs with keys of lines: 30 and 31 of "pair" run from 21.1 to 21.5 and from 21.2 to 21.6, 32 after
// them; 33 of "solo" fails once and is tried again from 23.5, 34 runs when it has ended.
func (e *Evidence) queueing() {
	of := func(line string) func(*Op, *Run, *Outcome) {
		return func(op *Op, _ *Run, _ *Outcome) { op.Line = line }
	}
	e.Lines = map[string]job.LineLimits{"pair": {Running: 2}, "solo": {Strict: true}}
	e.add(30, 21, of("pair"))
	e.add(31, 21.1, of("pair"))
	e.add(32, 21.5, of("pair"))
	e.add(33, 22, func(op *Op, r *Run, o *Outcome) {
		op.Line, op.Fails, r.Result, r.Ended, r.Began = "solo", 1, "", at(22.5), at(22.1)
		o.Attempt, o.RetryCount, o.StartedAt, o.EndedAt = 2, 1, at(23.5), at(24)
		o.Tries = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR", StartedAt: at(22.1), FinishedAt: at(22.5)}}
	})
	e.Runs = append(e.Runs, ran(33, 1, 2, "10", 23.5, 24, "result"))
	e.add(34, 22.3, func(op *Op, r *Run, o *Outcome) {
		op.Line, r.Began, r.Ended = "solo", at(24), at(24.4)
		o.FirstTriedAt, o.StartedAt, o.EndedAt = at(24), at(24), at(24.4)
	})
	e.Quiet, e.Rested = at(30), at(31)
}

// Jobs in lines that keep to their limits break no rule.
func TestSoundLines(t *testing.T) {
	e := sound()
	e.queueing()
	if r := Check(e); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}

// A loss of Redis excuses attempts beyond a limit for a while, and those of the jobs that Redis lost.
func TestSoundLines_Forgotten(t *testing.T) {
	e := sound()
	e.queueing()
	e.Lines["pair"] = job.LineLimits{Running: 1}
	e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(20.5, 20.6))
	if r := Check(e); len(r.Violations) > 0 {
		t.Error(r.Violations)
	}
}

// A job of a strict key whose submit nobody answered, or later, may have come to Redis after those that arrived later.
func TestSoundLines_Unanswered(t *testing.T) {
	for name, change := range map[string]func(*Op){
		"never": func(op *Op) { op.Fate, op.Answered = Unknown, op.Sent.Add(time.Second) },
		"late":  func(op *Op) { op.Answered = at(23) },
	} {
		e := sound()
		e.queueing()
		for i := range e.Ops {
			if op := &e.Ops[i]; op.Line == "solo" {
				change(op)
				break
			}
		}
		o := &e.Outcomes[len(e.Outcomes)-1]
		o.FirstTriedAt, o.StartedAt, o.EndedAt = at(22.5), at(22.5), at(22.9)
		r := &e.Runs[len(e.Runs)-1]
		r.Began, r.Ended = at(22.5), at(22.9)
		if r := Check(e); len(r.Violations) > 0 {
			t.Errorf("%s: %v", name, r.Violations)
		}
	}
}

// queued returns a seed that changes queueing.
func queued(change func(*Evidence)) func(*Evidence) {
	return func(e *Evidence) {
		e.queueing()
		change(e)
	}
}

// paused pauses the tier of the jobs of queueing; an attempt begins at 21.5, 0.5 s before the end of what is held.
func paused(e *Evidence) {
	e.queueing()
	e.Pauses = []Pause{{Tier: e.outcome(32, 1).Tier, Known: at(17), Ends: at(21.7).Add(pauseSlack)}}
}

// held lowers the limit of the key of queueing to one from 20.5 on; 31 starts beside 30 at 21.2.
func held(e *Evidence) {
	e.queueing()
	e.Holds = []Hold{{Line: "pair", Most: 1, From: at(20.5), To: at(22)}}
}

// rated gives the key of queueing a rate of one attempt a second, and two at once: 32 starts 0.5 s after 30.
func rated(e *Evidence) {
	e.queueing()
	e.Lines["pair"] = job.LineLimits{Rate: 1, Burst: 2}
}

// A loss of Redis excuses attempts during a hold, and beyond a rate; so does a hold that is over, and a rate that
// allows them.
func TestSoundLines_HeldAndRated(t *testing.T) {
	forgotten := func(e *Evidence) { e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(20.3, 20.4)) }
	for name, change := range map[string]func(*Evidence){
		"held, forgotten":  func(e *Evidence) { held(e); forgotten(e) },
		"held, over":       func(e *Evidence) { held(e); e.Holds[0].To = at(21.2) },
		"held, two":        func(e *Evidence) { held(e); e.Holds[0].Most = 2 },
		"rated, forgotten": func(e *Evidence) { rated(e); forgotten(e) },
		"rated, faster":    func(e *Evidence) { rated(e); e.Lines["pair"] = job.LineLimits{Rate: 2.6, Burst: 2} },
		"rated, burst":     func(e *Evidence) { rated(e); e.Lines["pair"] = job.LineLimits{Rate: 1, Burst: 3} },
	} {
		e := sound()
		change(&e)
		if r := Check(e); len(r.Violations) > 0 {
			t.Error(name, r.Violations)
		}
	}
}

// A loss of Redis, and a process that was frozen before it could read a pause, excuse attempts during the pause; so
// does another tier.
func TestSoundPauses(t *testing.T) {
	for name, change := range map[string]func(*Evidence){
		"forgotten": func(e *Evidence) { e.Journal, e.Faults = []job.ID{}, append(e.Faults, forgets(17, 17.1)) },
		"frozen": func(e *Evidence) {
			e.Faults = append(e.Faults, Fault{Kind: "F10", From: at(16), To: at(17), Froze: "server"})
		},
		"another tier": func(e *Evidence) { e.Pauses[0].Tier = "GOLD" },
		"over":         func(e *Evidence) { e.Pauses[0].Ends = at(21) },
	} {
		e := sound()
		paused(&e)
		change(&e)
		if r := Check(e); len(r.Violations) > 0 {
			t.Error(name, r.Violations)
		}
	}
}

var seedsOfLines = []seed{
	{"S24", "an attempt began during a pause", paused},
	{"S27", "more attempts of a key than may after a change", held},
	{"S27", "an attempt of a paused key", func(e *Evidence) {
		held(e)
		e.Holds[0].Most = 0
	}},
	{"S27", "more attempts of a key than its rate allows", rated},
	{"S27", "more attempts of a key than may", queued(func(e *Evidence) {
		e.Lines["pair"] = job.LineLimits{Running: 1}
	})},
	{"S27", "a third attempt began before one of two had ended", queued(func(e *Evidence) {
		e.outcome(32, 1).FirstTriedAt, e.outcome(32, 1).StartedAt = at(21.45), at(21.45)
		e.submit(32).Sent, e.outcome(32, 1).ArrivedAt = at(21.4), at(21.4)
	})},
	{"S27", "a lease that was not taken back is an attempt that runs", queued(func(e *Evidence) {
		o := e.outcome(30, 1)
		o.Attempt, o.StartedAt, o.RetryCount = 2, at(22.9), 1
		o.EndedAt = at(23)
		o.Tries = []job.Attempt{{Number: 1, Outcome: "HANDLER_ERROR", StartedAt: at(21.1), FinishedAt: at(22.8)}}
		e.run(30, 1).Result = ""
		e.submit(30).Fails = 1
		e.Runs = append(e.Runs, ran(30, 1, 2, "10", 22.9, 23, "result"))
		e.outcome(32, 1).FirstTriedAt, e.outcome(32, 1).StartedAt = at(21.55), at(21.55)
	})},
	{"S27", "a job of a strict key did not wait for a retry", queued(func(e *Evidence) {
		o, r := e.outcome(34, 1), e.run(34, 1)
		o.FirstTriedAt, o.StartedAt, o.EndedAt, r.Began, r.Ended = at(22.6), at(22.6), at(23), at(22.6), at(23)
	})},
	{"S27", "two jobs of a strict key came in the other order", queued(func(e *Evidence) {
		o := e.outcome(34, 1)
		o.ArrivedAt, e.submit(34).Sent, e.submit(34).Answered = at(21.9), at(21.85), at(21.95)
	})},
}
