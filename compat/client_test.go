package compat

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
)

// pushed makes a job and pushes it.
func pushed(t *testing.T, c *faktory.Client, change func(*faktory.Job), args ...any) *faktory.Job {
	t.Helper()
	if len(args) == 0 {
		args = []any{1}
	}
	j := faktory.NewJob("Films::Cut", args...)
	if change != nil {
		change(j)
	}
	if err := c.Push(j); err != nil {
		t.Fatal(err)
	}
	return j
}

// fetched fetches a job, which must be this one.
func fetched(t *testing.T, c *faktory.Client, want *faktory.Job, queues ...string) *faktory.Job {
	t.Helper()
	j, err := c.Fetch(queues...)
	if err != nil || j == nil || j.Jid != want.Jid {
		t.Fatalf("fetched %+v, %v; want %s", j, err, want.Jid)
	}
	return j
}

var errBroken = errors.New("it broke")

// A job's whole life through the client: pushed, scheduled, fetched, failed, dead; and INFO is exact at each step.
func TestClient(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		sets := func() string {
			t.Helper()
			d := state(t, c).Data
			text, err := json.Marshal(map[string]any{"q": d.Queues, "s": d.Sets, "n": d.TotalProcessed, "f": d.TotalFailures})
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		is := func(when, want string) {
			t.Helper()
			if got := sets(); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		is("at first", `{"f":0,"n":0,"q":{},"s":{"dead":0,"retries":0,"scheduled":0,"working":0}}`)
		one := pushed(t, c, nil, "film.mov", 1.5, map[string]any{"width": 2})
		later := pushed(t, c, func(j *faktory.Job) { j.At = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) })
		is("two pushed", `{"f":0,"n":0,"q":{"default":1},"s":{"dead":0,"retries":0,"scheduled":1,"working":0}}`)
		j := fetched(t, c, one, "default")
		if j.Type != "Films::Cut" || len(j.Args) != 3 || j.Args[0] != "film.mov" || j.EnqueuedAt == "" || j.CreatedAt == "" {
			t.Errorf("fetched %+v", j)
		}
		is("one runs", `{"f":0,"n":0,"q":{"default":0},"s":{"dead":0,"retries":0,"scheduled":1,"working":1}}`)
		if err := c.Fail(one.Jid, errBroken, nil); err != nil {
			t.Fatal(err)
		}
		is("it failed", `{"f":1,"n":1,"q":{"default":0},"s":{"dead":0,"retries":1,"scheduled":1,"working":0}}`)
		last := pushed(t, c, func(j *faktory.Job) { j.Retry = &faktory.RetryPolicyDirectToMorgue })
		fetched(t, c, last, "default")
		if err := c.Fail(last.Jid, errBroken, nil); err != nil {
			t.Fatal(err)
		}
		is("one is dead", `{"f":2,"n":2,"q":{"default":0},"s":{"dead":1,"retries":1,"scheduled":1,"working":0}}`)
		if again := fetchedSoon(t, c, one.Jid); again.Failure == nil || again.Failure.RetryCount != 0 ||
			again.Failure.ErrorMessage != errBroken.Error() {
			t.Errorf("the second attempt gets %+v", again.Failure)
		}
		if err := c.Ack(one.Jid); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := sets(); !strings.Contains(got, `"q":{}`) || !strings.Contains(got, `"scheduled":0`) {
			t.Errorf("after FLUSH: %s, %s", got, later.Jid)
		}
	})
}

// fetchedSoon fetches until a job comes.
func fetchedSoon(t *testing.T, c *faktory.Client, jid string, queues ...string) *faktory.Job {
	t.Helper()
	if len(queues) == 0 {
		queues = []string{"default"}
	}
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		j, err := c.Fetch(queues...)
		if err != nil {
			t.Fatal(err)
		}
		if j != nil {
			if j.Jid != jid {
				t.Fatalf("fetched %s, want %s", j.Jid, jid)
			}
			return j
		}
	}
	t.Fatalf("%s did not come", jid)
	return nil
}

// A better tier goes first over all queues of a FETCH, whatever tells the tier: the job, the queue's name, a setting.
func TestTiers(t *testing.T) {
	t.Parallel()
	s := starts(t, "TIERQ_FAKTORY_QUEUES=bulk=PUBLIC critical=PAID")
	c := s.worker("w-1")
	queue := func(name string) func(*faktory.Job) { return func(j *faktory.Job) { j.Queue = name } }
	bulk := pushed(t, c, queue("bulk"))
	plain := pushed(t, c, nil)
	paid := pushed(t, c, queue("paid.films"))
	named := pushed(t, c, func(j *faktory.Job) { j.SetCustom("tier", "paid") })
	critical := pushed(t, c, queue("critical"))
	seen := map[string]bool{}
	for range 3 {
		j, err := c.Fetch("bulk", "default", "paid.films", "critical")
		if err != nil || j == nil {
			t.Fatalf("%+v, %v", j, err)
		}
		seen[j.Jid] = true
	}
	if !seen[paid.Jid] || !seen[named.Jid] || !seen[critical.Jid] {
		t.Error("a job of a lower tier came before a PAID one")
	}
	fetched(t, c, plain, "bulk", "default", "paid.films", "critical")
	fetched(t, c, bulk, "bulk", "default", "paid.films", "critical")
	for queue, want := range map[string]string{"bulk": "PUBLIC", "default": "UNPAID", "critical": "PAID"} {
		if got := s.calls("GET", "/api/jobs?queue="+queue, ""); !strings.Contains(got, `"tier":"`+want+`"`) {
			t.Errorf("the jobs of %s are %s", queue, got)
		}
	}
}

// Inside a tier the queues go in the order of the FETCH line.
func TestOrderOfQueues(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		in := func(name string) *faktory.Job {
			return pushed(t, c, func(j *faktory.Job) { j.Queue = name })
		}
		b1, a1, c1, a2 := in("b"), in("a"), in("c"), in("a")
		fetched(t, c, a1, "a", "b", "c")
		fetched(t, c, c1, "c", "a", "b")
		fetched(t, c, a2, "a", "b", "c")
		fetched(t, c, b1, "a", "b", "c")
	})
}

// QUEUE, PUSHB and the refusals as the client sees them.
func TestQueues(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		var batch []*faktory.Job
		for i := range 500 {
			batch = append(batch, faktory.NewJob("T", i))
		}
		bad := faktory.NewJob("T", 1)
		bad.Jid = "short"
		refused, err := c.PushBulk(append(batch, bad))
		if err != nil || len(refused) != 1 || refused["short"] != "jobs must have a reasonable jid parameter" {
			t.Errorf("refused %v, %v", refused, err)
		}
		if got := state(t, c).Data.Queues["default"]; got != 500 {
			t.Errorf("the queue has %d", got)
		}
		if err := c.PauseQueues("default"); err != nil {
			t.Fatal(err)
		}
		if j, err := c.Fetch("default"); j != nil || err != nil {
			t.Errorf("a paused queue gave %+v, %v", j, err)
		}
		if err := c.ResumeQueues("default"); err != nil {
			t.Fatal(err)
		}
		if j, err := c.Fetch("default"); j == nil || err != nil {
			t.Errorf("a resumed queue gave %+v, %v", j, err)
		}
		var latency map[string]float64
		text, err := c.Generic("QUEUE LATENCY default nothing")
		if err != nil || json.Unmarshal([]byte(text), &latency) != nil || latency["default"] <= 0 || latency["nothing"] != 0 {
			t.Errorf("the latencies are %s, %v", text, err)
		}
		// On a busy machine a removal of 500 jobs takes longer than clients wait. It is then refused or in doubt, and may be
		// sent again.
		for try := 0; ; try++ {
			err := c.RemoveQueues("default")
			if err == nil {
				break
			}
			if again := regexp.MustCompile("try again|it may have been done"); try == 10 || !again.MatchString(err.Error()) {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if queues := state(t, c).Data.Queues; len(queues) != 0 {
			t.Errorf("after REMOVE: %v", queues)
		}
		if _, err := c.Generic(`BATCH {}`); err == nil || !strings.Contains(err.Error(), "available in Faktory Enterprise") {
			t.Errorf("BATCH: %v", err)
		}
	})
}

// MUTATE changes the jobs that wait and the dead ones, as the client asks.
func TestMutate(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		later := func(j *faktory.Job) { j.At = time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano) }
		sets := func(when, want string) {
			t.Helper()
			d := state(t, c).Data
			text, err := json.Marshal(d.Sets)
			if got := string(text); err != nil || got != want {
				t.Errorf("%s: %s with %v, want %s", when, got, d.Queues, want)
			}
		}
		one, two, three := pushed(t, c, later, "uid:1"), pushed(t, c, later, "uid:2"), pushed(t, c, later, "uid:3")
		pushed(t, c, later, "uid:4")
		sets("at first", `{"dead":0,"retries":0,"scheduled":4,"working":0}`)
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		do(c.Kill(faktory.Scheduled, faktory.WithJids(one.Jid)))
		sets("one is killed", `{"dead":1,"retries":0,"scheduled":3,"working":0}`)
		do(c.Requeue(faktory.Scheduled, faktory.Matching("*uid:2*")))
		fetched(t, c, two, "default")
		do(c.Ack(two.Jid))
		do(c.Requeue(faktory.Dead, faktory.WithJids(one.Jid)))
		fetchedSoon(t, c, one.Jid)
		sets("one is requeued", `{"dead":0,"retries":0,"scheduled":2,"working":1}`)
		do(c.Ack(one.Jid))
		do(c.Kill(faktory.Scheduled, faktory.WithJids(three.Jid)))
		do(c.Discard(faktory.Dead, faktory.OfType("Films::Cut")))
		sets("a dead one is discarded", `{"dead":0,"retries":0,"scheduled":1,"working":0}`)
		do(c.Clear(faktory.Scheduled))
		sets("all are cleared", `{"dead":0,"retries":0,"scheduled":0,"working":0}`)
	})
}
