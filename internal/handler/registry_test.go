package handler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

type order struct {
	To    string `json:"to"`
	Count int    `json:"count"`
}

func (o *order) Validate() error {
	if o.Count < 0 {
		return &PayloadError{Field: "payload.count", Reason: "is negative"}
	}
	return nil
}

func orders(fn func(context.Context, order) (string, error)) *Registry {
	r := NewRegistry()
	Register(r, "ORDER", fn)
	return r
}

func TestCheck(t *testing.T) {
	r := orders(func(context.Context, order) (string, error) { return "", nil })
	for payload, want := range map[string]string{
		``:                       "",
		`null`:                   "",
		`{"to":"a","count":1}`:   "",
		`{"to":1}`:               "payload.to",
		`{"too":"a"}`:            "too",
		`{"count":-1}`:           "payload.count: is negative",
		`{"to":"a"} {}`:          "after the JSON value",
		`[`:                      "payload",
		`{"to":"a","count":1.5}`: "payload.count",
	} {
		err := r.Check("ORDER", []byte(payload))
		fits := err == nil
		if fits != (want == "") || !fits && (!errors.Is(err, job.ErrBadPayload) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", payload, err, want)
		}
	}
	if err := r.Check("OTHER", nil); !errors.Is(err, job.ErrUnknownType) {
		t.Errorf("another type: %v", err)
	}
}

func TestRun(t *testing.T) {
	r := orders(func(_ context.Context, o order) (string, error) { return o.To, nil })
	got, err := r.Run(t.Context(), "ORDER", []byte(`{"to":"a","later":"field"}`)) // a newer build accepted it
	if err != nil || string(got) != `"a"` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = r.Run(t.Context(), "ORDER", []byte(`{`))
	if !Judge(err).Permanent || !errors.Is(err, job.ErrBadPayload) {
		t.Errorf("an unreadable payload: %v", err)
	}
	if _, err := r.Run(t.Context(), "OTHER", nil); !errors.Is(err, job.ErrUnknownType) {
		t.Errorf("another type: %v", err)
	}
	inf := NewRegistry()
	Register(inf, "INF", func(context.Context, struct{}) (float64, error) { return math.Inf(1), nil })
	if _, err := inf.Run(t.Context(), "INF", nil); !Judge(err).Permanent {
		t.Errorf("a result that is no JSON: %v", err)
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r := orders(nil)
	Register(r, "ORDER", func(context.Context, order) (string, error) { return "", nil })
}

func TestJudge(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		err  error
		want Verdict
	}{
		{boom, Verdict{RetryAfter: -1}},
		{Permanent(boom), Verdict{Permanent: true, RetryAfter: -1}},
		{fmt.Errorf("wrapped: %w", Permanent(boom)), Verdict{Permanent: true, RetryAfter: -1}},
		{RetryAfter(time.Minute, boom), Verdict{RetryAfter: time.Minute}},
		{RetryAfter(-time.Minute, boom), Verdict{RetryAfter: 0}},
		{Later(time.Second), Verdict{Later: time.Second, RetryAfter: -1}},
		{Later(0), Verdict{Later: time.Millisecond, RetryAfter: -1}},
	} {
		if got := Judge(tc.err); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.err, got, tc.want)
		}
	}
	if err := Permanent(boom); !errors.Is(err, boom) || err.Error() != "boom" {
		t.Errorf("the cause is lost: %v", err)
	}
}
