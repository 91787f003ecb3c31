package archive_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

const flowID = job.ID("019de340-01fe-7a58-be69-567cd7d6b700")

var flowTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// flowJob returns a job of the flow flowID, before the flow is created.
func flowJob(name string, onFailure job.OnFailure, after ...string) job.FlowJob {
	return job.FlowJob{
		Job: job.Job{
			ID: job.FlowJobID(flowID, name, 0), Generation: 1, Tier: job.Paid, Type: "STEP", Owner: "key-1", TraceID: "trace-1",
			MaxRetries: 2, Status: job.Waiting, Payload: []byte(`{"of":"` + name + `"}`), Options: job.Options{Flow: flowID},
		},
		Flow: flowID, Name: name, After: after, OnFailure: onFailure, Priority: 3,
	}
}

func createFlow(t *testing.T, a *archive.Archive, jobs ...job.FlowJob) []job.JournalRow {
	t.Helper()
	contents := make([]string, len(jobs))
	for i := range jobs {
		contents[i] = fmt.Sprintf("%032d", len(jobs[i].Payload))
	}
	f := &job.Flow{ID: flowID, Name: "test", Owner: "key-1", TraceID: "trace-1", CreatedAt: flowTime, Jobs: jobs}
	first, released, err := a.CreateFlow(t.Context(), f, contents)
	if err != nil || first != nil {
		t.Fatalf("%v, %v", first, err)
	}
	return released
}

// ending returns the outcome of a journal row's job.
func ending(r *job.JournalRow, status job.Status) job.Outcome {
	o := job.Outcome{Job: r.Job}
	o.Status, o.Attempt, o.EndedAt = status, o.Attempt+1, flowTime.Add(time.Minute)
	switch status {
	case job.Completed:
		o.Result = []byte(`{"made":"` + string(r.ID) + `"}`)
	case job.Failed:
		o.Cause, o.LastError = job.HandlerError, "no"
	}
	return o
}

// statuses returns the statuses of the flow's jobs by name, and the flow's state under "".
func statuses(t *testing.T, a *archive.Archive) map[string]string {
	t.Helper()
	f, err := a.Flow(t.Context(), flowID)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"": string(f.State)}
	for i := range f.Jobs {
		all[f.Jobs[i].Name] = string(f.Jobs[i].Status)
	}
	return all
}

// flowRowsOf returns the journal rows by the names of the flow's jobs.
func flowRowsOf(t *testing.T, a *archive.Archive) map[string]job.JournalRow {
	t.Helper()
	f, err := a.Flow(t.Context(), flowID)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]job.JournalRow{}
	for _, r := range promised(t, a) {
		for i := range f.Jobs {
			if f.Jobs[i].ID == r.ID {
				all[f.Jobs[i].Name] = r
			}
		}
	}
	return all
}

// Random flows end as an independent model says, and each job is released after all that it waits for has ended. Two
// writers record the outcomes, some of them twice; then the failed jobs are requeued with what was cancelled because of
// them.
func TestRandomFlows(t *testing.T) {
	t.Parallel()
	size, seeds := 60, uint64(3)
	if longFlows {
		size, seeds = 200, 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) { randomFlow(t, s, seed, size) })
		})
	}
}

func randomFlow(t *testing.T, s *archivetest.Store, seed uint64, size int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 22))
	d := testkit.RandomDAG(r, size, true)
	var jobs []job.FlowJob
	for _, j := range d.Jobs {
		jobs = append(jobs, flowJob(j.Name, job.OnFailure(j.OnFailure), j.After...))
	}
	writers := []*archive.Writer{
		start(t, s.Archive, &redis{}, archive.WriterOptions{}),
		start(t, s.Beside(t), &redis{}, archive.WriterOptions{}),
	}
	createFlow(t, s.Archive, jobs...)
	run := &flowRun{t: t, s: s, d: d, r: r, writers: writers, runs: map[string]int{}}
	run.all()
	want := d.Ends(testkit.DAGEnds{})
	run.compare("at first", want.Status)
	for round := range 20 {
		if !run.requeue(fmt.Sprint("request-", round)) {
			break
		}
		run.all()
		want = d.Ends(want)
		run.compare(fmt.Sprint("after requeue ", round), want.Status)
	}
	if n := s.Count(t, "accepted_jobs"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if found, _, _, err := s.CheckFlows(t.Context(), "", 100, flowTime); err != nil || len(found) > 0 {
		t.Errorf("the check finds %v, %v", found, err)
	}
	twice := "(SELECT r.job_id FROM job_results r JOIN job_outcomes o ON o.job_id = r.job_id AND " +
		"o.generation = r.generation) AS twice"
	if n := s.Count(t, twice); n != 0 {
		t.Errorf("%d generations have two outcomes", n)
	}
}

// flowRun runs the jobs of a flow that have journal rows.
type flowRun struct {
	t       *testing.T
	s       *archivetest.Store
	d       *testkit.DAG
	r       *rand.Rand
	writers []*archive.Writer
	runs    map[string]int
}

// all runs jobs until none has a row.
func (f *flowRun) all() {
	f.t.Helper()
	for {
		rows := flowRowsOf(f.t, f.s.Archive)
		if len(rows) == 0 {
			return
		}
		f.ordered(rows)
		names := slices.Sorted(maps.Keys(rows))
		f.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		parts := [2][]job.Outcome{}
		for _, name := range names[:1+f.r.IntN(len(names))] {
			row, status := rows[name], job.Status(f.d.Fate(name))
			if f.runs[name]++; f.runs[name] > 1 && status == job.Failed {
				status = job.Completed
			}
			o, w := ending(&row, status), f.r.IntN(2)
			parts[w] = append(parts[w], o)
			if f.r.IntN(4) == 0 {
				parts[1-w] = append(parts[1-w], o)
			}
		}
		done := make(chan error, 2)
		for i, w := range f.writers {
			go func() { done <- w.Record(context.Background(), parts[i]) }()
		}
		for range f.writers {
			if err := <-done; err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// ordered checks that what has a row waits for nothing, and has the flow's arrival.
func (f *flowRun) ordered(rows map[string]job.JournalRow) {
	f.t.Helper()
	now := statuses(f.t, f.s.Archive)
	for i := range f.d.Jobs {
		j := &f.d.Jobs[i]
		row, released := rows[j.Name]
		if !released {
			continue
		}
		if row.Generation == 1 && (!row.ArrivedAt.Equal(flowTime) || row.Priority != 3 || row.Flow != flowID ||
			string(row.Payload) != `{"of":"`+j.Name+`"}`) {
			f.t.Errorf("%s is released as %+v", j.Name, row)
		}
		for _, parent := range f.d.Parents(j) {
			if s := job.Status(now[parent]); !s.Ended() && row.Generation == 1 {
				f.t.Errorf("%s is released while %s is %s", j.Name, parent, s)
			}
		}
	}
}

func (f *flowRun) compare(when string, want map[string]string) {
	f.t.Helper()
	got := statuses(f.t, f.s.Archive)
	for name, status := range want {
		if got[name] != status {
			f.t.Errorf("%s, %s is %s instead of %s", when, name, got[name], status)
		}
	}
	for i := range f.d.Jobs {
		j := &f.d.Jobs[i]
		found, err := f.s.Find(f.t.Context(), job.FlowJobID(flowID, j.Name, 0))
		if errors.Is(err, job.ErrNotFound) || err == nil && got[j.Name] == "WAITING" && found.Status == job.Cancelled {
			found.Status = job.Waiting // perhaps again, in its next generation
		} else if err != nil {
			f.t.Fatal(err)
		}
		if string(found.Status) != want[j.Name] {
			f.t.Errorf("%s, SQL has %s of %s instead of %s", when, found.Status, j.Name, want[j.Name])
		}
	}
}

// requeue requeues all failed jobs with their dependants, and says whether there were any.
func (f *flowRun) requeue(request string) bool {
	f.t.Helper()
	letters, _, err := f.s.Dead(f.t.Context(), job.Filter{}, "", 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	var next []job.JournalRow
	for i := range letters {
		d, err := f.s.DeadLetter(f.t.Context(), letters[i].ID)
		if err != nil {
			f.t.Fatal(err)
		}
		next = append(next, d.Next(3))
	}
	if len(next) == 0 {
		return false
	}
	for range 2 { // the second call is a repeat
		mine, err := f.s.PromiseRequeues(f.t.Context(), next, job.Request{ID: request, Cascade: true})
		if err != nil || slices.Contains(mine, false) {
			f.t.Fatal(mine, err)
		}
	}
	return true
}
