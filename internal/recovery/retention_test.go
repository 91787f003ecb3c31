package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// oldRows is a fake SQL: jobs by kind, the oldest first, and the calls in their order.
type oldRows struct {
	jobs    map[job.Kind][]job.OldJob
	needed  map[job.ID]bool
	changes int64
	batches int64
	fail    string // the step that fails
	asked   []string
	takes   time.Duration // how long a deletion takes
	most    int           // jobs in one deletion
}

var errRows = errors.New("no rows")

func (o *oldRows) note(what string) error {
	o.asked = append(o.asked, what)
	if o.fail != "" && strings.HasPrefix(what, o.fail) {
		return errRows
	}
	return nil
}

func (o *oldRows) Kinds(context.Context) (kinds []job.Kind, err error) {
	for _, t := range []job.Tier{job.Paid, job.Public} {
		for _, s := range []job.Status{job.Completed, job.Failed} {
			if k := (job.Kind{Tier: t, Status: s}); len(o.jobs[k]) > 0 {
				kinds = append(kinds, k)
			}
		}
	}
	return kinds, o.note("kinds")
}

func (o *oldRows) OldJobs(
	_ context.Context,
	k job.Kind,
	age time.Duration,
	after job.OldJob,
) (page []job.OldJob, err error) {
	for _, j := range o.jobs[k] {
		if j.RecordedAt.After(after.RecordedAt) && len(page) < job.MaxBatch {
			page = append(page, j)
		}
	}
	return page, o.note(fmt.Sprint("old ", k.Tier, " ", k.Status, " ", age))
}

func (o *oldRows) UnneededJobs(_ context.Context, old []job.OldJob) ([]job.OldJob, error) {
	free := slices.DeleteFunc(slices.Clone(old), func(j job.OldJob) bool { return o.needed[j.ID] })
	return free, o.note("unneeded")
}

func (o *oldRows) DeleteJobs(_ context.Context, old []job.OldJob) (job.DeletedRows, error) {
	if err := o.note("delete"); err != nil {
		return nil, err
	}
	o.most = max(o.most, len(old))
	if o.takes > 0 {
		<-time.After(o.takes)
	}
	n := int64(0)
	for k, jobs := range o.jobs {
		o.jobs[k] = slices.DeleteFunc(jobs, func(j job.OldJob) bool {
			gone := slices.ContainsFunc(old, func(d job.OldJob) bool { return d.ID == j.ID })
			if gone {
				n++
			}
			return gone
		})
	}
	return job.DeletedRows{"job_outcomes": n, "job_attempts": 2 * n}, nil
}

func (o *oldRows) DeleteChanges(_ context.Context, age time.Duration) (int64, error) {
	if err := o.note(fmt.Sprint("changes ", age)); err != nil {
		return 0, err
	}
	n := min(o.changes, 500)
	o.changes -= n
	return n, nil
}

func (o *oldRows) DeleteBatches(_ context.Context, age time.Duration) (int64, error) {
	if age != 72*time.Hour {
		return 0, fmt.Errorf("batches of %s", age)
	}
	n := min(o.batches, 500)
	o.batches -= n
	return n, nil
}

func (o *oldRows) CountRows(context.Context) (map[string]int64, error) {
	return map[string]int64{"job_outcomes": 7}, o.note("count")
}

func (o *oldRows) left() (n int) {
	for _, jobs := range o.jobs {
		n += len(jobs)
	}
	return n
}

// knowing is a fake Redis that has some jobs.
type knowing struct {
	jobs map[job.ID]bool
	err  error
}

func (k *knowing) Missing(_ context.Context, ids []job.ID) (missing []job.ID, err error) {
	for _, id := range ids {
		if !k.jobs[id] {
			missing = append(missing, id)
		}
	}
	return missing, k.err
}

// tallied records what an observer is told.
type tallied struct {
	rows    map[string]int64
	deleted map[string]int64
}

func (t *tallied) SQLRows(rows map[string]int64) { t.rows = rows }
func (t *tallied) RowsDeleted(table string, n int64) {
	t.deleted[table] += n
}
func (t *tallied) FilesDeleted(kind string, n int64) { t.deleted["file "+kind] += n }

func oldID(n, partition int) job.ID {
	return job.ID(fmt.Sprintf("019a0000-0000-7000-8000-%010x%02x", n, partition))
}

func tellsOf(id job.ID, _ int) job.ID { return job.ID(strings.Replace(string(id), "7000", "7fff", 1)) }

var aged = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// aging makes a retention over n old jobs of a kind, with all its fakes.
func aging(n int, k job.Kind) (*Retention, *oldRows, *knowing, *tallied) {
	rows := &oldRows{jobs: map[job.Kind][]job.OldJob{}, needed: map[job.ID]bool{}}
	for i := range n {
		rows.jobs[k] = append(
			rows.jobs[k],
			job.OldJob{
				ID:         oldID(i, 0),
				Generation: 1,
				Type:       "REPORT",
				RecordedAt: aged.Add(time.Duration(i) * time.Second),
				Rows:       1,
			},
		)
	}
	redis, seen := &knowing{jobs: map[job.ID]bool{}}, &tallied{deleted: map[string]int64{}}
	r := NewRetention(RetentionOptions{
		Rows: rows, ChangeLog: rows, Redis: redis, Partitions: 1, Age: func(job.Kind) time.Duration { return 24 * time.Hour },
		Changes: 48 * time.Hour, Batches: rows, BatchAge: 72 * time.Hour,
		Callback: tellsOf, MakesFile: func(jobType string) bool { return jobType == "REPORT" },
		DeleteFile: func(context.Context, job.ID) error { return nil }, Observe: seen, Log: quiet,
	})
	r.begun = true
	return r, rows, redis, seen
}

var paidDone = job.Kind{Tier: job.Paid, Status: job.Completed}

// A job stays if Redis has the job or its callback job, or if SQL needs it. Such jobs do not delay others, and are
// deleted once nothing needs them.
func TestRetentionKeepsWhatIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, redis, seen := aging(250, paidDone)
		inRedis, callback, needed := oldID(3, 0), oldID(120, 0), oldID(200, 0)
		redis.jobs[inRedis], redis.jobs[tellsOf(callback, 1)], rows.needed[needed] = true, true, true
		foreign := job.OldJob{
			ID:         oldID(900, 7),
			RecordedAt: aged.Add(time.Hour),
		} // the partition does not exist any more: no Redis can have the job
		rows.jobs[paidDone] = append(rows.jobs[paidDone], foreign)
		redis.jobs[foreign.ID] = true
		if wait := r.runOnce(t.Context()); wait < retentionEvery*8/10 {
			t.Errorf("all is done, and it comes again in %v", wait)
		}
		if left := rows.jobs[paidDone]; len(left) != 3 || left[0].ID != inRedis || left[1].ID != callback ||
			left[2].ID != needed {
			t.Errorf("left: %v", left)
		}
		if seen.deleted["job_outcomes"] != 248 || seen.deleted["job_attempts"] != 496 ||
			seen.rows["job_outcomes"] != 7 ||
			rows.most > job.MaxBatch {
			t.Errorf("told: %v, %v; %d jobs at once", seen.deleted, seen.rows, rows.most)
		}
		if last, ok := r.Last(); !ok || last.Jobs != 248 || !last.Whole || last.Problem != "" {
			t.Errorf("report %+v", last)
		}
		clear(redis.jobs)
		clear(rows.needed)
		if r.runOnce(t.Context()); rows.left() != 0 {
			t.Errorf("nothing needs them any more, and %d are left", rows.left())
		}
		if last, _ := r.Last(); last.Jobs != 3 || last.Total != 251 {
			t.Errorf("the second report is %+v", last)
		}
	})
}

// A kind that is kept for ever is never read.
func TestRetentionForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, _, _ := aging(5, paidDone)
		dead := job.Kind{Tier: job.Public, Status: job.Failed}
		rows.jobs[dead] = []job.OldJob{{ID: oldID(50, 0), RecordedAt: aged}}
		r.o.Age = func(k job.Kind) time.Duration {
			if k == dead {
				return 0
			}
			return time.Hour
		}
		r.o.Changes = 0
		r.runOnce(t.Context())
		if rows.left() != 1 || strings.Contains(strings.Join(rows.asked, "|"), "FAILED") ||
			strings.Contains(strings.Join(rows.asked, "|"), "changes") {
			t.Errorf("%d left; asked %v", rows.left(), rows.asked)
		}
	})
}

// If any store fails at any step, no row is deleted, and the next run follows soon.
func TestRetentionAfterAnError(t *testing.T) {
	for _, fail := range []string{"kinds", "old", "unneeded", "delete", "redis"} {
		synctest.Test(t, func(t *testing.T) {
			r, rows, redis, seen := aging(5, paidDone)
			var files []job.ID
			r.o.DeleteFile = func(_ context.Context, id job.ID) error {
				files = append(files, id)
				return nil
			}
			switch rows.fail = fail; fail {
			case "redis":
				redis.err = errRows
			}
			if wait := r.runOnce(t.Context()); wait != retentionSoon || rows.left() != 5 ||
				seen.deleted["job_outcomes"] != 0 {
				t.Errorf("%s: again in %v, %d left, told %v", fail, wait, rows.left(), seen.deleted)
			}
			if last, _ := r.Last(); last.Whole || last.Problem == "" {
				t.Errorf("%s: report %+v", fail, last)
			}
			if fail != "delete" && len(files) > 0 {
				t.Errorf("%s: files %v are deleted", fail, files)
			}
			if wait := r.runOnce(t.Context()); wait != 2*retentionSoon {
				t.Errorf("%s, twice: again in %v", fail, wait)
			}
			rows.fail, redis.err = "", nil
			if r.runOnce(t.Context()); rows.left() != 0 {
				t.Errorf("%s is mended: %d left", fail, rows.left())
			}
		})
	}
}

// A job's file is deleted before its rows, so that after a crash in between the rows lead to the file. A job that
// stays keeps its file.
func TestRetentionDeletesFilesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, redis, _ := aging(3, paidDone)
		redis.jobs[oldID(1, 0)] = true
		var gone []string
		r.o.DeleteFile = func(_ context.Context, id job.ID) error {
			if rows.left() != 3 {
				t.Error("rows went before the file")
			}
			gone = append(gone, string(id[30:34]))
			return nil
		}
		r.runOnce(t.Context())
		if got := strings.Join(gone, ","); got != "0000,0002" {
			t.Errorf("files of %s", got)
		}
	})
}

// If files cannot be deleted, jobs that may have a file stay, and the file store is asked once per run. All other
// jobs are deleted, and the report names the problem.
func TestRetentionWithoutTheStoreOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, _, _ := aging(250, paidDone)
		for n := range rows.jobs[paidDone] {
			if n%5 > 0 {
				rows.jobs[paidDone][n].Type = "SIMULATION"
			}
		}
		asked := 0
		r.o.DeleteFile = func(ctx context.Context, _ job.ID) error {
			asked++
			<-ctx.Done()
			return ctx.Err()
		}
		for range 2 {
			asked = 0
			if wait := r.runOnce(t.Context()); wait < retentionEvery*8/10 || rows.left() != 50 || asked != 1 {
				t.Errorf("again in %v; %d left, the store was asked %d times", wait, rows.left(), asked)
			}
			if last, _ := r.Last(); last.Whole || last.Problem == "" {
				t.Errorf("report %+v", last)
			}
		}
		r.o.DeleteFile = func(context.Context, job.ID) error { return nil }
		if r.runOnce(t.Context()); rows.left() != 0 {
			t.Errorf("it is back: %d left", rows.left())
		}
	})
}

// Each step is followed by a rest of the same length, a run ends after a minute, and the next run continues behind
// the jobs that were looked at.
func TestRetentionRestsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, redis, _ := aging(4000, paidDone)
		rows.takes = 2 * time.Second
		for n := range 100 { // the first page stays
			redis.jobs[oldID(n, 0)] = true
		}
		began := time.Now()
		if wait := r.runOnce(t.Context()); wait != retentionSoon {
			t.Errorf("it is not done, and comes again in %v", wait)
		}
		if took := time.Since(began); took < retentionBound || took > retentionBound+5*time.Second {
			t.Errorf("it took %v", took)
		}
		if deleted := 4000 - rows.left(); deleted != 1500 { // 15 steps of 2 s, 15 rests of 2 s
			t.Errorf("%d deleted in a minute", deleted)
		}
		rows.asked = nil
		for range 3 {
			r.runOnce(t.Context())
		}
		if looks := strings.Count(strings.Join(rows.asked, "|"), "unneeded"); rows.left() != 100 || looks != 24+1 {
			t.Errorf(
				"%d left after %d looks: want what Redis knows, each page looked at once, and the first one again when all was done",
				rows.left(),
				looks,
			)
		}
	})
}

// Jobs with many rows get steps of their own.
func TestRetentionStepsAreSmall(t *testing.T) {
	sizes := func(rows ...int) (all []int) {
		var old []job.OldJob
		for _, n := range rows {
			old = append(old, job.OldJob{Rows: n})
		}
		for len(old) > 0 {
			n := step(old)
			all, old = append(all, n), old[n:]
		}
		return all
	}
	for want, rows := range map[string][]int{
		"[3]": {1, 1, 1}, "[2 1]": {250, 250, 1}, "[1 1 1]": {900, 1000, 400}, "[1 2]": {499, 2, 498}, "[1]": {1000},
	} {
		if got := fmt.Sprint(sizes(rows...)); got != want {
			t.Errorf("%v: steps of %s, want %s", rows, got, want)
		}
	}
}

// Old entries of the log of changes are deleted in steps until none is left. Files are deleted too, also without
// SQL, and an error of one kind does not affect another.
func TestRetentionOfChangesAndFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, _, seen := aging(2, paidDone)
		rows.changes, rows.batches = 1100, 700
		r.o.Files = []OldFiles{
			{"mail", func(context.Context) (int64, error) { return 3, errRows }},
			{"artifact", func(context.Context) (int64, error) { return 4, nil }},
		}
		for range 2 {
			if wait := r.runOnce(t.Context()); wait < retentionEvery*8/10 {
				t.Errorf("the rows are done, and it comes again in %v", wait)
			}
			if last, _ := r.Last(); last.Whole || last.Problem != errRows.Error() {
				t.Errorf("report %+v", last)
			}
		}
		if seen.deleted["changes"] != 1100 || seen.deleted["batches"] != 700 ||
			seen.deleted["file mail"] != 3 || seen.deleted["file artifact"] != 4 ||
			rows.left() != 0 {
			t.Errorf("told %v; %d jobs left", seen.deleted, rows.left())
		}
		r.o.Rows = nil
		r.o.Files = r.o.Files[1:]
		<-time.After(retentionEvery)
		if wait := r.runOnce(t.Context()); wait < retentionEvery*8/10 || seen.deleted["file artifact"] != 8 {
			t.Errorf("files alone: again in %v, %v", wait, seen.deleted)
		}
		if last, _ := r.Last(); !last.Whole || last.Problem != "" {
			t.Errorf("the mail is gone: report %+v", last)
		}
	})
}

// A walk over files that never ends takes no time from the rows or from other files. While a backlog of rows
// causes a run each minute, files are walked over and rows counted once an hour.
func TestRetentionWalksAndCountsOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, _, seen := aging(5000, paidDone)
		rows.takes = 2 * time.Second
		slow, quick := 0, 0
		r.o.Files = []OldFiles{
			{"mail", func(ctx context.Context) (int64, error) {
				slow++
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Minute):
				}
				return 1, ctx.Err()
			}},
			{"artifact", func(ctx context.Context) (int64, error) { quick++; return 1, ctx.Err() }},
		}
		began := time.Now()
		wait := r.runOnce(t.Context())
		if deleted := 5000 - rows.left(); wait != retentionSoon || deleted != 1600 { // 16 steps of 2 s, 15 rests
			t.Errorf("again in %v; %d deleted beside a slow walk, want 1600", wait, deleted)
		}
		if took := time.Since(began); took > 2*retentionBound+5*time.Second {
			t.Errorf("it took %v", took)
		}
		for range 2 {
			r.runOnce(t.Context())
		}
		counts := func() int { return strings.Count(strings.Join(rows.asked, "|"), "count") }
		if slow != 1 || quick != 1 || counts() != 1 || seen.deleted["file artifact"] != 1 {
			t.Errorf("three runs of a backlog: %d and %d walks, %d counts, %v", slow, quick, counts(), seen.deleted)
		}
		r.runOnce(t.Context())
		<-time.After(retentionEvery - retentionEvery/10)
		if r.runOnce(t.Context()); slow != 2 || quick != 2 || counts() != 2 || rows.left() != 0 {
			t.Errorf("an hour later: %d and %d walks, %d counts, %d jobs left", slow, quick, counts(), rows.left())
		}
	})
}

// The first run only counts, and rows are deleted some minutes later. A stop ends a run during its rest.
func TestRetentionStartsLaterAndStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rows, _, seen := aging(20_000, paidDone)
		r.begun = false
		rows.takes = time.Second
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if seen.rows["job_outcomes"] != 7 || rows.left() != 20_000 {
			t.Errorf("at the start: %v counted, %d left", seen.rows, rows.left())
		}
		<-time.After(10*time.Minute + 30*time.Second)
		if rows.left() == 20_000 {
			t.Error("nothing was deleted within ten minutes")
		}
		began := time.Now()
		if err := r.Stop(t.Context()); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("stopped after %v: %v", time.Since(began), err)
		}
	})
}
