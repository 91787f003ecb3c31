package queue_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// Redis lost its latest writes, and a job waits whose outcome SQL has. The audit ends the job as SQL says, without
// another attempt. Another generation of it goes on.
func TestAuditEndsWhatSQLHas(t *testing.T) {
	t.Attr("proves", "F17 F19")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		done, dead, gone, late := e.Put(t, job.Paid), e.Put(t, job.Unpaid), later(job.Public, time.Hour), e.Put(t, job.Public)
		gone.Owner = "ann"
		e.PutAll(t, gone)
		running := e.Take(t, 1)[0] // the job done is the best: it runs again, and the audit leaves it alone
		retried := e.Start(t, job.Paid)
		if _, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: retried.Ref()}}); err != nil {
			t.Fatal(err)
		}
		sql := map[job.ID][]job.Recorded{
			done:    {{Generation: 1, Status: job.Completed}},
			dead:    {{Generation: 1, Status: job.Failed}, {Generation: 2, Status: job.Completed}},
			gone.ID: {{Generation: 1, Status: job.Cancelled}}, late: {{Generation: 11, Status: job.Completed}},
			retried.ID: {{Generation: 1, Status: job.Completed}},
		}
		got := kinds(pass(t, e.Queue, func(id job.ID) []job.Recorded { return sql[id] }))
		if got != "REPAIRED overtaken, REPAIRED overtaken, REPAIRED overtaken" {
			t.Errorf("found %q", got)
		}
		s := e.Snapshot(t)
		for id, want := range map[job.ID]job.Status{done: job.Processing, dead: job.NeedDiscard, gone.ID: job.Cancelled,
			late: job.Pending, retried.ID: job.Completed} {
			same(t, string(id), s.State(id), want)
		}
		owners(t, e, "overtaken", map[string]int64{})
		same(t, "drained", len(e.Drain(t)), 3)
		e.Finish(t, running)
	})
}

// An outbox entry without a job is removed if SQL says that the job has ended for good. It is quarantined if the
// job may have been requeued.
func TestAuditAsksSQLAboutEntries(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		completed, failed := queuetest.NewID(0), queuetest.NewID(0)
		sql := map[job.ID][]job.Recorded{
			completed: {{Generation: 1, Status: job.Failed}, {Generation: 2, Status: job.Completed}},
			failed:    {{Generation: 1, Status: job.Failed}},
		}
		for _, id := range []job.ID{completed, failed} {
			e.Redis.ZAdd(t.Context(), queue.Key(0, "outbox"), redis.Z{Score: 1, Member: string(id)})
		}
		found := pass(t, e.Queue, func(id job.ID) []job.Recorded { return sql[id] })
		if got := kinds(found); got != "QUARANTINED no_job, REPAIRED misplaced" {
			t.Errorf("found %v", found)
		}
		items, total, err := e.Quarantined(t.Context(), 10)
		if err != nil || total != 1 || len(items) != 1 || items[0].ID != failed || items[0].There ||
			time.Since(items[0].Since).Abs() > time.Minute {
			t.Errorf("quarantine: %+v of %d, %v", items, total, err)
		}
		sql[failed] = append(sql[failed], job.Recorded{Generation: 2, Status: job.Cancelled})
		if got := kinds(pass(t, e.Queue, func(id job.ID) []job.Recorded { return sql[id] })); got != "REPAIRED misplaced" {
			t.Errorf("once SQL knows more: %q", got)
		}
	})
}

// If a partition has more jobs than one step may count, the audit compares the counters with the sets' sizes. A
// walk meets each job.
func TestAuditOfManyJobs(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Capacity, o.Partitions = 20_000, 2 },
		func(t *testing.T, e *queuetest.Env) {
			n := 10_000
			if e.Backend == "miniredis" { // each step of this backend sorts a whole set
				n = 2_400
			}
			for range n / 100 {
				for p := range 2 {
					batch := make([]job.Submission, 50)
					for i := range batch {
						batch[i] = queuetest.Job(job.Public)
						batch[i].ID = queuetest.NewID(p)
					}
					if _, err := e.Submit(t.Context(), p, batch); err != nil {
						t.Fatal(err)
					}
				}
			}
			met := map[job.ID]bool{}
			began := time.Now()
			if found := pass(t, e.Queue, func(id job.ID) []job.Recorded { met[id] = true; return nil }); found != nil {
				t.Fatalf("found %v", found)
			}
			t.Logf("evidence: a pass over %d jobs took %s", n, time.Since(began))
			same(t, "jobs that SQL was asked about", len(met), n)
			e.Redis.HIncrBy(t.Context(), queue.Key(1, "counters"), "PUBLIC:ready", 7)
			e.Broken(t, "counter PUBLIC:ready")
			if got := fmt.Sprint(pass(t, e.Queue,
				unasked)); got != fmt.Sprintf("[{ 1 REPORTED counter ready (all) was %d, counted %d}]", n/2+7, n/2) {
				t.Errorf("found %s", got)
			}
		})
}

func TestAuditReportIsKept(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		if _, err := e.LastAudit(t.Context()); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("before the first: %v", err)
		}
		r := job.AuditReport{StartedAt: e.View.Now().Truncate(time.Microsecond), By: "me", Looks: 3, Whole: true,
			Findings: []job.Finding{{Partition: 1, Kind: "ttl"}}}
		if err := e.KeepAudit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got, err := e.LastAudit(t.Context()); err != nil || fmt.Sprint(got) != fmt.Sprint(r) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := e.Scan(t.Context(), "set 99 0 0"); err == nil {
			t.Error("a cursor of no walk is taken")
		}
		e.Redis.Del(t.Context(), "{tierq}:audit")
	})
}
