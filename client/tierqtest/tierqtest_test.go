package tierqtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/internal/leak"
	"github.com/tierq/tierq/client/tierqtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// soon returns a context that limits a test's waits.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func submit(t *testing.T, c *client.Client, typ string, opts ...client.SubmitOption) string {
	t.Helper()
	id, err := c.Submit(soon(t), client.Paid, typ, map[string]int{"n": 7}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The test sees everything that a submit says, of every tier, alone and in a batch.
func TestJobs(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client(client.WithToken("tq_1_secret"))
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	zero := 0
	all := client.Submission{Type: "REPORT", Payload: []int{1}, IdempotencyKey: "k", MaxRetries: &zero, RunAt: at,
		CallbackURL: "https://example.com/hook", Queue: "pictures", TraceID: "trace-1"}
	first, err := c.SubmitJob(soon(t), "GOLD", all)
	if err != nil || first.Status != client.Scheduled {
		t.Errorf("%+v, %v", first, err)
	}
	outcomes, err := c.SubmitBatch(soon(t), client.Public, []client.Submission{{Delay: time.Minute}, {Type: "B"}})
	if err != nil || len(outcomes) != 2 || outcomes[0].Err != nil || outcomes[1].Err != nil {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	jobs := s.Jobs()
	if len(jobs) != 3 {
		t.Fatalf("%+v", jobs)
	}
	j := jobs[0]
	if j.ID != first.JobID || j.Tier != "GOLD" || j.Type != "REPORT" || string(j.Payload) != "[1]" ||
		j.IdempotencyKey != "k" || j.MaxRetries == nil || *j.MaxRetries != 0 || !j.RunAt.Equal(at) || j.Delay != 0 ||
		j.CallbackURL != all.CallbackURL || j.Queue != "pictures" || j.TraceID != "trace-1" ||
		j.Status != client.Scheduled {
		t.Errorf("%+v", j)
	}
	if j := jobs[1]; j.Tier != client.Public || j.Type != "SIMULATION" || j.Delay != time.Minute || j.RunAt.IsZero() ||
		j.Status != client.Scheduled || j.MaxRetries != nil {
		t.Errorf("%+v", j)
	}
	if j := jobs[2]; j.Type != "B" || j.Status != client.Pending || !j.RunAt.IsZero() || j.ID != outcomes[1].JobID {
		t.Errorf("%+v", j)
	}
	p, err := c.Poll(soon(t), first.JobID)
	if err != nil || !p.RunAt.Equal(at) || p.MaxRetries != 0 || time.Since(p.ArrivedAt) > time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
}

// A caller that waits learns of each step that the test makes.
func TestSteps(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	for _, delay := range []time.Duration{0, time.Hour} {
		id := submit(t, c, "REPORT", client.Delay(delay))
		var seen []client.Status
		done, err := c.Watch(soon(t), id, func(p client.Poll) {
			switch seen = append(seen, p.Status); p.Status {
			case client.Pending, client.Scheduled:
				s.Begin(id)
			case client.Processing:
				s.Complete(id, map[string]int{"n": 8})
			}
		})
		if err != nil || string(done.Result) != `{"n":8}` || done.CompletedAt.IsZero() || done.FirstTriedAt.IsZero() ||
			len(seen) != 3 {
			t.Errorf("%+v, %v after %v", done, err, seen)
		}
		if j := s.Job(id); j.Status != client.Completed || string(j.Result) != `{"n":8}` {
			t.Errorf("%+v", j)
		}
	}
	id := submit(t, c, "REPORT")
	go s.Fail(id, errors.New("boom"))
	_, err := c.Wait(soon(t), id)
	e, ok := errors.AsType[*client.JobFailedError](err)
	if !ok || e.Poll.LastError != "boom" || s.Job(id).Error != "boom" {
		t.Errorf("%v", err)
	}
}

func TestCancel(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	for _, delay := range []time.Duration{0, time.Hour} {
		id := submit(t, c, "REPORT", client.Delay(delay))
		if got, err := c.Cancel(soon(t), id); err != nil || got.Status != client.Cancelled {
			t.Errorf("a job that waits: %+v, %v", got, err)
		}
		if got, err := c.Cancel(soon(t), id); err != nil || got.Status != client.Cancelled {
			t.Errorf("a cancelled job: %+v, %v", got, err)
		}
	}
	ended := submit(t, c, "REPORT")
	s.Complete(ended, nil)
	if _, err := c.Cancel(soon(t), ended); !errors.Is(err, client.ErrConflict) {
		t.Errorf("a completed job: %v", err)
	}
	for name, end := range map[string]func(id string){
		"complete": func(id string) { s.Complete(id, nil) },
		"fail":     func(id string) { s.Fail(id, errors.New("boom")) },
	} {
		id := submit(t, c, "REPORT")
		s.Begin(id)
		if got, err := c.Cancel(soon(t), id); err != nil || !got.Requested || !s.Job(id).CancelRequested {
			t.Errorf("a job that runs: %+v, %v", got, err)
		}
		end(id)
		_, err := c.Wait(soon(t), id)
		if _, ok := errors.AsType[*client.JobCancelledError](err); !ok {
			t.Errorf("%s after a cancel: %v", name, err)
		}
	}
}

// Expire ends a job that waits as EXPIRED. It leaves a job that runs, or has ended, as it is.
func TestExpire(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	id := submit(t, c, "REPORT", client.ExpiresIn(time.Minute))
	if s.Job(id).ExpiresAt.IsZero() {
		t.Error("it does not say when it expires")
	}
	s.Expire(id)
	_, err := c.Wait(soon(t), id)
	if _, ok := errors.AsType[*client.JobExpiredError](err); !ok || s.Job(id).Status != client.Expired {
		t.Errorf("%s, %v", s.Job(id).Status, err)
	}
}

// A handler runs the jobs of its type that come later, each once, and every way out of a handler ends the job.
func TestHandle(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	early := submit(t, c, "DOUBLE")
	s.Handle("DOUBLE", func(j tierqtest.Job) (any, error) {
		var in struct{ N int }
		if err := j.Decode(&in); err != nil {
			return nil, err
		}
		if j.Status != client.Processing {
			return nil, fmt.Errorf("the job is %s", j.Status)
		}
		return 2 * in.N, nil
	})
	s.Handle("FAIL", func(tierqtest.Job) (any, error) { return nil, errors.New("boom") })
	s.Handle("NO_JSON", func(tierqtest.Job) (any, error) { return func() {}, nil })
	s.Handle("EXIT", func(tierqtest.Job) (any, error) { runtime.Goexit(); return nil, nil })
	s.Handle("ENDED", func(j tierqtest.Job) (any, error) { s.Complete(j.ID, "by the test"); return "late", nil })
	later := submit(t, c, "DOUBLE", client.Delay(time.Hour))
	for _, id := range []string{early, later} {
		if st := s.Job(id).Status; st != client.Pending && st != client.Scheduled {
			t.Errorf("a job that waits is %s", st)
		}
		s.Begin(id)
	}
	for _, id := range []string{early, later, submit(t, c, "DOUBLE")} {
		if done, err := c.Wait(soon(t), id); err != nil || string(done.Result) != "14" {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if done, err := c.Wait(soon(t), submit(t, c, "ENDED")); err != nil || string(done.Result) != `"by the test"` {
		t.Errorf("%+v, %v", done, err)
	}
	for typ, want := range map[string]string{"FAIL": "boom", "NO_JSON": "unsupported type", "EXIT": "did not return"} {
		_, err := c.Wait(soon(t), submit(t, c, typ))
		if e, ok := errors.AsType[*client.JobFailedError](err); !ok || !strings.Contains(e.Poll.LastError, want) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestTypes(t *testing.T) {
	s := tierqtest.New(t)
	s.Types("REPORT", "SIMULATION")
	if _, err := s.Client().Submit(soon(t), client.Paid, "", nil); err != nil { // SIMULATION is the default
		t.Error(err)
	}
	outcomes, err := s.Client().SubmitBatch(soon(t), client.Paid, []client.Submission{{Type: "REPORT"}, {Type: "REPROT"}})
	if err != nil || outcomes[0].Err != nil || !errors.Is(outcomes[1].Err, client.ErrInvalid) || len(s.Jobs()) != 2 {
		t.Errorf("%+v, %v", outcomes, err)
	}
}

// Refusals and lost answers come in the order of the calls, one for each try, and polls take none.
func TestFaults(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	s.Refuse(2, tierqtest.Refusal{})
	s.LoseAnswers(1)
	s.Refuse(1, tierqtest.Refusal{Status: http.StatusTooManyRequests})
	accepted, err := c.SubmitJob(soon(t), client.Paid, client.Submission{Type: "REPORT"})
	if err != nil || !accepted.Replayed || len(s.Jobs()) != 1 {
		t.Errorf("%+v, %v, %d jobs", accepted, err, len(s.Jobs()))
	}
	for want, r := range map[error]tierqtest.Refusal{
		client.ErrQueueFull:      {RetryAfter: 1500 * time.Millisecond},
		client.ErrRateLimited:    {Status: 429, RetryAfter: 2 * time.Second},
		client.ErrOutcomeUnknown: {Status: 504, RetryAfter: 2 * time.Second},
		client.ErrMismatch:       {Status: 422, Code: "IDEMPOTENCY_MISMATCH", RetryAfter: 2 * time.Second},
		client.ErrInvalid:        {Status: 400, RetryAfter: 2 * time.Second},
	} {
		s.Refuse(1, r)
		if _, err := c.Poll(soon(t), accepted.JobID); err != nil {
			t.Error(err)
		}
		_, err := c.Submit(soon(t), client.Paid, "REPORT", nil)
		if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, want) || e.RetryAfter != 2*time.Second {
			t.Errorf("%v: %v", want, err)
		}
	}
	if len(s.Jobs()) != 1 {
		t.Errorf("%d jobs", len(s.Jobs()))
	}
}

// A call that the fake does not know is no success and no missing job.
func TestOtherCalls(t *testing.T) {
	s := tierqtest.New(t)
	_, err := s.Client().Stats(soon(t))
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "NOT_IN_TIERQTEST" {
		t.Errorf("%v", err)
	}
}

// recorder is a test that keeps its errors for itself.
type recorder struct {
	*testing.T
	errors []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// The test's own mistakes are errors of the test.
func TestMistakes(t *testing.T) {
	r := &recorder{T: t}
	s := tierqtest.New(r)
	id := submit(t, s.Client(), "REPORT")
	s.Begin(id)
	for want, mistake := range map[string]func(){
		"there is no such job":          func() { s.Complete("x", nil) },
		"no such job":                   func() { s.Job("x") },
		"it runs already":               func() { s.Begin(id) },
		"unsupported type: func()":      func() { s.Complete(id, func() {}) },
		"there is no error":             func() { s.Fail(id, nil) },
		"Fail: job x: there is no such": func() { s.Fail("x", errors.New("boom")) },
	} {
		r.errors = nil
		if mistake(); len(r.errors) != 1 || !strings.Contains(r.errors[0], want) {
			t.Errorf("%s: %q", want, r.errors)
		}
	}
	s.Complete(id, 1)
	r.errors = nil
	s.Complete(id, 2)
	s.Begin(id)
	if len(r.errors) != 2 || !strings.Contains(r.errors[0], "it is COMPLETED already") || string(s.Job(id).Result) != "1" {
		t.Errorf("%q, %+v", r.errors, s.Job(id))
	}
	defer func() {
		if recover() == nil {
			t.Error("without a test a mistake does not panic")
		}
	}()
	alone := tierqtest.Start()
	defer alone.Close()
	alone.Begin("x")
}
