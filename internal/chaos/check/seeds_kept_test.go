package check

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// keeping adds the kill of an embedded server with a journal. The answers named by keeps survive it.
func (e *Evidence) keeping(from, to float64, keeps Keeps) {
	f := forgets(from, to)
	f.Keeps, e.Journal = keeps, []job.ID{}
	e.Faults = append(e.Faults, f)
}

// under adds a completed job under the Idempotency-Key "shared", or its submit without a job if fate is not OK.
func (e *Evidence) under(n int, sent float64, fate Fate, status int) {
	if fate == OK {
		e.add(n, sent, func(op *Op, _ *Run, _ *Outcome) { op.Once = "shared" })
		return
	}
	op := submitted(n, sent)
	op.Once, op.Fate, op.Status, op.ID = "shared", fate, status, ""
	e.Ops = append(e.Ops, op)
}

// seedsOfKept are broken promises about answers that are kept, over a kill or for a time.
var seedsOfKept = []seed{
	{"S12", "an end was taken back by a kill, and ends are kept", func(e *Evidence) {
		e.keeping(2, 2.1, Keeps{Ends: true})
		e.Polls = append(e.Polls, seen("c", plain, 1, job.Processing, 3))
	}},
	{"S16", "a poller saw the dead generation again after a kill, and generations are kept", func(e *Evidence) {
		e.keeping(10.5, 10.6, Keeps{Lives: true})
		e.Polls = append(e.Polls, seen("a", dead, 1, job.Failed, 11))
	}},
	{"S12", "a cancel was forgotten in a kill, and cancels are kept", func(e *Evidence) {
		e.keeping(10.5, 10.6, Keeps{Cancels: true})
		e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(dead), Fate: OK, Status: 200, Sent: at(10.2), Answered: at(10.3)})
	}},
	{"S5", "an attempt's number came twice, and numbers are kept", func(e *Evidence) {
		e.keeping(4.5, 4.6, Keeps{Attempts: true})
		e.run(killed, 2).Attempt = 1
		e.outcome(killed, 1).Attempt = 1
		e.outcome(killed, 1).Tries[0].Number = 1
	}},
	{"S16", "a poll showed the dead generation after the requeue's 202", func(e *Evidence) {
		for i := range e.Ops {
			if e.Ops[i].Kind == "requeue" {
				e.Ops[i].Generation = 1
			}
		}
		e.Polls = append(e.Polls, seen("d", dead, 1, job.Failed, 10.03))
	}},
	{"S13", "a key that was forgotten before its time", func(e *Evidence) {
		e.KeyLife = 10 * time.Second
		e.under(20, 8, OK, 202)
		e.under(21, 12, OK, 202)
	}},
	{"S13", "a key that outlasted its time", func(e *Evidence) {
		e.KeyLife = 5 * time.Second
		e.under(20, 2, OK, 202)
		e.under(21, 12, Fail, 422)
	}},
	{"S13", "a key without a job", func(e *Evidence) {
		e.KeyLife = 5 * time.Second
		e.under(20, 2, Fail, 503)
		e.under(21, 3, Fail, 422)
	}},
}

// Evidence that looks like a forgotten answer, but is allowed by what the servers keep, is no violation.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*Evidence){
		"a poll showed the dead generation while SQL was away": func(e *Evidence) {
			for i := range e.Ops {
				if e.Ops[i].Kind == "requeue" {
					e.Ops[i].Generation = 1
				}
			}
			e.Faults = append(e.Faults, Fault{Kind: "F36", Target: "mysql", From: at(10.02), To: at(10.2)})
			e.Polls = append(e.Polls, seen("d", dead, 1, job.Failed, 10.03))
		},
		"an end was taken back, and only generations are kept": func(e *Evidence) {
			e.keeping(2, 2.1, Keeps{Lives: true, Cancels: true})
			e.Polls = append(e.Polls, seen("c", plain, 1, job.Processing, 3))
		},
		"a row's estimate of the arrival was early, and Redis lost the job": func(e *Evidence) {
			e.keeping(1.1, 1.2, Keeps{Lives: true, Cancels: true})
			e.outcome(plain, 1).ArrivedAt = at(0.96)
		},
		"a row's estimate of the arrival was early, and its server died before it called Redis": func(e *Evidence) {
			e.Journal = []job.ID{}
			died := *e.submit(plain)
			died.Fate, died.Status, died.ID = Unknown, 0, ""
			e.Ops = append(e.Ops, died)
			e.outcome(plain, 1).ArrivedAt = at(0.96)
		},
		"a cancel came when the job had ended, to a Redis that had forgotten that": func(e *Evidence) {
			e.keeping(11.5, 11.6, Keeps{Cancels: true})
			e.Ops = append(e.Ops, Op{Kind: "cancel", ID: id(dead), Fate: OK, Status: 200, Sent: at(12), Answered: at(12.1)})
		},
		"a key that was refused in its time, and free after it": func(e *Evidence) {
			e.KeyLife = 5 * time.Second
			e.under(20, 1, OK, 202)
			e.under(21, 2, Fail, 422)
			e.under(22, 14, OK, 202)
		},
		"nobody knows whether a key began again": func(e *Evidence) {
			e.KeyLife = 5 * time.Second
			e.under(20, 1, OK, 202)
			e.under(21, 2, Unknown, 0)
			e.under(22, 14, Fail, 422)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			plant(&e)
			if r := Check(e); len(r.Violations) > 0 {
				t.Error(r.Violations)
			}
		})
	}
}
