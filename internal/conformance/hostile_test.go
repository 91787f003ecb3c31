package conformance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// bodies are answers that no server should give, to any call; the call is not carried out.
func bodies() []*act {
	all := []*act{
		{cut: true},
		{status: 200, body: `{"state":"run"`, short: true},
		{status: 302, body: ``, header: map[string]string{"Location": "/api/worker/claim"}},
		{status: 307, body: ``, header: map[string]string{"Location": "http://127.0.0.1:1/"}},
		{status: 500, body: `oops`},
		{status: 204},
		{status: 429, body: `{}`, header: map[string]string{"Retry-After": "soon"}},
		{status: 429, body: `[]`, header: map[string]string{"Retry-After": "-5"}},
		{status: 503, body: `{"status":"x","errorCode":5,"detail":{}}`, header: map[string]string{"Retry-After": "NaN"}},
		{status: 502, body: `<html>`, header: map[string]string{"Content-Type": "text/html"}},
	}
	for _, body := range []string{
		`{}`, `[]`, `null`, `5`, `"x"`, ``, `<html><body>ok</body></html>`, `{"state":"run","jobs":[`, "\xff\xfe", `{"a":1}x`,
	} {
		all = append(all, says(body))
	}
	return all
}

// claimAnswers are answers to claims that are carried out: the jobs of each are there, beside nonsense.
func claimAnswers() []*act {
	odd := []any{nil, 5, "x", []any{}, map[string]any{}}
	for _, lacks := range []string{"lease", "jobId", "type"} {
		odd = append(odd, unreadable(lacks, func(j map[string]any) { delete(j, lacks) }))
		odd = append(odd, unreadable(lacks, func(j map[string]any) { j[lacks] = 5 }))
		odd = append(odd, unreadable(lacks, func(j map[string]any) { j[lacks] = nil }))
	}
	for _, number := range []string{"endsInMs", "leaseForMs"} {
		for _, value := range []any{"x", nil, []any{}, true} {
			odd = append(odd, unreadable(number, func(j map[string]any) { j[number] = value }))
		}
	}
	all := []*act{
		with("retryAfterMs", -5), with("retryAfterMs", "x"), with("retryAfterMs", nil), with("retryAfterMs", []any{}),
		with("state", 5), with("state", "unheard-of"), with("reported", nil), with("reported", 5),
		with("reported", []any{nil, 5, "x", map[string]any{"error": 5}}), with("heldMs", "x"), with("heldMs", -5),
		with("heldMs", 1e300), with("heldMs", nil), with("claimId", 5),
	}
	for _, one := range odd {
		all = append(all, changed(func(answer map[string]any) any {
			jobs := answer["jobs"].([]any)
			answer["jobs"] = append([]any{one}, jobs...)
			return answer
		}))
	}
	all = append(all, changed(func(answer map[string]any) any { // each lease twice
		jobs := answer["jobs"].([]any)
		answer["jobs"] = append(jobs, jobs...)
		return answer
	}))
	return all
}

// unreadable is a job that a worker must not start.
func unreadable(why string, spoil func(map[string]any)) map[string]any {
	j := map[string]any{
		"jobId": "unreadable-" + why, "type": "GOOD", "queue": "conformance", "tier": "PAID",
		"payload": map[string]any{"n": 0},
		"attempt": 1, "retryCount": 0, "maxRetries": 5, "generation": 1, "lease": "unreadable/" + why,
		"leaseForMs": 6000, "heartbeatEveryMs": 1500, "endsInMs": 600_000,
	}
	spoil(j)
	return j
}

// nonsense answers every second call of a verb with the next of some acts.
type nonsense struct {
	verb string
	acts []*act
	turn bool
}

func (n *nonsense) next(verb string, _ int, _ []byte) *act {
	if verb != n.verb || len(n.acts) == 0 {
		return nil
	}
	if n.turn = !n.turn; !n.turn {
		return nil
	}
	a := n.acts[0]
	n.acts = n.acts[1:]
	return a
}

// survives gives a worker one good job after the other, until the script is through, and checks each.
func (f *fake) survives(t *testing.T, worker *testkit.Process, seconds float64, through func() bool) {
	t.Helper()
	n, began := 0, time.Now()
	for done := false; !done; n += 4 {
		for i := n; i < n+4; i++ {
			f.add(good(i), "GOOD", fmt.Sprintf(`{"n":%d,"seconds":%g}`, i, seconds))
		}
		if !f.until(25*time.Second, func() bool { return worker.Exited() || f.settled() }) {
			t.Fatalf("after %d jobs the worker does not go on: %s", n, tail(worker.Output()))
		}
		if worker.Exited() {
			t.Fatalf("the worker has ended: %s", tail(worker.Output()))
		}
		f.with(func() { done = through() })
		if time.Since(began) > 50*time.Second {
			t.Fatal("the worker makes too few calls")
		}
	}
	for i := range n {
		if err := f.checkGood(i); err != nil {
			t.Errorf("good job %d: %v", i, err)
		}
	}
	if strings.Contains(worker.Output(), "START unreadable") {
		t.Error("a handler was started for a job that cannot be read")
	}
	if err := f.lastJob(t, worker); err != nil {
		t.Error(err)
	}
	for _, twice := range startedOnce(worker) {
		t.Error(twice)
	}
	f.sound(t)
}

// A server answers every second claim with nonsense: the worker goes on with the next good answer.
func TestHostileClaims(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		first := []*act{nil} // the refusal of a first claim ends run
		n := &nonsense{verb: "claim", acts: append(append(first, bodies()...), claimAnswers()...)}
		f.script = n.next
		worker := p.start(t, f)
		f.survives(t, worker, 0.001, func() bool { return len(n.acts) == 0 })
	})
}

// A server answers every second report with nonsense: a claim's reports are lost with the claim's answer, too.
func TestHostileReports(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		acts := append(bodies(), &act{lost: true}, with("reports", nil), with("reports", []any{}), with("reports", 5),
			with("reports", []any{nil}), with("reports", []any{5}), with("reports", []any{map[string]any{"error": "x"}}),
			&act{wait: 2 * time.Second})
		n := &nonsense{verb: "report", acts: acts}
		f.script = func(verb string, i int, body []byte) *act {
			// A claim with reports loses its answer, so that they go in calls of their own.
			if verb == "claim" && strings.Contains(string(body), `"reports":[`) && len(n.acts) > 0 {
				return &act{cut: true}
			}
			return n.next(verb, i, body)
		}
		worker := p.start(t, f)
		f.survives(t, worker, 0.001, func() bool { return len(n.acts) == 0 })
	})
}

// A server answers every second heartbeat with nonsense: no lease is lost, and no handler is ended.
func TestHostileHeartbeats(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.leaseFor, f.every = 10*time.Second, 300*time.Millisecond
		one := map[string]any{"word": "OK", "leaseForMs": 10_000}
		acts := append(bodies(), with("leases", nil), with("leases", []any{}), with("leases", 5),
			with("leases", []any{nil, nil, nil, nil}), with("leases", []any{5, "x", []any{}, map[string]any{}}),
			with("leases", []any{one, one, one, one, one, one, one}), with("heldMs", "x"), with("heldMs", -5),
			with("state", 5), &act{wait: 1500 * time.Millisecond}, &act{lost: true})
		for _, value := range []any{"x", nil, -5, 1e300, []any{}} {
			odd := map[string]any{"word": "OK", "leaseForMs": value}
			acts = append(acts, with("leases", []any{odd, odd, odd, odd}))
		}
		for _, word := range []any{"PERHAPS", 5, nil} {
			odd := map[string]any{"word": word, "leaseForMs": 10_000}
			acts = append(acts, with("leases", []any{odd, odd, odd, odd}))
		}
		n := &nonsense{verb: "heartbeat", acts: acts}
		f.script = n.next
		worker := p.start(t, f)
		f.survives(t, worker, 4, func() bool { return len(n.acts) == 0 })
	})
}

// For three seconds each call of a verb gets one bad answer. The worker waits between its repeats.
func TestHostile_NoTightLoop(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.lapses = true // an answer that lacks its jobs leaves them to the ends of their leases
		var verb string
		var bad *act
		f.script = func(v string, n int, _ []byte) *act {
			if v != verb {
				return nil
			}
			return bad
		}
		worker := p.start(t, f)
		f.add("good-0", "GOOD", `{"n":0}`)
		f.await(t, "good-0", 20*time.Second)
		for i, phase := range []struct {
			verb string
			bad  *act
		}{
			{"claim", says(`{}`)}, {"claim", with("jobs", nil)}, {"claim", says(`{"jobs":[{}],"retryAfterMs":0}`)},
			{"heartbeat", with("leases", []any{})}, {"report", with("reports", []any{})},
		} {
			f.add(fmt.Sprint("hold-", i), "HOLD", `{"seconds":2.5}`) // ends the claim that waits
			f.until(10*time.Second, func() bool { return f.jobs[fmt.Sprint("hold-", i)].attempt > 0 })
			began := time.Now()
			f.with(func() { verb, bad = phase.verb, phase.bad })
			<-time.After(3 * time.Second)
			f.with(func() { verb, bad = "", nil })
			if n := f.count(phase.verb, began); n > 60 {
				t.Errorf("%d %ss in 3 s of phase %d", n, phase.verb, i)
			}
		}
		if !f.until(20*time.Second, f.settled) {
			t.Error("jobs have no report: ", tail(worker.Output()))
		}
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// A wait of nearly for ever is cut to a minute, and SIGTERM ends it at once.
func TestHostile_LongWait(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(verb string, n int, _ []byte) *act {
			if verb != "claim" {
				return nil
			}
			return says(fmt.Sprintf(`{"state":"run","retryAfterMs":%d,"reported":[],"jobs":[]}`, 1_000_000_000_000))
		}
		worker := p.start(t, f)
		f.until(20*time.Second, func() bool { return len(f.calls["claim"]) > 0 })
		began := time.Now()
		<-time.After(2 * time.Second)
		if n := f.count("claim", began); n > 2 {
			t.Errorf("%d claims within 2 s, although the server wants none", n)
		}
		if err := ends(t, worker, 10*time.Second); err != nil {
			t.Errorf("at SIGTERM: %v %s", err, tail(worker.Output()))
		}
	})
}
