package recovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// audited is a fake queue, store, SQL and journal that records the calls.
type audited struct {
	asked    []string
	steps    map[string]job.Scanned
	found    []job.Finding // the findings of AuditJobs
	sql      func(ids []job.ID) (map[job.ID][]job.Recorded, error)
	rows     []job.ID
	missing  []job.ID
	step     func()
	mu       sync.Mutex // guards asked and scanErr
	scanErr  error
	leased   bool
	last     job.AuditReport
	lastErr  error
	kept     []job.AuditReport
	observed []string
}

func (a *audited) note(format string, args ...any) {
	a.mu.Lock()
	a.asked = append(a.asked, fmt.Sprintf(format, args...))
	a.mu.Unlock()
	if a.step != nil {
		a.step()
	}
}

func (a *audited) Scan(_ context.Context, at string) (job.Scanned, error) {
	a.note("scan %q", at)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.steps[at], a.scanErr
}

func (a *audited) calls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// fail makes scans return this error.
func (a *audited) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scanErr = err
}

func (a *audited) AuditJobs(_ context.Context, suspects []job.Suspected) ([]job.Finding, error) {
	a.note("look %v", suspects)
	return a.found, nil
}

func (a *audited) Recount(_ context.Context, partition int, count bool) ([]job.Finding, error) {
	a.note("recount %d %v", partition, count)
	return nil, nil
}

func (a *audited) Missing(_ context.Context, ids []job.ID) ([]job.ID, error) {
	a.note("missing %v", ids)
	return a.missing, nil
}

func (a *audited) Waiting(_ context.Context, after job.ID, _ int, olderThan time.Duration) ([]job.ID, error) {
	if after != "" {
		return nil, nil
	}
	a.note("journal %s", olderThan)
	return a.rows, nil
}

func (a *audited) Give(_ context.Context, ids []job.ID) (int, error) {
	a.note("restore %v", ids)
	return len(ids), nil
}

func (a *audited) Outcomes(_ context.Context, ids []job.ID) (map[job.ID][]job.Recorded, error) {
	a.asked = append(a.asked, fmt.Sprintf("sql %v", ids))
	if a.sql == nil {
		return nil, nil
	}
	return a.sql(ids)
}

func (a *audited) Lease(context.Context, string, time.Duration) (bool, error) { return a.leased, nil }

func (a *audited) KeepAudit(_ context.Context, r job.AuditReport) error {
	a.kept = append(a.kept, r)
	a.last, a.lastErr = r, nil
	return nil
}

func (a *audited) LastAudit(context.Context) (job.AuditReport, error) { return a.last, a.lastErr }

func (a *audited) Quarantined(context.Context, int) ([]job.QuarantinedJob, int64, error) {
	return nil, 4, nil
}

type observer struct{ *audited }

func (o observer) AuditFound(f job.Finding, n int64) {
	o.observed = append(o.observed, fmt.Sprintf("%s %s %d", f.Result, f.Kind, n))
}
func (o observer) AuditEnded(r job.AuditReport) {
	o.observed = append(o.observed, fmt.Sprint("ended ", r.Whole))
}
func (o observer) Quarantined(n int64) {
	o.observed = append(o.observed, fmt.Sprint("quarantined ", n))
}

func newAudited() *audited {
	return &audited{steps: map[string]job.Scanned{"": {}}, leased: true, lastErr: job.ErrNotFound}
}

func (a *audited) audit() *Audit {
	return NewAudit(AuditOptions{
		Queue: a, Desk: a, View: a, SQL: a, Journal: a, Restorer: a, Partitions: 2, Name: "me", Now: time.Now,
		Observe: observer{a}, Log: quiet,
	})
}

// A pass looks at all data, asks SQL about waiting jobs before it looks at them, restores jobs that only the
// journal has, and counts last.
func TestAudit_APass(t *testing.T) {
	t.Attr("proves", "F53 F19")
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		f.steps = map[string]job.Scanned{
			"": {Suspects: []job.Suspected{{ID: "a"}}, Found: []job.Finding{{Result: job.Reported, Kind: "unknown_key"}},
				Next: "more"},
			"more": {Suspects: []job.Suspected{{ID: "gone"}}, Ask: []job.ID{"gone", "b", "c"}},
		}
		f.sql = func([]job.ID) (map[job.ID][]job.Recorded, error) {
			return map[job.ID][]job.Recorded{"b": {{Generation: 2, Status: job.Failed}},
				"gone": {{Generation: 1, Status: job.Completed}}}, nil
		}
		f.found = []job.Finding{{ID: "x", Result: job.Repaired, Kind: "missing"}}
		f.rows, f.missing = []job.ID{"j1", "j2"}, []job.ID{"j2"}
		r, err := f.audit().Run(t.Context())
		if err != nil || !r.Whole || r.Looks != 3 || r.By != "me" || r.Problem != "" {
			t.Errorf("%+v, %v", r, err)
		}
		want := []string{
			"recount 0 false", "recount 1 false", "journal 1m0s", "missing [j1 j2]", "restore [j2]", `scan ""`,
			"look [{a 0 [] }]", `scan "more"`,
			"sql [gone b c]", "look [{gone 0 [{1 COMPLETED}] } {b -1 [{2 FAILED}] }]", "recount 0 true", "recount 1 true",
		}
		if !slices.Equal(f.asked, want) {
			t.Errorf("asked %q, want %q", f.asked, want)
		}
		if got := fmt.Sprint(r.Totals); got != "[{REPAIRED lost 1} {REPAIRED missing 2} {REPORTED unknown_key 1}]" ||
			len(r.Findings) != 4 {
			t.Errorf("totals %s, findings %v", got, r.Findings)
		}
		if want := []string{"REPAIRED lost 1", "REPORTED unknown_key 1", "REPAIRED missing 1", "REPAIRED missing 1",
			"quarantined 4", "ended true"}; !slices.Equal(f.observed, want) {
			t.Errorf("observed %q", f.observed)
		}
		if len(f.kept) != 1 {
			t.Errorf("kept %v", f.kept)
		}
	})
}

// If SQL does not answer, the rest of the pass is made, and unasked jobs cause no finding.
func TestAudit_WithoutSQL(t *testing.T) {
	t.Attr("proves", "F14")
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		f.steps = map[string]job.Scanned{"": {Ask: []job.ID{"a"}, Next: "b"},
			"b": {Ask: []job.ID{"b"}, Suspects: []job.Suspected{{ID: "s"}}}}
		f.sql = func([]job.ID) (map[job.ID][]job.Recorded, error) { return nil, job.ErrUnavailable }
		r, err := f.audit().Run(t.Context())
		if err != nil || r.Whole || r.Problem == "" || len(r.Totals) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		want := []string{"recount 0 false", "recount 1 false", "journal 1m0s", `scan ""`, "sql [a]", `scan "b"`,
			"look [{s 0 [] }]", "recount 0 true", "recount 1 true"}
		if !slices.Equal(f.asked, want) {
			t.Errorf("asked %q, want %q", f.asked, want)
		}
	})
}

// A slow pass rests 99 times as long as each step took, and a stall of Redis does not delay the pass for minutes.
func TestAudit_IsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		took := time.Millisecond
		f.step = func() { <-time.After(took) }
		began := time.Now()
		a := f.audit()
		if err := a.slowly(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 501*time.Millisecond { // five Redis steps, and one read of the journal
			t.Errorf("five steps of 1 ms took %s", got)
		}
		took, began = time.Second, time.Now()
		if err := a.slowly(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != 11*time.Second {
			t.Errorf("five steps of 1 s took %s", got)
		}
	})
}

// One process makes a pass, once in ten minutes. A pass that was cut short is repeated soon.
func TestAudit_IsDue(t *testing.T) {
	now := time.Now()
	report := func(age time.Duration, whole bool) job.AuditReport {
		return job.AuditReport{StartedAt: now.Add(-age), Whole: whole}
	}
	for name, c := range map[string]struct {
		last   job.AuditReport
		err    error
		leased bool
		want   bool
	}{
		"never made":         {job.AuditReport{}, job.ErrNotFound, true, true},
		"another makes it":   {job.AuditReport{}, job.ErrNotFound, false, false},
		"just made":          {report(9*time.Minute, true), nil, true, false},
		"long ago":           {report(10*time.Minute, true), nil, true, true},
		"cut short just now": {report(29*time.Second, false), nil, true, false},
		"cut short":          {report(time.Minute, false), nil, true, true},
		"Redis' clock fell":  {report(-time.Hour, true), nil, true, true},
	} {
		f := newAudited()
		f.last, f.lastErr, f.leased = c.last, c.err, c.leased
		a := f.audit()
		a.o.Now = func() time.Time { return now }
		if got, err := a.due(t.Context()); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	f := newAudited()
	f.lastErr = errIO
	if due, err := f.audit().due(t.Context()); due || err == nil {
		t.Errorf("an outage: %v, %v", due, err)
	}
}

// The loop makes no pass right after the start, makes a pass later, and goes on after a pass that failed.
func TestAudit_Loop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		a := f.audit()
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		if asked := f.calls(); len(asked) != 0 {
			t.Errorf("at once: %q", asked)
		}
		f.fail(errIO)
		<-time.After(time.Minute)
		synctest.Wait()
		if len(f.kept) != 1 || f.kept[0].Whole || f.kept[0].Problem == "" {
			t.Errorf("Redis fails: %+v", f.kept)
		}
		f.fail(nil)
		<-time.After(12 * time.Minute)
		synctest.Wait()
		if len(f.kept) != 3 || !f.kept[1].Whole { // after a minute, and ten minutes later
			t.Errorf("it goes on: %+v", f.kept)
		}
		for range 2 {
			if err := a.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Run does not wait for a slow pass, and returns a partial report when its time is over.
func TestAudit_RunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		f.step = func() { <-time.After(500 * time.Millisecond) }
		a := f.audit()
		slow := make(chan error, 1)
		go func() { slow <- a.slowly(t.Context()) }()
		<-time.After(100 * time.Millisecond)
		r, err := a.Run(t.Context())
		if err != nil || !r.Whole || len(f.kept) != 1 {
			t.Errorf("%+v, %v, %d kept", r, err, len(f.kept))
		}
		if err := <-slow; err == nil {
			t.Error("the slow one was not cut short")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		if r, err := a.Run(ctx); err != nil || r.Whole || r.Problem == "" || len(f.kept) != 2 {
			t.Errorf("the time was over: %+v, %v", r, err)
		}
	})
}

// A report lists at most MaxFindings findings.
func TestAudit_ReportsSoMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newAudited()
		f.steps[""] = job.Scanned{Found: make([]job.Finding, 10*job.MaxFindings)}
		r, err := f.audit().Run(t.Context())
		if err != nil || len(r.Findings) != job.MaxFindings || r.Totals[0].Count != 10*job.MaxFindings {
			t.Errorf("%d findings, %v, %v", len(r.Findings), r.Totals, err)
		}
	})
}
