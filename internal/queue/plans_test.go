package queue_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

const planKeys = "{tierq}:system:config:tier:"

func TestPlansAreTheSeeds(t *testing.T) {
	t.Attr("proves", "S2-S3 S2-N3 S2-N4 S2-N5 S2-N6 S2-K5")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		// A new process reads the plans back from Redis.
		book := &job.PlanBook{}
		if err := queue.New(e.Clients, book, e.Options).LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := book.All(), job.DefaultPlans(); !reflect.DeepEqual(got, want) {
			t.Errorf("plans %+v, want %+v", got, want)
		}
		for i, want := range []struct {
			tier            job.Tier
			retries         int
			beat, processed time.Duration
			share           int
		}{{"PAID", 5, 15 * time.Second, 50 * time.Second, 100}, {"UNPAID", 2, 6 * time.Second, 20 * time.Second, 85},
			{"PUBLIC", 1, 3 * time.Second, 10 * time.Second, 60}} {
			p := book.All()[i]
			same(t, "tier", p.Tier, want.tier)
			same(t, "priority", p.Priority, i+1)
			same(t, "retries", p.MaxRetries, want.retries)
			same(t, "heartbeat timeout", p.HeartbeatTimeout, want.beat)
			same(t, "max processing time", p.MaxProcessingTime, want.processed)
			same(t, "share", p.Share, want.share)
		}
	})
}

// A plan that an earlier version stored does not have the fields of later ones. A plan without a limit of crashes has
// an empty field.
func TestPlansOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		p, _ := e.Plans.Plan(job.Public)
		p.MaxCrashes, p.MaxWait = new(0), 90*time.Second
		stored, err := e.StorePlan(t.Context(), p, queue.AnyVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []*int{new(0), nil, nil} {
			book := &job.PlanBook{}
			if err := queue.New(e.Clients, book, e.Options).LoadPlans(t.Context()); err != nil {
				t.Fatal(err)
			}
			read, _ := book.Plan(job.Public)
			same(t, "version", read.Version, stored.Version)
			if !reflect.DeepEqual(read.MaxCrashes, want) {
				t.Errorf("crashes %v, want %v", read.MaxCrashes, want)
			}
			wait := 90 * time.Second
			if want == nil { // the fields are gone
				wait = 0
			}
			same(t, "max wait", read.MaxWait, wait)
			e.Redis.HDel(t.Context(), planKeys+"PUBLIC", "maxWaitMs")
			if want != nil {
				e.Redis.HSet(t.Context(), planKeys+"PUBLIC", "maxCrashes", "")
			} else {
				e.Redis.HDel(t.Context(), planKeys+"PUBLIC", "maxCrashes")
			}
		}
	})
}

// Default plans that an earlier build stored, with maxCrashes 3 and no other change, are stored again without a limit.
// A plan that an operator changed keeps its limit.
func TestPlansWithTheOldCrashes(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		field := func(tier, name string) string { return e.Redis.HGet(t.Context(), planKeys+tier, name).Val() }
		for _, tier := range []string{"PAID", "UNPAID", "PUBLIC"} {
			e.Redis.HSet(t.Context(), planKeys+tier, "maxCrashes", "3")
		}
		e.Redis.HSet(t.Context(), planKeys+"UNPAID", "maxRetries", "7")
		e.Redis.HSet(t.Context(), planKeys+"PUBLIC", "version", "2")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := queue.New(e.Clients, &job.PlanBook{}, e.Options).LoadPlans(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		for tier, want := range map[string]string{"PAID": " 2", "UNPAID": "3 1", "PUBLIC": "3 2"} {
			same(t, tier, field(tier, "maxCrashes")+" "+field(tier, "version"), want)
			p, _ := e.Plans.Plan(job.Tier(tier))
			same(t, tier+" is limited", p.MaxCrashes != nil, want[0] == '3')
		}
		// Redis lost the plans, and SQL has an old one.
		e.Flush(t)
		o, book := e.Options, &job.PlanBook{}
		old := job.DefaultPlans()[0]
		old.MaxCrashes = new(3)
		o.RememberedPlans = func(context.Context) ([]job.Plan, error) { return []job.Plan{old}, nil }
		if err := queue.New(e.Clients, book, o).LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, _ := book.Plan(job.Paid)
		same(t, "version", p.Version, 2)
		same(t, "is limited", p.MaxCrashes != nil, false)
	})
}

// LoadPlans stores a deleted plan again as this process has it; running jobs are not affected.
func TestPlansDeleted(t *testing.T) {
	t.Attr("proves", "F52")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Public)
		changed, _ := e.Plans.Plan(job.Public)
		changed.MaxRetries, changed.Version = 3, 2
		if _, err := e.StorePlan(t.Context(), changed, queue.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := e.Plans.All()
		for _, keys := range [][]string{{planKeys + "PUBLIC"}, {planKeys + "PAID", planKeys + "UNPAID"},
			{"{tierq}:system:config"},
			{"{tierq}:system:config", planKeys + "PAID", planKeys + "UNPAID", planKeys + "PUBLIC"}} {
			e.Redis.Del(t.Context(), keys...)
			if err := e.LoadPlans(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := e.Plans.All(); !reflect.DeepEqual(got, want) {
				t.Errorf("after DEL %v: %+v, want %+v", keys, got, want)
			}
			book := &job.PlanBook{}
			if err := queue.New(e.Clients, book, e.Options).LoadPlans(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := book.All(); !reflect.DeepEqual(got, want) {
				t.Errorf("stored after DEL %v: %+v", keys, got)
			}
		}
		e.Finish(t, l)
	})
}

func TestPlansBad(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		before := e.Plans.All()
		for field, value := range map[string]string{"priority": "900", "maxRetries": "many", "heartbeatTimeoutMs": "",
			"share": "101", "backoffFactor": "x"} {
			key := planKeys + "PAID"
			old := e.Redis.HGet(t.Context(), key, field).Val()
			e.Redis.HSet(t.Context(), key, field, value)
			err := e.LoadPlans(t.Context())
			if !errors.Is(err, job.ErrBadPlan) || !strings.Contains(err.Error(), "PAID") {
				t.Errorf("%s=%q: %v", field, value, err)
			}
			if !reflect.DeepEqual(e.Plans.All(), before) {
				t.Errorf("%s=%q changed the book", field, value)
			}
			e.Redis.HSet(t.Context(), key, field, old)
		}
		bad := before[0]
		bad.Priority = 0
		if _, err := e.StorePlan(t.Context(), bad, queue.AnyVersion); !errors.Is(err, job.ErrBadPlan) {
			t.Error(err)
		}
	})
}

// If two processes store plans at the same time, no plan is lost, and a process that starts does not undo an
// operator's change.
func TestPlansStoredAtOnce(t *testing.T) {
	t.Attr("proves", "S2-P13")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.Redis.Del(t.Context(), "{tierq}:system:config", planKeys+"UNPAID", planKeys+"PUBLIC") // PAID stays: an operator's
		e.Redis.HSet(t.Context(), planKeys+"PAID", "maxRetries", 9)
		var all sync.WaitGroup
		for _, tier := range []job.Tier{"A", "B", "C", "D", "E", "F"} {
			all.Go(func() {
				p := job.DefaultPlans()[0]
				p.Tier = tier
				if _, err := e.StorePlan(t.Context(), p, queue.AnyVersion); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := queue.New(e.Clients, &job.PlanBook{}, e.Options).LoadPlans(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tier := range []job.Tier{"A", "B", "C", "D", "E", "F"} {
			if _, ok := e.Plans.Plan(tier); !ok {
				t.Errorf("%s got lost", tier)
			}
		}
		if p, ok := e.Plans.Plan(job.Paid); ok {
			same(t, "an operator's plan", p.MaxRetries, 9)
		}
	})
}

// A hundred plans are restored in one transaction, also to an in-memory server, which reads 4 KiB at a time.
func TestPlansRemembered_Many(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		all := job.DefaultPlans()
		for n := range 97 {
			p := all[0]
			p.Tier, p.Priority, p.Version = job.Tier(fmt.Sprint("TIER_", n)), 4+n, 1
			all = append(all, p)
		}
		e.Flush(t)
		o, book := e.Options, &job.PlanBook{}
		o.RememberedPlans = func(context.Context) ([]job.Plan, error) { return all, nil }
		if err := queue.New(e.Clients, book, o).LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "plans", len(book.All()), len(all))
	})
}

// If Redis has lost its plans, a starting process restores those that SQL has, and the default plan of a tier only
// if SQL has none. While SQL does not answer it stores nothing.
func TestPlansRemembered(t *testing.T) {
	t.Attr("proves", "F52")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		var remembered []job.Plan
		var away error
		asked := 0
		process := func() (*queue.Queue, *job.PlanBook) {
			o, book := e.Options, &job.PlanBook{}
			o.RememberedPlans = func(context.Context) ([]job.Plan, error) {
				asked++
				return remembered, away
			}
			return queue.New(e.Clients, book, o), book
		}
		load := func(q *queue.Queue) {
			t.Helper()
			if err := q.LoadPlans(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		version := func(tier string) string { return e.Redis.HGet(t.Context(), planKeys+tier, "version").Val() }
		paid := job.DefaultPlans()[0]
		paid.MaxRetries, paid.Version = 9, 3
		gold := paid
		gold.Tier, gold.Priority = "GOLD", 4
		e.Flush(t)
		remembered, away = []job.Plan{paid, gold}, job.ErrUnavailable
		q, book := process()
		err := q.LoadPlans(t.Context())
		if !errors.Is(err, job.ErrUnavailable) || len(book.All()) > 0 || version("PAID") != "" {
			t.Errorf("SQL is away: %v, the book has %v, Redis has version %q", err, book.All(), version("PAID"))
		}
		away = nil
		load(q)
		want := append(job.DefaultPlans()[1:], paid, gold)
		book2 := &job.PlanBook{}
		book2.Set(want)
		if got := book.All(); !reflect.DeepEqual(got, book2.All()) {
			t.Errorf("served %+v, want %+v", got, want)
		}
		before := asked
		load(q)
		same(t, "questions while nothing is amiss", asked, before)

		// Another process (an older build, say) stored the default plans first: the later version from SQL wins.
		e.Flush(t)
		load(queue.New(e.Clients, &job.PlanBook{}, e.Options))
		same(t, "the seed's version", version("PAID"), "1")
		load(q)
		same(t, "the later version", version("PAID"), "3")

		// Redis lost a change that this process had never read.
		remembered[0].Version = 4
		load(q)
		same(t, "without a doubt", version("PAID"), "3")
		q.DoubtPlans()
		away = job.ErrUnavailable
		load(q)
		same(t, "while SQL is away", version("PAID"), "3")
		away = nil
		load(q)
		same(t, "in doubt", version("PAID"), "4")

		// Redis has a later version than SQL: it stays.
		e.Redis.HSet(t.Context(), planKeys+"PAID", "version", 6)
		fresh, _ := process()
		load(fresh)
		same(t, "a version that SQL has not", version("PAID"), "6")
	})
}

// LoadPlans also restores the name of a tier if Redis lost the list of tiers while the plans were being read.
func TestPlansWhoseNamesAreLost(t *testing.T) {
	t.Attr("proves", "F19")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		e.Redis.HSet(t.Context(), "{tierq}:system:config", "tiers", "UNPAID PUBLIC")
		e.Redis.Del(t.Context(), "{tierq}:system:config:tier:PAID")
		if err := e.LoadPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, tier := range []job.Tier{job.Paid, job.Unpaid, job.Public} {
			if _, ok := e.Plans.Plan(tier); !ok {
				t.Errorf("%s is not served any more", tier)
			}
		}
		same(t, "stored again", e.Redis.Exists(t.Context(), "{tierq}:system:config:tier:PAID").Val(), int64(1))
	})
}
