package archive_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/job"
)

// endAs records outcomes of jobs that have rows, by name.
func endAs(t *testing.T, a *archive.Archive, w *archive.Writer, ends map[string]job.Status) {
	t.Helper()
	rows := flowRowsOf(t, a)
	var outcomes []job.Outcome
	for name, status := range ends {
		row, there := rows[name]
		if !there {
			t.Fatalf("%s has no row", name)
		}
		outcomes = append(outcomes, ending(&row, status))
	}
	record(t, w, outcomes...)
}

func wantStatuses(t *testing.T, a *archive.Archive, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, statuses(t, a)); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// A flow that was made before is found by its key, and nothing of the second one is written.
func TestFlowOnce(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		jobs := []job.FlowJob{flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a")}
		f := job.Flow{ID: flowID, CreatedAt: flowTime, Jobs: jobs, Request: job.Idempotency{Key: "key", Body: "body"}}
		contents := []string{"1", "2"}
		first, released, err := s.CreateFlow(t.Context(), &f, contents)
		if err != nil || first != nil || len(released) != 1 || released[0].ID != jobs[0].ID {
			t.Fatal(first, released, err)
		}
		other := f
		other.ID = "019de340-01fe-7a58-be69-567cd7d6b7ff"
		for _, again := range []*job.Flow{&f, &other} {
			first, released, err = s.CreateFlow(t.Context(), again, contents)
			if err != nil || first == nil || first.ID != flowID || first.Request != f.Request || len(released) != 0 {
				t.Error(first, released, err)
			}
		}
		if n, m := s.Count(t, "flows"), s.Count(t, "flow_jobs"); n != 1 || m != 2 {
			t.Errorf("%d flows, %d jobs", n, m)
		}
	})
}

// A job that waits ends CANCELLED when it or its flow is cancelled; what was released is left to Redis.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"),
			flowJob("c", job.FlowCancels, "b"), flowJob("d", job.FlowRuns, "b"), flowJob("e", job.FlowWaits, "a"))
		id := func(name string) job.ID { return job.FlowJobID(flowID, name, 0) }
		done, released, err := a.CancelWaiting(t.Context(), id("b"), flowTime)
		if err != nil || !done || len(released) != 1 || released[0].ID != id("d") {
			t.Fatal(done, released, err)
		}
		wantStatuses(t, a, map[string]string{"": "RUNNING", "a": "PENDING", "b": "CANCELLED", "c": "CANCELLED",
			"d": "PENDING", "e": "WAITING"})
		for _, name := range []string{"a", "b", "c"} { // released, cancelled, cancelled by the flow
			if done, _, err := a.CancelWaiting(t.Context(), id(name), flowTime); err != nil || done {
				t.Errorf("%s is cancelled: %v, %v", name, done, err)
			}
		}
		reasons, err := a.Reasons(t.Context(), id("c"))
		if err != nil || len(reasons) != 1 || reasons[0].Text != "DEPENDENCY_FAILED: b ended CANCELLED" {
			t.Errorf("reasons %v, %v", reasons, err)
		}
		if j, err := a.FlowJob(t.Context(), id("c")); err != nil || j.Cause != job.DependencyFailed {
			t.Errorf("cause %q, %v", j.Cause, err)
		}
		living, err := a.CancelFlow(t.Context(), flowID, "not needed", flowTime)
		slices.Sort(living)
		want := []job.ID{id("a"), id("d")}
		slices.Sort(want)
		if err != nil || !slices.Equal(living, want) {
			t.Errorf("living %v, %v", living, err)
		}
		endAs(t, a, w, map[string]job.Status{"a": job.Cancelled, "d": job.Completed})
		wantStatuses(t, a, map[string]string{"": "CANCELLED", "a": "CANCELLED", "b": "CANCELLED", "c": "CANCELLED",
			"d": "COMPLETED", "e": "CANCELLED"})
	})
}

// A running job adds jobs below its name. A repeat adds nothing, and what waits for all of them waits.
func TestAddFlowJobs(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		createFlow(t, a, flowJob("split", job.FlowCancels), flowJob("join", job.FlowCancels, "split/*"))
		by := job.FlowJobID(flowID, "split", 0)
		parts := []job.FlowJob{flowJob("split/1", job.FlowCancels), flowJob("split/2", job.FlowCancels, "split/1")}
		for _, first := range []bool{true, false} {
			released, err := a.AddFlowJobs(t.Context(), flowID, by, parts, []string{"1", "2"}, flowTime)
			if err != nil || first != (len(released) == 1) {
				t.Fatal(released, err)
			}
		}
		for want, add := range map[error]func() ([]job.JournalRow, error){
			job.ErrFlowName: func() ([]job.JournalRow, error) {
				return a.AddFlowJobs(t.Context(), flowID, by, parts, []string{"1", "3"}, flowTime)
			},
			job.ErrNotFound: func() ([]job.JournalRow, error) {
				return a.AddFlowJobs(t.Context(), flowID, flowID, parts, []string{"1", "2"}, flowTime)
			},
			job.ErrFlowNotFound: func() ([]job.JournalRow, error) {
				return a.AddFlowJobs(t.Context(), by, by, parts, []string{"1", "2"}, flowTime)
			},
		} {
			if released, err := add(); !errors.Is(err, want) || len(released) != 0 {
				t.Errorf("%v instead of %v", err, want)
			}
		}
		var about *job.FlowError
		loop := []job.FlowJob{flowJob("split/3", job.FlowCancels, "join")}
		if _, err := a.AddFlowJobs(t.Context(), flowID, by, loop, []string{"4"}, flowTime); !errors.As(err, &about) {
			t.Errorf("a circle: %v", err)
		}
		endAs(t, a, w, map[string]job.Status{"split": job.Completed})
		_, err := a.AddFlowJobs(t.Context(), flowID, by, loop, []string{"4"}, flowTime)
		if !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("a job that has ended adds: %v", err)
		}
		wantStatuses(t, a, map[string]string{"": "RUNNING", "split": "COMPLETED", "split/1": "PENDING",
			"split/2": "WAITING", "join": "WAITING"})
		endAs(t, a, w, map[string]job.Status{"split/1": job.Completed})
		endAs(t, a, w, map[string]job.Status{"split/2": job.Completed})
		join := job.FlowJobID(flowID, "join", 0)
		inputs, err := a.FlowInputs(t.Context(), join, "")
		var got []string
		for _, in := range inputs {
			got = append(got, in.Name+" "+string(in.Status)+" "+string(in.Result))
		}
		want := []string{"split", "split/1", "split/2"}
		for i, name := range want {
			want[i] = name + ` COMPLETED {"made":"` + string(job.FlowJobID(flowID, name, 0)) + `"}`
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("inputs %q, %v", got, err)
		}
		if _, err := a.FlowInputs(t.Context(), join, "join"); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("a job reads what it did not wait for: %v", err)
		}
		if one, err := a.FlowInputs(t.Context(), join, "split"); err != nil || len(one) != 1 || one[0].Name != "split" {
			t.Errorf("%v, %v", one, err)
		}
		endAs(t, a, w, map[string]job.Status{"join": job.Completed})
		wantStatuses(t, a, map[string]string{"": "COMPLETED", "split": "COMPLETED", "split/1": "COMPLETED",
			"split/2": "COMPLETED", "join": "COMPLETED"})
	})
}

// The check finds and repairs what an edit by hand broke, and finds nothing else.
func TestCheckFlows(t *testing.T) {
	t.Parallel()
	edits := map[string]struct{ statement, status, finding string }{
		"a lost row": {"DELETE FROM accepted_jobs", "PENDING", "neither a journal row nor an outcome"},
		"an outcome unheard of": {"UPDATE flow_jobs SET status = 'PENDING' WHERE name = 'a'", "PENDING",
			"did not know that the job ended COMPLETED"},
		"a job that waits for nothing": {"UPDATE flow_jobs SET status = 'WAITING' WHERE name = 'b'", "PENDING",
			"nothing was left to wait for"},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
				a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
				createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"))
				endAs(t, a, w, map[string]job.Status{"a": job.Completed})
				if found, _, _, err := a.CheckFlows(t.Context(), "", 10, flowTime); err != nil || len(found) != 0 {
					t.Fatal(found, err)
				}
				execute(t, s.DB, edit.statement)
				found, _, _, err := a.CheckFlows(t.Context(), "", 10, flowTime)
				if err != nil || len(found) != 1 || !strings.Contains(found[0].Detail, edit.finding) ||
					found[0].Result != job.Repaired || found[0].Kind != "flow" {
					t.Errorf("found %v, %v", found, err)
				}
				wantStatuses(t, a, map[string]string{"": "RUNNING", "a": "COMPLETED", "b": edit.status})
				if rows := flowRowsOf(t, a); len(rows) != 1 || string(rows["b"].Payload) != `{"of":"b"}` {
					t.Errorf("rows %v", rows)
				}
				if found, _, _, err := a.CheckFlows(t.Context(), "", 10, flowTime); err != nil || len(found) != 0 {
					t.Errorf("it finds its own repair: %v, %v", found, err)
				}
			})
		})
	}
}

// While a flow has not ended, retention keeps its jobs; then flow and jobs go, each by its own age.
func TestFlowRetention(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"))
		endAs(t, a, w, map[string]job.Status{"a": job.Completed})
		old := []job.OldJob{{ID: job.FlowJobID(flowID, "a", 0), Generation: 1}}
		for name, free := range map[string]func() ([]job.OldJob, error){
			"before": func() ([]job.OldJob, error) { return a.UnneededJobs(t.Context(), old) },
		} {
			if some, err := free(); err != nil || len(some) != 0 {
				t.Errorf("%s: %v, %v", name, some, err)
			}
		}
		if n, err := a.DeleteFlows(t.Context(), 0); err != nil || n != 0 {
			t.Errorf("a living flow is deleted: %d, %v", n, err)
		}
		endAs(t, a, w, map[string]job.Status{"b": job.Completed})
		if some, err := a.UnneededJobs(t.Context(), old); err != nil || len(some) != 1 {
			t.Errorf("%v, %v", some, err)
		}
		if n, err := a.DeleteFlows(t.Context(), time.Hour); err != nil || n != 0 {
			t.Errorf("a young flow is deleted: %d, %v", n, err)
		}
		if n, err := a.DeleteFlows(t.Context(), 0); err != nil || n != 3 {
			t.Errorf("%d rows are deleted, %v", n, err)
		}
	})
}

// Lists have flows and WAITING jobs of their owners, page by page.
func TestFlowLists(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a := s.Archive
		createFlow(t, a, flowJob("a", job.FlowCancels), flowJob("b", job.FlowCancels, "a"),
			flowJob("c", job.FlowCancels, "a"))
		mine, other := "key-1", "key-2"
		flows, next, err := a.Flows(t.Context(), job.FlowFilter{Owner: &mine, State: job.FlowRunning}, "", 10)
		if err != nil || next != "" || len(flows) != 1 ||
			flows[0].Counts[job.Waiting] != 2 || flows[0].Counts[job.Pending] != 1 {
			t.Errorf("%+v, %q, %v", flows, next, err)
		}
		if flows, _, err := a.Flows(t.Context(), job.FlowFilter{Owner: &other}, "", 10); err != nil || len(flows) != 0 {
			t.Errorf("%v, %v", flows, err)
		}
		if flows, _, err := a.Flows(t.Context(), job.FlowFilter{JobID: job.FlowJobID(flowID, "b", 0)}, "", 10); err != nil ||
			len(flows) != 1 {
			t.Errorf("%v, %v", flows, err)
		}
		var got []job.ID
		for cursor := ""; ; {
			items, next, err := a.WaitingJobs(t.Context(),
				job.Filter{Owner: &mine, Tier: job.Paid, Type: "STEP", TraceID: "trace-1"},
				cursor, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range items {
				got = append(got, items[i].ID)
				if items[i].Status != job.Waiting || !items[i].ArrivedAt.Equal(flowTime) {
					t.Errorf("%+v", items[i])
				}
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(got) != 2 || got[0] < got[1] {
			t.Errorf("waiting %v", got)
		}
		if _, _, err := a.Flows(t.Context(), job.FlowFilter{}, "x", 1); !errors.Is(err, job.ErrBadCursor) {
			t.Errorf("%v", err)
		}
	})
}

// A fan-in of many jobs: what its transactions cost is logged.
func TestWideFlow(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		jobs := []job.FlowJob{flowJob("join", job.FlowCancels, "root/*"), flowJob("root", job.FlowCancels)}
		for i := range job.MaxFlowJobs - 2 {
			jobs = append(jobs, flowJob(fmt.Sprintf("root/%d", i), job.FlowCancels, "root"))
		}
		began := time.Now()
		createFlow(t, a, jobs...)
		made := time.Since(began)
		began = time.Now()
		endAs(t, a, w, map[string]job.Status{"root": job.Completed})
		released := time.Since(began)
		rows := flowRowsOf(t, a)
		var one []time.Duration
		for i := range 20 {
			row, at := rows[fmt.Sprintf("root/%d", i)], time.Now()
			record(t, w, ending(&row, job.Completed))
			one = append(one, time.Since(at))
			delete(rows, fmt.Sprintf("root/%d", i))
		}
		slices.Sort(one)
		var rest []job.Outcome
		for _, row := range rows {
			rest = append(rest, ending(&row, job.Completed))
		}
		began = time.Now()
		record(t, w, rest...)
		t.Logf("made in %s, %d released in %s, one end %s, %d ends %s", made, len(rows)+20, released, one[len(one)/2],
			len(rest), time.Since(began))
		if rows := flowRowsOf(t, a); len(rows) != 1 || rows["join"].ID == "" {
			t.Errorf("rows %d", len(rows))
		}
	})
}

// Two processes record the ends of the two jobs that a third waits for, at the same time: it is released each time.
func TestFlowEndsRace(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const joins = 40
		var jobs []job.FlowJob
		for i := range joins {
			a, b, join := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("join%d", i)
			jobs = append(jobs, flowJob(a, job.FlowCancels), flowJob(b, job.FlowCancels), flowJob(join, job.FlowCancels, a, b))
		}
		createFlow(t, s.Archive, jobs...)
		writers := map[string]*archive.Writer{
			"a": start(t, s.Archive, &redis{}, archive.WriterOptions{}),
			"b": start(t, s.Beside(t), &redis{}, archive.WriterOptions{}),
		}
		rows := flowRowsOf(t, s.Archive)
		for i := range joins {
			done := make(chan error, len(writers))
			for name, w := range writers {
				row := rows[fmt.Sprint(name, i)]
				go func() { done <- w.Record(t.Context(), []job.Outcome{ending(&row, job.Completed)}) }()
			}
			for range writers {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
		}
		rows = flowRowsOf(t, s.Archive)
		if len(rows) != joins || rows["join0"].ID == "" {
			t.Errorf("%d jobs are released, want %d", len(rows), joins)
		}
	})
}

// The time by which a worker must claim a released job counts from its release, or is the time that the submit named.
// The job's row has that time and the unique key, for restore.lua.
func TestFlowExpiry(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		a, w := s.Archive, start(t, s.Archive, &redis{}, archive.WriterOptions{})
		in, at := flowJob("in", job.FlowCancels, "a"), flowJob("at", job.FlowCancels, "a")
		none := flowJob("none", job.FlowCancels, "a")
		in.ExpiresIn, at.ExpiresMs = 1500*time.Millisecond, flowTime.Add(time.Hour).UnixMilli()
		in.Unique = job.Unique("0123456789abcdef0123456789abcdef", job.WhileLiving)
		createFlow(t, a, flowJob("a", job.FlowCancels), in, at, none)
		endAs(t, a, w, map[string]job.Status{"a": job.Completed})
		rows := flowRowsOf(t, a)
		for name, want := range map[string]int64{
			"in": flowTime.Add(time.Minute + 1500*time.Millisecond).UnixMilli(), "at": at.ExpiresMs, "none": 0,
		} {
			if got := rows[name].ExpiresMs; got != want {
				t.Errorf("%s expires at %d instead of %d", name, got, want)
			}
		}
		if rows["in"].Unique != in.Unique || rows["in"].UniqueHash() == "" {
			t.Errorf("the row has the unique key %q", rows["in"].Unique)
		}
		endAs(t, a, w, map[string]job.Status{"in": job.Expired, "at": job.Completed, "none": job.Completed})
		if f, err := a.Flow(t.Context(), flowID); err != nil || f.State != job.FlowFailed {
			t.Errorf("%+v, %v", f, err)
		}
	})
}
