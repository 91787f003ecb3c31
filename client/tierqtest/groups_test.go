package tierqtest_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/tierqtest"
)

func made(t *testing.T, c *client.Client, b client.NewBatch) string {
	t.Helper()
	got, err := c.CreateBatch(soon(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return got.BatchID
}

// The then job of a batch comes once, when the batch is sealed and its last member has ended, with the counts.
func TestBatches(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	id := made(t, c, client.NewBatch{Name: "b", Tier: client.Paid,
		Then: &client.Then{Type: "NOTIFY", Payload: map[string]int{"n": 1}}})
	first := submit(t, c, "ROW", client.InBatch(id))
	second := submit(t, c, "ROW", client.InBatch(id))
	other := submit(t, c, "ROW")
	s.Complete(first, nil)
	if b := s.Batches()[0]; b.State != client.BatchOpen || b.Total != 2 || b.Living != 1 || b.Progress != 0.5 {
		t.Errorf("an open batch: %+v", b)
	}
	if b, err := c.SealBatch(soon(t), id); err != nil || b.State != client.BatchRunning || b.ThenJobID != "" {
		t.Errorf("a sealed batch: %+v, %v", b, err)
	}
	if _, err := c.Submit(soon(t), client.Paid, "ROW", nil, client.InBatch(id)); !errors.Is(err, client.ErrSealed) {
		t.Errorf("a submit to a sealed batch: %v", err)
	}
	s.Begin(second)
	s.Fail(second, errors.New("boom"))
	b, err := c.WaitBatch(soon(t), id)
	jobs := s.Jobs()
	if err != nil || b.State != client.BatchFinished || b.Completed != 1 || b.Failed != 1 || len(jobs) != 4 ||
		b.EndedAt.IsZero() {
		t.Fatalf("a finished batch: %+v, %v, %d jobs", b, err, len(jobs))
	}
	then := jobs[3]
	var in struct {
		N     int
		Batch struct{ Total, Completed, Failed int }
	}
	if err := then.Decode(&in); err != nil || then.ID != b.ThenJobID || then.Type != "NOTIFY" ||
		then.Tier != client.Paid || then.BatchID != "" || in.N != 1 || in.Batch.Total != 2 || in.Batch.Failed != 1 {
		t.Errorf("its then job: %+v with %s, %v", then, then.Payload, err)
	}
	s.Complete(then.ID, nil)
	s.Complete(other, nil)
	if _, err := c.SealBatch(soon(t), id); err != nil || len(s.Jobs()) != 4 {
		t.Errorf("sealed again: %d jobs, %v", len(s.Jobs()), err)
	}
	page, err := c.BatchMembers(soon(t), id, "FAILED", "", 10)
	if err != nil || len(page.Items) != 1 || page.Items[0].JobID != second {
		t.Errorf("members: %+v, %v", page, err)
	}
}

// A batch comes with its first members as a whole or not at all, and a repeat gets the same ids.
func TestBatches_InOneCall(t *testing.T) {
	s := tierqtest.New(t)
	s.Types("ROW", "NOTIFY")
	s.Handle("ROW", func(tierqtest.Job) (any, error) { return nil, nil })
	c := s.Client()
	row := client.Submission{Type: "ROW"}
	b := client.NewBatch{Name: "b", Tier: client.Public, Sealed: true, Then: &client.Then{Type: "NOTIFY"},
		Jobs: []client.BatchJob{{Submission: row}, {Submission: row, Tier: client.Paid}}}
	s.LoseAnswers(1)
	got, err := c.CreateBatch(soon(t), b)
	if err != nil || len(got.Jobs) != 2 || !got.Sealed {
		t.Fatalf("%+v, %v", got, err)
	}
	if first, second := s.Job(got.Jobs[0]), s.Job(got.Jobs[1]); first.Tier != client.Public ||
		second.Tier != client.Paid || second.BatchID != got.BatchID {
		t.Errorf("%+v, %+v", first, second)
	}
	if done, err := c.WaitBatch(soon(t), got.BatchID); err != nil || done.Completed != 2 || len(s.Jobs()) != 3 {
		t.Errorf("%+v, %v, %d jobs", done, err, len(s.Jobs()))
	}
	b.Jobs[1].Type, b.IdempotencyKey = "RWO", ""
	_, err = c.CreateBatch(soon(t), b)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Fields[0].Field != "jobs.1" || len(s.Batches()) != 1 {
		t.Errorf("%v, %d batches", err, len(s.Batches()))
	}
}

// An empty batch ends when it is sealed. A batch that wants all members COMPLETED is STUCK behind a failed member. A
// cancel seals a batch.
func TestBatches_Ends(t *testing.T) {
	s := tierqtest.New(t)
	s.Handle("REPORT", func(j tierqtest.Job) (any, error) { return len(j.Payload), nil })
	c := s.Client()
	then := &client.Then{Type: "REPORT", On: client.ThenSucceeded}
	empty := made(t, c, client.NewBatch{Name: "empty", Then: then})
	b, err := c.SealBatch(soon(t), empty)
	if err != nil || b.State != client.BatchFinished {
		t.Errorf("an empty batch: %+v, %v", b, err)
	}
	if done, err := c.Wait(soon(t), b.ThenJobID); err != nil || done.Tier != client.Unpaid {
		t.Errorf("its then job, which has a handler: %+v, %v", done, err)
	}
	id := made(t, c, client.NewBatch{Name: "cancelled", Then: then})
	waits, runs := submit(t, c, "ROW", client.InBatch(id)), submit(t, c, "ROW", client.InBatch(id))
	s.Begin(runs)
	if got, err := c.CancelBatch(soon(t), id); err != nil || got.Cancelled != 1 || got.Asked != 1 {
		t.Errorf("cancel: %+v, %v", got, err)
	}
	if s.Job(waits).Status != client.Cancelled || s.Batches()[1].State != client.BatchRunning {
		t.Errorf("after the cancel: %+v, %+v", s.Job(waits), s.Batches()[1])
	}
	s.Complete(runs, nil)
	_, err = c.WaitBatch(soon(t), id)
	if stuck, ok := errors.AsType[*client.BatchError](err); !ok || stuck.Batch.Cancelled != 2 || len(s.Jobs()) != 3 {
		t.Errorf("a stuck batch: %v, %d jobs", err, len(s.Jobs()))
	}
	page, err := c.Batches(soon(t), "", 1)
	if err != nil || len(page.Items) != 1 || page.Items[0].BatchID != id || page.Next == "" {
		t.Errorf("the list: %+v, %v", page, err)
	}
	if page, err = c.Batches(soon(t), page.Next, 1); err != nil || page.Items[0].BatchID != empty || page.Next != "" {
		t.Errorf("its second page: %+v, %v", page, err)
	}
}

// diamond is a flow of four jobs; join ends last.
func diamond(onFailure client.OnFailure) client.NewFlow {
	job := func(after ...string) client.FlowJob {
		return client.FlowJob{Submission: client.Submission{Type: "STEP"}, After: after, OnFailure: onFailure}
	}
	return client.NewFlow{Name: "d", Jobs: map[string]client.FlowJob{
		"start": job(), "left": job("start"), "right": job("start"), "join": job("left", "right"),
	}}
}

func statuses(s *tierqtest.Server, ids map[string]string) string {
	var all []string
	for _, name := range []string{"start", "left", "right", "join"} {
		all = append(all, string(s.Job(ids[name]).Status))
	}
	return strings.Join(all, " ")
}

// The jobs of a flow are released in order, by Complete and by handlers, and OnFailure decides behind a failure.
func TestFlows(t *testing.T) {
	for _, of := range []struct {
		on         client.OnFailure
		left, done string
		state      client.FlowState
	}{
		{"", "COMPLETED PENDING FAILED CANCELLED", "COMPLETED COMPLETED FAILED CANCELLED", client.FlowFailed},
		{client.FlowRuns, "COMPLETED PENDING FAILED WAITING", "COMPLETED COMPLETED FAILED COMPLETED", client.FlowFailed},
		{client.FlowWaits, "COMPLETED PENDING FAILED WAITING", "COMPLETED COMPLETED FAILED WAITING", client.FlowStuck},
	} {
		t.Run(string(of.on), func(t *testing.T) {
			s := tierqtest.New(t)
			c := s.Client()
			f, err := c.SubmitFlow(soon(t), diamond(of.on))
			if err != nil || len(f.Jobs) != 4 {
				t.Fatalf("%+v, %v", f, err)
			}
			if got := statuses(s, f.Jobs); got != "PENDING WAITING WAITING WAITING" {
				t.Errorf("at first: %s", got)
			}
			s.Complete(f.Jobs["start"], nil)
			if got := statuses(s, f.Jobs); got != "COMPLETED PENDING PENDING WAITING" {
				t.Errorf("after the first job: %s", got)
			}
			s.Fail(f.Jobs["right"], errors.New("boom"))
			if got := statuses(s, f.Jobs); got != of.left {
				t.Errorf("after a failure: %s, not %s", got, of.left)
			}
			s.Complete(f.Jobs["left"], nil)
			if of.on == client.FlowRuns {
				s.Complete(f.Jobs["join"], nil)
			}
			_, err = c.WaitFlow(soon(t), f.FlowID)
			e, ok := errors.AsType[*client.FlowError](err)
			if got := statuses(s, f.Jobs); got != of.done || !ok || e.Flow.State != of.state {
				t.Errorf("at the end: %s, %v", got, err)
			}
		})
	}
}

// A flow whose types have handlers runs by itself. A pattern waits for all jobs below a name, and a delay counts from
// the release.
func TestFlows_Handlers(t *testing.T) {
	s := tierqtest.New(t)
	order := make(chan string, 10)
	s.Handle("STEP", func(j tierqtest.Job) (any, error) { order <- j.Name; return nil, nil })
	c := s.Client()
	step := client.Submission{Type: "STEP"}
	late := step
	late.Delay = time.Hour
	f, err := c.SubmitFlow(soon(t), client.NewFlow{Jobs: map[string]client.FlowJob{
		"split": {Submission: step}, "split/1": {Submission: step, After: []string{"split"}},
		"join": {Submission: step, After: []string{"split/*"}}, "late": {Submission: late, After: []string{"join"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(soon(t), f.Jobs["join"]); err != nil {
		t.Fatal(err)
	}
	if got := []string{<-order, <-order, <-order}; !slices.Equal(got, []string{"split", "split/1", "join"}) {
		t.Errorf("ran %q", got)
	}
	if j := s.Job(f.Jobs["late"]); j.Status != client.Scheduled || time.Until(j.RunAt) < 59*time.Minute {
		t.Errorf("%+v", j)
	}
	if got, err := c.CancelFlow(soon(t), f.FlowID, "enough"); err != nil || got.State != client.FlowCancelled {
		t.Errorf("cancel: %+v, %v", got, err)
	}
	page, err := c.Flows(soon(t), client.FlowFilter{JobID: f.Jobs["late"], State: client.FlowCancelled}, "", 10)
	if err != nil || len(page.Items) != 1 || page.Items[0].FlowID != f.FlowID || len(s.Flows()[0].Jobs) != 4 {
		t.Errorf("%+v, %v", page, err)
	}
}

// A cancel of a flow releases no job of it, whatever OnFailure says, and a job that runs ends later.
func TestFlows_Cancel(t *testing.T) {
	s := tierqtest.New(t)
	s.Handle("LAST", func(tierqtest.Job) (any, error) { return nil, nil })
	c := s.Client()
	step := func(typ string, on client.OnFailure, after ...string) client.FlowJob {
		return client.FlowJob{Submission: client.Submission{Type: typ}, After: after, OnFailure: on}
	}
	f, err := c.SubmitFlow(soon(t), client.NewFlow{Jobs: map[string]client.FlowJob{
		"z": step("STEP", ""), "y": step("STEP", "", "z"), "a": step("LAST", client.FlowRuns, "y"), "runs": step("STEP", ""),
		"b": step("STEP", "", "runs"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Begin(f.Jobs["runs"])
	got, err := c.CancelFlow(soon(t), f.FlowID, "")
	if err != nil || got.State != client.FlowRunning || got.Counts.Cancelled != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	s.Complete(f.Jobs["runs"], nil)
	_, err = c.WaitFlow(soon(t), f.FlowID)
	if e, ok := errors.AsType[*client.FlowError](err); !ok || e.Flow.Counts.Cancelled != 5 {
		t.Errorf("%v", err)
	}
	for _, j := range s.Flows()[0].Jobs {
		if j.FailureCause != "" {
			t.Errorf("%+v", j)
		}
	}
}

// A wrong flow or batch is refused. A repeat with a key gets the first flow or batch of the key. A test cannot end a
// job that waits for others.
func TestGroups_Refused(t *testing.T) {
	r := &recorder{T: t}
	s := tierqtest.New(r)
	s.Types("STEP")
	c := s.Client()
	one := func(typ string, after ...string) client.FlowJob {
		return client.FlowJob{Submission: client.Submission{Type: typ}, After: after}
	}
	const unknown = "019de340-01fe-7a58-be6b-ffffffffffff"
	if _, err := c.Flow(soon(t), unknown); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown flow: %v", err)
	}
	if _, err := c.Batch(soon(t), unknown); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("an unknown batch: %v", err)
	}
	for _, jobs := range []map[string]client.FlowJob{
		{"a": one("STEP", "b"), "b": one("STEP", "a")}, {"a": one("NONE")}, {"a": one("STEP", "none")}, {"/": one("STEP")},
	} {
		_, err := c.SubmitFlow(soon(t), client.NewFlow{Jobs: jobs})
		if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrInvalid) || len(e.Fields) != 1 ||
			!strings.HasPrefix(e.Fields[0].Field, "jobs.") {
			t.Errorf("%v: %v", jobs, err)
		}
	}
	s.Refuse(1, tierqtest.Refusal{})
	s.LoseAnswers(1)
	f := diamond("")
	f.IdempotencyKey = "k"
	first, err := c.SubmitFlow(soon(t), f)
	if err != nil || !first.Replayed || len(s.Flows()) != 1 || len(s.Jobs()) != 4 {
		t.Errorf("%+v, %v", first, err)
	}
	f.Name = "other"
	if _, err := c.SubmitFlow(soon(t), f); !errors.Is(err, client.ErrMismatch) {
		t.Errorf("another body: %v", err)
	}
	s.LoseAnswers(1)
	b := client.NewBatch{Name: "b", IdempotencyKey: "k"}
	if id := made(t, c, b); id != made(t, c, b) || len(s.Batches()) != 1 {
		t.Errorf("%d batches", len(s.Batches()))
	}
	if _, err := c.CreateBatch(soon(t), client.NewBatch{}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a batch without a name: %v", err)
	}
	s.Begin(first.Jobs["join"])
	s.Complete(first.Jobs["join"], nil)
	if len(r.errors) != 2 || !strings.Contains(r.errors[1], "it is WAITING") {
		t.Errorf("%q", r.errors)
	}
	resp, err := http.Get(s.URL() + "/api/batches/x/events")
	if err != nil || resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("%v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
}

// A test runs a program's import, which has one report at the end.
func TestImport(t *testing.T) {
	s := tierqtest.New(t)
	s.Handle("ROW", func(j tierqtest.Job) (any, error) { return nil, nil })
	s.Handle("REPORT", func(j tierqtest.Job) (any, error) { return "sent", nil })
	c, ctx := s.Client(), soon(t)
	id := made(t, c, client.NewBatch{Name: "import", Then: &client.Then{Type: "REPORT"}})
	rows := make([]client.Submission, 300)
	for i := range rows {
		rows[i] = client.Submission{Type: "ROW", BatchID: id}
	}
	if _, err := c.SubmitBatch(ctx, client.Paid, rows); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SealBatch(ctx, id); err != nil {
		t.Fatal(err)
	}
	b, err := c.WaitBatch(ctx, id)
	if err != nil || b.Completed != 300 || len(s.Jobs()) != 301 {
		t.Fatalf("%+v, %v, %d jobs", b, err, len(s.Jobs()))
	}
	if done, err := c.Wait(ctx, b.ThenJobID); err != nil || string(done.Result) != `"sent"` {
		t.Errorf("%+v, %v", done, err)
	}
}
