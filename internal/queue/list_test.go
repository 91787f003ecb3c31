package queue_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// all reads a list to its end.
func all(t *testing.T, e *queuetest.Env, f job.Filter, limit int) []job.Job {
	t.Helper()
	var jobs []job.Job
	for cursor, pages := "", 0; ; pages++ {
		page, next, err := e.List(t.Context(), f, cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > limit || pages > 200 {
			t.Fatalf("page %d has %d jobs, %d wanted", pages, len(page), limit)
		}
		jobs = append(jobs, page...)
		if next == "" {
			return jobs
		}
		cursor = next
	}
}

// Every living job is in the list once, with every page size, also if many jobs have the same score. Filters
// select jobs.
func TestList(t *testing.T) {
	t.Attr("proves", "S4-E2 S1-E3")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 2 }, func(t *testing.T, e *queuetest.Env) {
		statuses := map[job.ID]job.Status{}
		for p := range 2 {
			var batch []job.Submission
			for i := range 90 {
				s := queuetest.Job([]job.Tier{job.Paid, job.Unpaid, job.Public}[i%3])
				s.TraceID = fmt.Sprint("trace-", i%7)
				s.ID, s.Type, s.Owner = queuetest.NewID(p), []string{"A", "B"}[i%2], []string{"", "own", "other"}[i%5%3]
				statuses[s.ID] = job.Pending
				if i%9 == 0 {
					s.Delay, statuses[s.ID] = time.Hour, job.Scheduled
				}
				batch = append(batch, s)
			}
			if _, err := e.Submit(t.Context(), p, batch); err != nil {
				t.Fatal(err)
			}
		}
		leases := e.Take(t, 12)
		for _, l := range leases {
			statuses[l.ID] = job.Processing
		}
		e.Finish(t, leases[0])
		statuses[leases[0].ID] = job.Completed
		waits := leases[1] // failed, with a retry later
		got, err := e.Fail(t.Context(), waits.ID.Partition(), []job.Failure{failure(waits, time.Hour)})
		ends(t, got, err, job.OK)
		statuses[waits.ID] = job.Scheduled
		if got := all(t, e, job.Filter{Status: job.Scheduled, Retrying: true}, 7); len(got) != 1 ||
			got[0].ID != waits.ID ||
			got[0].RunAt.IsZero() {
			t.Errorf("tried again later: %+v", got)
		}
		for _, limit := range []int{1, 7, 100} {
			found := map[job.ID]job.Status{}
			for _, j := range all(t, e, job.Filter{}, limit) {
				if _, twice := found[j.ID]; twice {
					t.Errorf("%s is listed twice", j.ID)
				}
				found[j.ID] = j.Status
				if (j.Status == job.Scheduled) == j.RunAt.IsZero() || j.Payload != nil || j.Result != nil || j.Tier == "" {
					t.Errorf("%+v", j)
				}
			}
			if fmt.Sprint(found) != fmt.Sprint(statuses) {
				t.Errorf("by %d: %d jobs, want %d", limit, len(found), len(statuses))
			}
		}
		own, none := "own", ""
		for _, j := range all(t, e, job.Filter{Owner: &own}, 7) {
			if j.Owner != own {
				t.Errorf("%s is of %q", j.ID, j.Owner)
			}
		}
		for _, f := range []job.Filter{{Owner: &own}, {Owner: &none, Type: "A"}, {Owner: &own, Status: job.Processing},
			{Status: job.Pending}, {Status: job.Processing, Tier: job.Paid}, {Type: "B"}, {TraceID: "trace-3"},
			{TraceID: "trace-3", Owner: &own}, {Tier: job.Paid, Status: job.Scheduled}, {Status: job.Completed}} {
			want := 0
			for _, j := range all(t, e, job.Filter{}, 100) {
				if f.Takes(&j) {
					want++
				}
			}
			got := all(t, e, f, 10)
			if len(got) != want || want == 0 || slices.ContainsFunc(got, func(j job.Job) bool { return !f.Takes(&j) }) {
				t.Errorf("%+v: %d jobs, want %d", f, len(got), want)
			}
		}
	})
}

func TestListBadCursor(t *testing.T) {
	t.Attr("proves", "A60")
	t.Parallel()
	queuetest.EachWith(t, func(*queue.Options) {}, func(t *testing.T, e *queuetest.Env) {
		id := string(e.Put(t, job.Paid))
		for _, cursor := range []string{"x", "0.0.1", "9.0.1." + id, "-1.0.1." + id, "0.1.1." + id, "0.0.NaN." + id,
			"0.0.1.*", "0.0.1." + id + ".", "0.0.1e999." + id} {
			if _, _, err := e.List(t.Context(), job.Filter{}, cursor, 10); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("%q: %v", cursor, err)
			}
		}
	})
}

// A page of an owner's list may end at another owner's job. The page's cursor reveals nothing about that job and
// is valid for this owner only.
func TestListOfAnOwnerTellsNoIDs(t *testing.T) {
	t.Attr("proves", "A01 A60")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		foreign := make([]job.Submission, 0, 1100)
		for range cap(foreign) {
			foreign = append(foreign, owned("eve", 0))
		}
		e.PutAll(t, foreign...)
		last := owned("ann", 0)
		e.PutAll(t, last)
		ann, bob := "ann", "bob"
		items, next, err := e.List(t.Context(), job.Filter{Owner: &ann}, "", 10)
		if err != nil || len(items) != 0 || next == "" {
			t.Fatalf("%d jobs, next %q, %v", len(items), next, err)
		}
		text, err := base64.RawURLEncoding.DecodeString(next)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range foreign {
			if strings.Contains(next+string(text), string(s.ID)) || strings.Contains(next+string(text), string(s.ID[14:])) {
				t.Fatalf("the cursor has %s", s.ID)
			}
		}
		for _, f := range []job.Filter{{Owner: &bob}, {}} {
			if _, _, err := e.List(t.Context(), f, next, 10); !errors.Is(err, job.ErrBadCursor) {
				t.Errorf("opened for %+v: %v", f, err)
			}
		}
		text[len(text)-1] ^= 1
		if _, _, err := e.List(t.Context(), job.Filter{Owner: &ann}, base64.RawURLEncoding.EncodeToString(text),
			10); !errors.Is(err, job.ErrBadCursor) {
			t.Errorf("changed in one bit: %v", err)
		}
		another := e.Process("another")
		items, next, err = another.View().List(t.Context(), job.Filter{Owner: &ann}, next, 10)
		if err != nil || len(items) != 1 || items[0].ID != last.ID || next != "" {
			t.Errorf("%d jobs, next %q, %v", len(items), next, err)
		}
	})
}

func TestAhead_Position(t *testing.T) {
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 2 }, func(t *testing.T, e *queuetest.Env) {
		put := func(partition int, tier job.Tier) job.ID {
			t.Helper()
			s := queuetest.Job(tier)
			s.ID = queuetest.NewID(partition)
			got, err := e.Words(t.Context(), partition, []job.Submission{s})
			words(t, got, err, job.OK)
			return s.ID
		}
		unpaid := put(0, job.Unpaid)
		public := put(0, job.Public)
		put(0, job.Paid)
		put(1, job.Paid)
		put(1, job.Unpaid)
		ahead, err := e.Ahead(t.Context(), &job.Job{ID: public, Tier: job.Public})
		if err != nil || ahead.Position != 4 || fmt.Sprint(ahead.ByTier) != "map[PAID:2 PUBLIC:0 UNPAID:2]" {
			t.Errorf("%+v, %v", ahead, err)
		}
		got, err := e.Position(t.Context(), &job.Job{ID: unpaid})
		if err != nil || got != 2 {
			t.Errorf("position %d, %v", got, err)
		}
		for _, id := range []job.ID{queuetest.NewID(0), queuetest.NewID(9)} {
			if _, err := e.Position(t.Context(), &job.Job{ID: id}); !errors.Is(err, job.ErrNotFound) {
				t.Error(err)
			}
		}
		j, _ := e.Find(t.Context(), unpaid)
		testkit.Eventually(t, 10*time.Second, "the oldest of each tier is told", func() (bool, string) {
			oldest, err := e.Oldest(t.Context()) // leaves out partitions that a busy machine answers too late
			told := err == nil && len(oldest) == 3 && oldest[job.Unpaid].Equal(j.ArrivedAt)
			return told, fmt.Sprintf("%v, %v, want %s", oldest, err, j.ArrivedAt)
		})
	})
}

// With a small priority base tiers overlap, and Ahead has no counts by tier.
func TestAhead_SmallBase(t *testing.T) {
	t.Attr("proves", "S2-G6")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.PriorityBase = 300_000 }, func(t *testing.T, e *queuetest.Env) {
		e.Put(t, job.Paid)
		id := e.Put(t, job.Public)
		ahead, err := e.Ahead(t.Context(), &job.Job{ID: id, Tier: job.Public})
		if err != nil || ahead.Position != 1 || ahead.ByTier != nil {
			t.Errorf("%+v, %v", ahead, err)
		}
		oldest, err := e.Oldest(t.Context())
		j, _ := e.Find(t.Context(), id)
		if err != nil || !oldest[job.Public].Equal(j.ArrivedAt) {
			t.Errorf("oldest %v, %v, want %s", oldest, err, j.ArrivedAt)
		}
	})
}

// counted counts the commands that a client sends.
type counted struct{ commands atomic.Int64 }

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// With thousands of jobs of the same score, as if all were due at midnight, every page is found by rank, however
// deep it is. No job is missed or listed twice, also if the job at which the last page ended is gone.
func TestListOfOneScore(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const n = 3000
		due, want := []redis.Z{}, map[job.ID]bool{}
		for len(want) < n {
			batch := make([]job.Submission, job.MaxBatch)
			for i := range batch {
				batch[i] = queuetest.Job(job.Public)
				batch[i].Delay = time.Hour
			}
			for _, id := range e.PutAll(t, batch...) {
				want[id] = true
				due = append(due, redis.Z{Score: 2e12, Member: string(id)})
			}
		}
		for batch := range slices.Chunk(due, job.MaxBatch) {
			if err := e.Redis.ZAdd(t.Context(), queue.Key(0, "scheduled"), batch...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var sent counted
		e.Clients.Read.AddHook(&sent)
		seen, cursor, last := map[job.ID]bool{}, "", job.ID("")
		for page := 0; page == 0 || cursor != ""; page++ {
			if page%3 == 2 { // its place is found by binary search
				if got := e.Cancels(t, last); got != job.WasCancelled {
					t.Fatal(got)
				}
			}
			sent.commands.Store(0)
			jobs, next, err := e.List(t.Context(), job.Filter{Status: job.Scheduled}, cursor, 90)
			if err != nil {
				t.Fatal(err)
			}
			if most := int64(2*3 + 20); sent.commands.Load() > most {
				t.Errorf("page %d took %d commands", page, sent.commands.Load())
			}
			for _, j := range jobs {
				if seen[j.ID] || !want[j.ID] {
					t.Fatalf("page %d: %s is there twice, or is none of ours", page, j.ID)
				}
				seen[j.ID], last = true, j.ID
			}
			cursor = next
		}
		if len(seen) != n {
			t.Errorf("%d jobs, not %d", len(seen), n)
		}
	})
}
