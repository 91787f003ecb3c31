package admission

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A job expires when the MaxWait of its plan has passed since it may run, unless its submit asked for an earlier time.
func TestSubmit_MaxWait(t *testing.T) {
	t.Parallel()
	q := &fakeQueue{}
	a, _ := begin(t, q, 1)
	plans := job.DefaultPlans()
	plans[2].MaxWait = time.Minute
	a.plans.Set(plans)
	runAt := time.UnixMilli(2_000_000_000_000)
	began := time.Now()
	for _, s := range []job.Submission{
		{Tier: job.Paid}, {Tier: job.Public}, {Tier: job.Public, Delay: time.Hour}, {Tier: job.Public, RunAt: runAt},
		{Tier: job.Public, Options: job.Options{ExpiresMs: 1234}},
		{Tier: job.Public, RunAt: runAt, Options: job.Options{ExpiresMs: runAt.UnixMilli() + 61_000}},
	} {
		if _, err := a.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	var got []int64
	for _, call := range q.sent() {
		got = append(got, call[0].ExpiresMs)
	}
	within := func(at int64, wait time.Duration) bool {
		return at >= began.Add(wait).UnixMilli() && at <= time.Now().Add(wait+time.Second).UnixMilli() && at%1000 == 0
	}
	fixed := runAt.Add(time.Minute).UnixMilli()
	if len(got) != 6 || got[0] != 0 || !within(got[1], time.Minute) || !within(got[2], time.Hour+time.Minute) ||
		got[3] != fixed || got[4] != 1234 || got[5] != fixed {
		t.Errorf("expire at %v", got)
	}
}
