//go:build long

package archive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// While a million old jobs are deleted, the writer's transactions take about as long as otherwise: each waits for
// one small step at most.
func TestWriterWhileAMillionIsDeleted(t *testing.T) {
	const n, window = 1_000_000, 20 * time.Second
	db := databasetest.New(t, database.Options{MySQLDSN: testkit.NewMariaDB(t).NewDatabase(t)})
	a := New(db.Database, Options{})
	deepen(t, a, n)
	for at := 0; at < n; at += 50_000 { // in portions: the test's server is small
		slow, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, table := range []string{"job_outcomes", "job_results"} {
			old := "UPDATE " + table + " SET recorded_at = recorded_at - INTERVAL 100 DAY WHERE job_id >= ? AND job_id < ?"
			if _, err := a.db.Exec(slow, old, []any{deepID(at), deepID(at + 50_000)}); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
	}
	alone, _ := writing(t, a, window, 0)
	ctx, cancel := context.WithCancel(t.Context())
	var deleted, steps int64
	var longest time.Duration
	var group sync.WaitGroup
	group.Go(func() { deleted, steps, longest = deleting(t, ctx, a) })
	beside, written := writing(t, a, window, 1<<20)
	cancel()
	group.Wait()
	t.Logf("the writer alone: %s", alone)
	t.Logf(
		"while jobs are deleted: %s; %d written, %d deleted in %d steps, the longest %s",
		beside,
		written,
		deleted,
		steps,
		longest,
	)
	if deleted < 1000 {
		t.Errorf("only %d were deleted in %s", deleted, window)
	}
	if beside.p99 > 5*alone.p99+200*time.Millisecond {
		t.Errorf("the writer's p99 is %s, %s while jobs are deleted", alone.p99, beside.p99)
	}
}

type quantiles struct{ p50, p99, most time.Duration }

func (q quantiles) String() string {
	return fmt.Sprintf("p50 %s, p99 %s, most %s", q.p50, q.p99, q.most)
}

// writing writes transactions of 50 outcomes, one every 20 ms, for a while.
func writing(t *testing.T, a *Archive, long time.Duration, from int) (quantiles, int) {
	t.Helper()
	var took []time.Duration
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began, at := time.Now(), 0; time.Since(began) < long; at++ {
		batch := make([]*job.Outcome, 50)
		for i := range batch {
			number := from + at*50 + i
			batch[i] = &job.Outcome{Job: job.Job{
				ID: job.ID(
					fmt.Sprintf("%s-7000-8000-%012x", firstID(time.Now(), ""), number<<8),
				), Generation: 1, Tier: job.Paid, Type: "SIMULATION", Status: job.Completed,
				Attempt: 1, ArrivedAt: time.Now(), StartedAt: time.Now(), EndedAt: time.Now(),
				Result: []byte(`{"stepsRun":1,"elapsedMs":10,"computed":null}`),
			}}
		}
		one := time.Now()
		if _, _, err := a.record(t.Context(), batch, nil); err != nil {
			t.Error(err)
			return quantiles{}, 0
		}
		took = append(took, time.Since(one))
		<-tick.C
	}
	slices.Sort(took)
	return quantiles{took[len(took)/2], took[len(took)*99/100], took[len(took)-1]}, len(took) * 50
}

// deleting does what the retention's loop (recovery.Retention) does, without asking Redis.
func deleting(t *testing.T, ctx context.Context, a *Archive) (deleted, steps int64, longest time.Duration) {
	t.Helper()
	places := map[job.Kind]job.OldJob{}
	kinds, err := a.Kinds(ctx)
	if err != nil {
		t.Error(err)
	}
	for ctx.Err() == nil {
		for _, k := range kinds {
			began := time.Now()
			old, err := a.OldJobs(ctx, k, 24*time.Hour, places[k])
			if err == nil && len(old) > 0 {
				places[k] = old[len(old)-1]
				old, err = a.UnneededJobs(ctx, old)
			}
			if err == nil && len(old) > 0 {
				var rows job.DeletedRows
				rows, err = a.DeleteJobs(ctx, old)
				deleted += rows["job_outcomes"] + rows["job_results"]
				steps++
				longest = max(longest, time.Since(began))
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return deleted, steps, longest
			}
			_ = database.Pause(ctx, max(time.Since(began), 20*time.Millisecond)) // the loop checks ctx
		}
	}
	return deleted, steps, longest
}
