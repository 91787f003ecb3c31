package worker

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func TestReportOf(t *testing.T) {
	boom := errors.New("boom")
	fails := func(change func(*job.Report)) job.Report {
		r := job.Report{Kind: job.DidFail, Error: "boom", RetryAfter: -1}
		change(&r)
		return r
	}
	plain := fails(func(*job.Report) {})
	back := job.Report{Kind: job.GaveBack}
	cases := []struct {
		name  string
		err   error
		ended error // why the context ended
		want  job.Report
	}{
		{"an error", boom, nil, plain},
		{"at its maximum time", boom, handler.ErrMaxTime, fails(func(r *job.Report) { r.Overdue = true })},
		{"permanent at its maximum time", handler.Permanent(boom), handler.ErrMaxTime,
			fails(func(r *job.Report) { r.Overdue, r.Permanent = true, true })},
		{"cancelled: the script makes it CANCELLED", boom, handler.ErrCancelled, plain},
		{"its own wait", handler.RetryAfter(time.Second, boom), nil,
			fails(func(r *job.Report) { r.RetryAfter = time.Second })},
		{"draining costs nothing", boom, handler.ErrDraining, back},
		{"permanent while draining: perhaps it was our doing", handler.Permanent(boom), handler.ErrDraining, back},
		{"an untrusted lease costs nothing", boom, handler.ErrLeaseLost, back},
		{"later, whatever ended", handler.Later(time.Hour), handler.ErrDraining,
			job.Report{Kind: job.GaveBack, Delay: time.Hour}},
		{"later, for a reason", fmt.Errorf("busy: %w", handler.LaterBecause(time.Hour, "2 of 3 say SUBMITTED")), nil,
			job.Report{Kind: job.GaveBack, Delay: time.Hour, Reason: "2 of 3 say SUBMITTED"}},
		{"an unknown type", job.ErrUnknownType, nil, fails(func(r *job.Report) {
			r.UnknownType, r.Error = true, job.ErrUnknownType.Error()
		})},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := reportOf(ran{err: c.err, verdict: handler.Judge(c.err)}, c.ended, 0); !reflect.DeepEqual(got, c.want) {
				t.Errorf("report = %+v, want %+v", got, c.want)
			}
		})
	}
}
