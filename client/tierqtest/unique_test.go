package tierqtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/tierqtest"
)

// sent submits a job with the payload n and a unique key.
func sent(t *testing.T, c *client.Client, n int, u client.Unique, opts ...client.SubmitOption) client.Submitted {
	t.Helper()
	s := client.Submission{Type: "REPORT", Payload: n}
	for _, set := range append(opts, client.WithUnique(u)) {
		set(&s)
	}
	got, err := c.SubmitJob(soon(t), client.Paid, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A submit that finds the holder of its unique key is answered with the holder, is refused, gives it its payload, or
// waits for its end.
func TestUnique(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	on := func(what string) client.Unique { return client.Unique{Key: "shop 7", On: what} }
	holder := sent(t, c, 1, on(""))
	if u := s.Job(holder.JobID).Unique; u == nil || *u != (client.Unique{Key: "shop 7", While: "living", On: "return"}) {
		t.Errorf("the unique key is %+v", u)
	}
	if got := sent(t, c, 2, on(client.OnReturn)); got.JobID != holder.JobID || !got.Deduplicated || got.Replaced {
		t.Errorf("on return: %+v", got)
	}
	_, err := c.Submit(soon(t), client.Paid, "REPORT", 3, client.WithUnique(on(client.OnRefuse)))
	if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrTaken) || e.JobID != holder.JobID {
		t.Errorf("on refuse: %v", err)
	}
	got := sent(t, c, 4, on(client.OnReplace), client.Delay(time.Hour))
	if got.JobID != holder.JobID || !got.Replaced || got.Status != client.Scheduled {
		t.Errorf("on replace: %+v", got)
	}
	bounded := on(client.OnReplace)
	bounded.MaxWait = time.Minute
	sent(t, c, 5, bounded, client.Delay(time.Hour))
	if j := s.Job(holder.JobID); string(j.Payload) != "5" || time.Until(j.RunAt) > time.Minute {
		t.Errorf("after two replacements: %+v", j)
	}
	s.Begin(holder.JobID)
	held := sent(t, c, 6, on(client.OnReplace))
	if held.JobID == holder.JobID || held.Status != client.Held || held.Deduplicated {
		t.Errorf("on replace while the holder runs: %+v", held)
	}
	if got := sent(t, c, 7, on(client.OnAfter)); got.JobID != held.JobID || !got.Replaced || got.Status != client.Held {
		t.Errorf("on after: %+v", got)
	}
	s.Complete(holder.JobID, nil)
	if j := s.Job(held.JobID); j.Status != client.Pending || string(j.Payload) != "7" || len(s.Jobs()) != 2 {
		t.Errorf("after the holder's end: %+v of %d jobs", j, len(s.Jobs()))
	}
}

// A key while waiting is free from the claim on, a key for seconds when they are over. A HELD job may be cancelled.
func TestUnique_While(t *testing.T) {
	s := tierqtest.New(t)
	c := s.Client()
	waiting := client.Unique{Key: "shop 7", While: client.WhileWaiting, On: client.OnAfter}
	first := sent(t, c, 1, waiting)
	second, err := c.SubmitBatch(soon(t), client.Paid, []client.Submission{{Type: "REPORT", Unique: &waiting}})
	if err != nil || second[0].Status != client.Held {
		t.Fatalf("in a batch: %+v, %v", second, err)
	}
	if got, err := c.Cancel(soon(t), second[0].JobID); err != nil || got.Status != client.Cancelled {
		t.Errorf("cancel: %+v, %v", got, err)
	}
	third := sent(t, c, 3, waiting)
	s.Begin(first.JobID)
	if j := s.Job(third.JobID); j.Status != client.Pending {
		t.Errorf("after the claim of the holder: %+v", j)
	}
	s.Complete(first.JobID, nil)
	s.Handle("REPORT", func(j tierqtest.Job) (any, error) { return string(j.Payload), nil })
	s.Begin(third.JobID)
	if done, err := c.Wait(soon(t), third.JobID); err != nil || string(done.Result) != `"3"` {
		t.Errorf("%+v, %v", done, err)
	}
	hourly := client.Unique{Key: "once an hour", For: time.Hour}
	once := sent(t, c, 4, hourly)
	if _, err := c.Wait(soon(t), once.JobID); err != nil {
		t.Error(err)
	}
	if again := sent(t, c, 5, hourly); again.JobID != once.JobID || again.Status != client.Completed {
		t.Errorf("within the hour: %+v", again)
	}
}

// The test itself neither begins nor ends a HELD job.
func TestUnique_HeldIsNotEnded(t *testing.T) {
	r := &recorder{T: t}
	s := tierqtest.New(r)
	u := client.Unique{Key: "shop 7", On: client.OnAfter}
	sent(t, s.Client(), 1, u)
	held := sent(t, s.Client(), 2, u)
	s.Begin(held.JobID)
	s.Complete(held.JobID, nil)
	if len(r.errors) != 2 || s.Job(held.JobID).Status != client.Held {
		t.Errorf("%q", r.errors)
	}
}

// The fake keeps the key of a job's line.
func TestLineKey(t *testing.T) {
	s := tierqtest.New(t)
	id, err := s.Client().Submit(soon(t), client.Paid, "REPORT", nil, client.WithKey("acme"))
	if err != nil || s.Job(id).LineKey != "acme" {
		t.Errorf("%+v, %v", s.Job(id), err)
	}
}
