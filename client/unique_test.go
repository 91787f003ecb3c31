package client

import (
	"errors"
	"testing"
	"time"
)

// A unique key is sent as the API takes it, alone and in a batch, and left out without one.
func TestUnique_IsSent(t *testing.T) {
	s, c := newServer(t)
	for _, u := range []Unique{
		{Key: "a"}, {Key: "b", While: WhileWaiting, On: OnReplace, MaxWait: 1500 * time.Millisecond},
		{Key: "c", While: WhileLiving, For: 90 * time.Second},
	} {
		if _, err := c.Submit(soon(t), Paid, "", nil, WithUnique(u)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.SubmitBatch(soon(t), Paid, []Submission{{Unique: &Unique{Key: "batch " + u.Key}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{
		`{"unique":{"key":"a"}}`, `{"unique":{"key":"batch a"}}`,
		`{"unique":{"key":"b","while":"waiting","on":"replace","maxWait":2}}`, `{"unique":{"key":"batch b"}}`,
		`{"unique":{"key":"c","while":90}}`, `{"unique":{"key":"batch c"}}`,
	} {
		if got := s.Jobs()[i].Body; got != want {
			t.Errorf("sent %s, not %s", got, want)
		}
	}
}

// The caller learns which job stands for its submit, and which job keeps it out, alone and in a batch.
func TestUnique_IsAnswered(t *testing.T) {
	_, c := newServer(t)
	on := func(what string) *Unique { return &Unique{Key: "shop 7", On: what} }
	first, err := c.SubmitJob(soon(t), Paid, Submission{Unique: on("")})
	if err != nil || first.Deduplicated {
		t.Fatalf("%+v, %v", first, err)
	}
	got, err := c.SubmitJob(soon(t), Paid, Submission{Payload: 2, Unique: on(OnReplace)})
	if err != nil || got.JobID != first.JobID || !got.Deduplicated || !got.Replaced {
		t.Errorf("%+v, %v", got, err)
	}
	taken := func(err error) {
		t.Helper()
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrTaken) || !errors.Is(err, ErrConflict) || e.JobID != first.JobID || e.Status != 409 {
			t.Errorf("%v", err)
		}
	}
	_, err = c.SubmitJob(soon(t), Paid, Submission{Unique: on(OnRefuse)})
	taken(err)
	all, err := c.SubmitBatch(soon(t), Paid, []Submission{{Unique: on(OnReturn)}, {Unique: on(OnRefuse)}})
	if err != nil || all[0].JobID != first.JobID || !all[0].Deduplicated || all[0].Replaced {
		t.Errorf("%+v, %v", all, err)
	}
	taken(all[1].Err)
}
