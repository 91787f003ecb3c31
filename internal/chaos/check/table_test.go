package check

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestTable(t *testing.T) {
	e := sound()
	e.Redis = slices.Repeat([]string{"1 in quarantine"}, shown+2)
	e.outcome(plain, 1).ResultSum = "changed"
	e.drop(cancelled)
	r := Check(e)
	r.Fact("seed", "%d", 7)
	var text bytes.Buffer
	r.Table(&text)
	for _, want := range []string{
		`(?m)^seed +7$`, `(?m)^accepted +5$`, `(?m)^lost +1$`, `(?m)^beyond the first +2, of which 0 unexplained$`,
		`(?m)^  by F01 +1$`, `(?m)^kills +1$`,
		`(?m)^faults landed +2 of 2 kinds$`, `(?m)^  F13 +1$`, `95% within 7s, at most 7s; 1 without`,
		`(?m)^time to rest \(L1\) +5s$`, `(?m)^S1: 3 more$`, `(?m)^S18 \S+: attempt 1 returned`,
	} {
		if !regexp.MustCompile(want).Match(text.Bytes()) {
			t.Errorf("no line %q", want)
		}
	}
	if strings.Index(text.String(), "S18 0") < strings.Index(text.String(), "S1 redis") {
		t.Error("S18 stands before S1")
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

// The checker judges a long run in seconds. A tenth of the jobs ran twice, and each was polled ten times.
func TestLargeRun(t *testing.T) {
	e := large(8_000)
	began := time.Now()
	r := Check(e)
	took := time.Since(began)
	t.Logf("%d ops, %d polls, %d faults: %s", len(e.Ops), len(e.Polls), len(e.Faults), took.Round(time.Millisecond))
	if len(r.Violations) > 0 || r.Counts.Accepted != 8_000 || r.Counts.Beyond != 800 || r.Explained["F01"] != 800 {
		t.Errorf("%d violations, the first: %v; %+v, %v", len(r.Violations), r.Violations[:min(1, len(r.Violations))],
			r.Counts, r.Explained)
	}
	if took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func large(jobs int) Evidence {
	e := Evidence{Plans: sound().Plans, Rested: at(1e6), Live: map[job.ID]string{}}
	for n := range 1000 {
		e.Faults = append(e.Faults, Fault{Kind: "F01", Target: fmt.Sprint(n), From: at(float64(n)*40 + 39),
			To: at(float64(n)*40 + 39), Kills: 1, Repeats: true})
	}
	for n := range jobs {
		id, key, sent := job.ID(fmt.Sprintf("019de340-0000-7000-8000-%010d00", n)), fmt.Sprintf("k%d", n), float64(n)
		op, o := submitted(n, sent), ended(n, 1, 1, job.Completed, sent, sent+3)
		op.ID, op.Key, o.ID = id, key, id
		runs := []Run{{ID: id, Key: key, Generation: 1, Attempt: 1, Worker: fmt.Sprint(n / 40), Sum: "sum",
			Began: at(sent + 1), Ended: at(sent + 2), Result: "result"}}
		if n%10 == 0 {
			first := runs[0]
			first.Ended, first.Result = time.Time{}, ""
			runs[0].Attempt, runs[0].Began, runs[0].Ended = 2, at(sent+55), at(sent+56)
			runs = append(runs, first)
			o.StartedAt, o.EndedAt = at(sent+55), at(sent+60)
			o.Attempt, o.RetryCount, o.Tries = 2, 1,
				[]job.Attempt{{Number: 1, Outcome: "HEARTBEAT_STOPPED", FinishedAt: at(float64(n/40*40) + 46)}}
		}
		for p := range 10 {
			status := job.Pending
			if p > 5 {
				status = job.Completed
			}
			poll := seen(fmt.Sprintf("p%d", p%4), n, 1, status, sent+float64(p)*12)
			poll.ID = id
			e.Polls = append(e.Polls, poll)
		}
		e.Ops, e.Outcomes, e.Runs = append(e.Ops, op), append(e.Outcomes, o), append(e.Runs, runs...)
	}
	return e
}
