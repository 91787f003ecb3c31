package telemetry

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/job"
)

func TestMetricsCountWhatHappens(t *testing.T) {
	t.Attr("proves", "S1-E7 S2-P14")
	m := measured()
	for _, how := range submits {
		m.Submitted(job.Paid, how)
	}
	m.Submitted(job.Unpaid, Accepted)
	m.Started(first(job.Paid), 300*time.Millisecond)
	m.Started(first(job.Paid), -1) // the claim of a retry is not counted
	for _, how := range append(slices.Clone(attempts), "FAILED", "NO_SUCH_WORD") {
		m.Ended(first(job.Paid), how, job.PermanentError, 2*time.Second)
	}
	m.Ended(first(job.Public), "FAILED", "SOMETHING_NEW", time.Second)
	m.Ended(first(job.Unpaid), "CANCELLED", "", 0) // the handler never began
	m.Cancelled(job.Public)
	m.Expired(job.Public)
	m.Recovered(job.Public, job.Crashed, job.OK)
	m.Recovered(job.Public, job.Crashed, job.Suspect)
	m.Recovered(job.Public, job.Stuck, job.Discarded)
	m.Recovered("", job.Stuck, job.WasCancelled)
	m.Recovered("", job.Stuck, job.Quarantined)
	m.RedisOp("claim", 3*time.Millisecond)
	m.Missing(0)
	m.Missing(7)
	for _, why := range append(slices.Clone(job.MissedReasons), "", "SOMETHING_NEW") {
		m.Occurred(why, 2)
	}
	for name, want := range map[string]map[string]float64{
		"tierq_jobs_submitted_total": {
			"ACCEPTED PAID": 1, "REPLAYED PAID": 1, "QUEUE_FULL PAID": 1, "SYSTEM_UNHEALTHY PAID": 1, "OUTCOME_UNKNOWN PAID": 1,
			"RATE_LIMITED PAID": 1, "IDEMPOTENCY_MISMATCH PAID": 1, "ERROR PAID": 1, "ACCEPTED UNPAID": 1,
		},
		"tierq_jobs_finished_total": {
			"COMPLETED PAID": 1, "FAILED PAID": 2, "CANCELLED PAID": 1, "CANCELLED UNPAID": 1, "FAILED PUBLIC": 2,
			"EXPIRED PUBLIC":   1,
			"CANCELLED PUBLIC": 1, "CANCELLED other": 1,
		},
		"tierq_dead_letters_total": {"PERMANENT_ERROR PAID": 2, "OTHER PUBLIC": 1, "MAX_TIME_EXCEEDED PUBLIC": 1},
		"tierq_job_wait_seconds":   {"PAID": 1, "sum PAID": 0.3},
		"tierq_job_run_seconds": {
			"COMPLETED PAID": 1, "FAILED PAID": 2, "CANCELLED PAID": 1, "RETRIED PAID": 1, "RELEASED PAID": 1, "LOST PAID": 1,
			"FAILED PUBLIC":      1,
			"sum COMPLETED PAID": 2, "sum FAILED PAID": 4, "sum CANCELLED PAID": 2, "sum RETRIED PAID": 2,
			"sum RELEASED PAID": 2,
			"sum LOST PAID":     2, "sum FAILED PUBLIC": 1,
		},
		"tierq_recoveries_total": {
			"RETURNED HEARTBEAT_STOPPED": 1, "FAILED MAX_TIME_EXCEEDED": 1, "CANCELLED MAX_TIME_EXCEEDED": 1,
			"QUARANTINED MAX_TIME_EXCEEDED": 1,
		},
		"tierq_redis_op_seconds":         {"claim": 1, "sum claim": 0.003},
		"tierq_redis_missing_jobs_total": {"": 7},
		"tierq_schedule_occurrences_total": {
			"FIRED ": 2, "MISSED DOWN": 2, "MISSED GATE": 2, "MISSED PAUSED": 2, "MISSED FULL": 2, "MISSED QUOTA": 2,
			"MISSED OVERLAP": 2, "MISSED INVALID": 2,
		},
	} {
		if diff := cmp.Diff(want, nonzero(values(t, m, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestGaugesAreTheLatestSnapshot(t *testing.T) {
	t.Attr("proves", "S2-P19")
	m := measured()
	if got := values(t, m, "tierq_gate_open"); len(got) != 0 {
		t.Errorf("before the first snapshot nothing is known, and yet: %v", got)
	}
	m.SetSnapshot(Snapshot{GateOpen: true})
	m.SetSnapshot(Snapshot{
		Cluster: &Cluster{
			Tiers: map[job.Tier]Level{
				job.Paid: {Depth: 5, Scheduled: 2, InFlight: 3, OldestAge: 90 * time.Second}, job.Public: {},
				"GONE": {Depth: 1, OldestAge: time.Second}, "LOST": {Depth: 2, OldestAge: time.Minute},
				"PAST": {OldestAge: time.Second},
			},
			CapacityUsed: 7, CapacityLimit: 10_000, Outbox: 4, OutboxBytes: 4096,
			Workers: []job.WorkerInfo{{Slots: 16, Running: 4, Stuck: 1}, {Slots: 2, Running: 2, Stuck: 3}},
			Queues:  []QueueLevel{{Name: "main", Workers: 2}, {Name: "mails"}},
		},
		Paused:       map[string]time.Duration{"tier:PUBLIC": time.Minute},
		Slots:        []SlotLevel{{Tiers: "PAID", Busy: 1, Free: 3}, {Busy: 12}},
		GateFailures: 2, SQLUp: true,
		Schedulers: map[string]time.Duration{"crashed": 6 * time.Second, "stuck": 120 * time.Second},
	})
	for name, want := range map[string]map[string]float64{
		"tierq_queue_depth":              {"PAID": 5, "PUBLIC": 0, "other": 3},
		"tierq_queue_oldest_age_seconds": {"PAID": 90, "PUBLIC": 0, "other": 60},
		"tierq_jobs_inflight":            {"PAID": 3, "PUBLIC": 0, "other": 0},
		"tierq_jobs_scheduled":           {"PAID": 2, "PUBLIC": 0, "other": 0},
		"tierq_queue_workers":            {"main": 2, "mails": 0},
		"tierq_paused_seconds":           {"tier:PUBLIC": 60},
		"tierq_slots":                    {"own busy PAID": 1, "own free PAID": 3, "common busy ": 12, "common free ": 0},
		"tierq_capacity_used":            {"": 7},
		"tierq_capacity_limit":           {"": 10_000},
		"tierq_outbox_jobs":              {"": 4},
		"tierq_outbox_bytes":             {"": 4096},
		"tierq_workers": {"process alive": 2, "slot running": 5, "slot stuck": 4, "slot wedged": 1,
			"slot free": 12},
		"tierq_gate_open":               {"": 0},
		"tierq_gate_failures":           {"": 2},
		"tierq_sql_up":                  {"": 1},
		"tierq_scheduler_delay_seconds": {"crashed": 6, "stuck": 120},
	} {
		if diff := cmp.Diff(want, values(t, m, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for range 20 { // for any order of the map's tiers
		if got := values(t, m, "tierq_queue_oldest_age_seconds")["other"]; got != 60 {
			t.Fatalf("the oldest age of the tiers without a plan is %v", got)
		}
	}
	if got := values(t, m, "tierq_jobs_finished_total"); len(got) != 12 || len(nonzero(got)) != 0 {
		t.Errorf("a tier's counters begin at 0, before its first job; got %v", got)
	}
}

// In an outage the gauges of Redis are absent instead of zero, while the instance's own gauges go on.
func TestGaugesOfTheClusterGoInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := measured()
		up := Snapshot{Cluster: &Cluster{Tiers: map[job.Tier]Level{job.Paid: {Depth: 5}}}, GateOpen: true}
		shown := func(what string, want int) {
			t.Helper()
			if got := values(t, m, "tierq_queue_depth"); len(got) != want {
				t.Errorf("%s: depth %v", what, got)
			}
			if got := values(t, m, "tierq_gate_open"); len(got) != 1 {
				t.Errorf("%s: gate %v", what, got)
			}
		}
		m.SetSnapshot(up)
		shown("up", 1)
		m.SetSnapshot(Snapshot{})
		shown("Redis did not answer", 0)
		m.SetSnapshot(up)
		<-time.After(stale)
		shown("nearly stale", 1)
		<-time.After(time.Second)
		shown("nobody measures any more", 0)
	})
}

func TestLabelsAreBounded(t *testing.T) {
	m := measured()
	for i := range 500 {
		m.Submitted(job.Tier("T"+strconv.Itoa(i)), Accepted)
		m.RedisOp("op"+strconv.Itoa(i), time.Millisecond)
	}
	if got := nonzero(values(t, m, "tierq_jobs_submitted_total")); len(got) != 1 || got["ACCEPTED other"] != 500 {
		t.Errorf("tiers without a plan: %v", got)
	}
	if got := values(t, m, "tierq_redis_op_seconds"); len(got) > 2*(maxOps+1) || got["other"] != 500-maxOps {
		t.Errorf("%d operations, other %v", len(got)/2, got["other"])
	}
	var plans []job.Plan
	for i := range 500 {
		plans = append(plans, job.Plan{Tier: job.Tier("T" + strconv.Itoa(i))})
	}
	m.plans.Set(plans)
	for i := range 500 {
		m.Started(first(job.Tier("T"+strconv.Itoa(i))), time.Second)
	}
	if got := values(t, m, "tierq_job_wait_seconds"); len(got) > 2*(maxTiers+1) || got["T0"] != 1 || got["other"] == 0 {
		t.Errorf("%d tiers, T0 %v, other %v", len(got)/2, got["T0"], got["other"])
	}
}

func TestRecordingAllocatesNothing(t *testing.T) {
	m := measured()
	l := first(job.Paid)
	if n := testing.AllocsPerRun(100, func() {
		m.Submitted(job.Paid, Accepted)
		m.Started(l, time.Second)
		m.Ended(l, "COMPLETED", "", time.Second)
		m.Ended(l, "FAILED", job.HandlerError, time.Second)
		m.RedisOp("claim", time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNilMetricsDoNothing(*testing.T) {
	var m *Metrics
	m.Submitted(job.Paid, Accepted)
	m.Started(first(job.Paid), time.Second)
	m.Ended(first(job.Paid), "COMPLETED", "", time.Second)
	m.Cancelled(job.Paid)
	m.Recovered(job.Paid, job.Crashed, job.OK)
	m.RedisOp("claim", time.Second)
	m.Missing(1)
	m.SetSnapshot(Snapshot{})
}

func TestSubmitOf(t *testing.T) {
	for _, tc := range []struct {
		a    job.Accepted
		err  error
		want Submit
	}{
		{job.Accepted{ID: "x"}, nil, Accepted},
		{job.Accepted{ID: "x", Replayed: true}, nil, Replayed},
		{job.Accepted{}, fmt.Errorf("submit: %w", job.ErrQueueFull), QueueFull},
		{job.Accepted{}, job.ErrUnhealthy, SystemUnhealthy},
		{job.Accepted{ID: "x"}, job.ErrFateUnknown, OutcomeUnknown},
		{job.Accepted{}, job.ErrMismatch, IdempotencyMismatch},
		{job.Accepted{}, errors.New("anything"), SubmitError},
	} {
		if got := SubmitOf(tc.a, tc.err); got != tc.want {
			t.Errorf("%v, %v: %s, want %s", tc.a, tc.err, got, tc.want)
		}
	}
}

// Every cause of package job has a label: otherwise it would be counted as OTHER.
func TestEveryCauseHasItsLabel(t *testing.T) {
	files, err := filepath.Glob("../job/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); !ok || typ.Name != "Cause" {
				return true
			}
			for _, value := range v.Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil || !slices.Contains(causes, job.Cause(text)) {
					t.Errorf("cause %q has no label (%v)", text, err)
				}
				found++
			}
			return true
		})
	}
	if found < 6 {
		t.Errorf("found %d causes only", found)
	}
}
