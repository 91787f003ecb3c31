package client

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestExpiryIsSent(t *testing.T) {
	at := time.Date(2026, 12, 1, 9, 0, 0, 1_500_000, time.FixedZone("", 3600))
	for name, c := range map[string]struct {
		opt  SubmitOption
		want string
	}{
		"in":  {ExpiresIn(90*time.Second + 1), `"expiresIn":90.001`},
		"at":  {ExpiresAt(at), `"expiresAt":"2026-12-01T08:00:00.0015Z"`},
		"not": {Delay(time.Second), `"delaySeconds":1}`},
	} {
		var s Submission
		c.opt(&s)
		if text, err := s.encode(""); err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	for _, s := range []Submission{{ExpiresIn: -1}, {ExpiresIn: 1, ExpiresAt: at}} {
		if text, err := s.encode(""); err == nil {
			t.Errorf("sent: %s", text)
		}
	}
}

func TestWaitOfAnExpiredJob(t *testing.T) {
	s, c := newServer(t)
	id, err := c.Submit(t.Context(), Paid, "SIMULATION", nil, ExpiresIn(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.Poll(t.Context(), id); err != nil || p.ExpiresAt.Before(time.Now()) {
		t.Errorf("%+v, %v", p, err)
	}
	s.Move(id, "EXPIRED", "", "", "")
	p, err := c.Wait(t.Context(), id)
	expired, is := errors.AsType[*JobExpiredError](err)
	if !is || expired.Poll.JobID != id || !p.Status.Ended() || !strings.Contains(err.Error(), id+" expired") {
		t.Errorf("%+v, %v", p, err)
	}
}
