package recovery

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// OldRows are the rows of ended jobs in SQL.
type OldRows interface {
	// Kinds are the tiers and outcomes that SQL has rows of.
	Kinds(ctx context.Context) ([]job.Kind, error)
	// OldJobs reads those of a kind that are at least age old, the oldest first, behind after, at most job.MaxBatch.
	OldJobs(ctx context.Context, k job.Kind, age time.Duration, after job.OldJob) ([]job.OldJob, error)
	// UnneededJobs leaves out the jobs that SQL may still need.
	UnneededJobs(ctx context.Context, old []job.OldJob) ([]job.OldJob, error)
	// DeleteJobs deletes those that SQL does not need, as it is now, and counts the rows by table.
	DeleteJobs(ctx context.Context, old []job.OldJob) (job.DeletedRows, error)
	// CountRows says about how many rows each table has.
	CountRows(ctx context.Context) (map[string]int64, error)
}

// OldChanges are the entries of the log of changes in SQL.
type OldChanges interface {
	// DeleteChanges deletes some of the oldest entries of the log of changes; 0: none is as old as age.
	DeleteChanges(ctx context.Context, age time.Duration) (int64, error)
}

// Absence says which jobs Redis does not know.
type Absence interface {
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
}

// RowObserver hears what became of rows and files.
type RowObserver interface {
	SQLRows(rows map[string]int64)
	RowsDeleted(table string, n int64)
	FilesDeleted(kind string, n int64)
}

// OldFiles deletes files of one kind on this machine.
type OldFiles struct {
	Kind   string // a word for the log and the metrics
	Delete func(ctx context.Context) (int64, error)
}

// RetentionOptions are what a Retention needs. Without Rows, which come with a ChangeLog, it deletes
// files only.
type RetentionOptions struct {
	Rows       OldRows
	ChangeLog  OldChanges
	Redis      Absence
	Partitions int
	Age        func(k job.Kind) time.Duration // how long jobs of a kind are kept; 0 = for ever
	Changes    time.Duration                  // the same of the log of changes
	// Callback is the id of the job that tells of an outcome.
	Callback func(id job.ID, generation int) job.ID
	// MakesFile says whether jobs of a type may have made a file. DeleteFile deletes it before the job's rows go, and
	// may be called again.
	MakesFile  func(jobType string) bool
	DeleteFile func(ctx context.Context, id job.ID) error
	Files      []OldFiles
	Observe    RowObserver
	Log        *slog.Logger
}

const (
	retentionEvery = time.Hour
	retentionSoon  = time.Minute // where a run's time was too short, and after an error; several in a row double it
	retentionBound = time.Minute // of one run's rows, and of one walk over files
	leastRest      = 20 * time.Millisecond
	rowsPerStep    = 500 // of one table, but for a job that alone has more
	fileBound      = 10 * time.Second
)

// Retention deletes what SQL has kept for long enough, in small steps with a rest after each that is as long as the
// step, so that whoever writes waits for one step at most. It needs no leader: what another process deleted is not
// there any more.
type Retention struct {
	*loop.Loop
	o       RetentionOptions
	log     *slog.Logger
	begun   bool
	places  map[job.Kind]job.OldJob // where the next run goes on, by kind; what is before was looked at
	failed  time.Duration           // the wait after the last run, if its rows failed
	files   error                   // why the files of jobs cannot be deleted in this run
	walked  time.Time               // when files were last walked over and rows counted
	walkErr error                   // why that walk failed
	last    atomic.Pointer[RetentionReport]
}

// RetentionReport is what the last run did.
type RetentionReport struct {
	At      time.Time
	Jobs    int64 // deleted
	Total   int64 // deleted since the process started
	Whole   bool  // it came to the end of everything that is old
	Problem string
}

// NewRetention makes a retention loop.
func NewRetention(o RetentionOptions) *Retention {
	r := &Retention{o: o, log: o.Log, places: map[job.Kind]job.OldJob{}}
	r.Loop = loop.New(r.runOnce)
	return r
}

// Last is the report of the last run; false: there was none yet.
func (r *Retention) Last() (RetentionReport, bool) {
	if l := r.last.Load(); l != nil {
		return *l, true
	}
	return RetentionReport{}, false
}

// runOnce counts at the start of the process and deletes some minutes later, for processes that start together should
// not delete together. The walk over files and the count may take long: they are made once an hour, also while a
// backlog of rows has a run each minute.
func (r *Retention) runOnce(ctx context.Context) time.Duration {
	if !r.begun {
		r.begun = true
		r.count(ctx)
		return time.Minute + rand.N(9*time.Minute)
	}
	hourly := time.Since(r.walked) >= retentionEvery-retentionEvery/10
	if hourly {
		r.walked = time.Now()
		r.walk(ctx)
	}
	jobs, whole, err := r.rows(ctx)
	if hourly {
		r.count(ctx)
	}
	before, _ := r.Last()
	report := RetentionReport{At: time.Now(), Jobs: jobs, Total: before.Total + jobs}
	problem := errors.Join(err, r.files, r.walkErr)
	report.Whole = whole && problem == nil
	if problem != nil && ctx.Err() == nil {
		report.Problem = problem.Error()
	}
	if rows := errors.Join(err, r.files); rows != nil && ctx.Err() == nil {
		r.log.Warn("deleting what is old failed", "err", rows)
	}
	r.last.Store(&report)
	if jobs > 0 {
		r.log.Info("deleted old jobs from SQL", "jobs", jobs)
	}
	if err != nil { // an error of files sets no back-off: the rows that it holds up stay until the next round
		r.failed = min(max(2*r.failed, retentionSoon), retentionEvery)
		return r.failed
	}
	if r.failed = 0; !whole {
		return retentionSoon
	}
	return retentionEvery - rand.N(retentionEvery/10)
}

func (r *Retention) count(ctx context.Context) {
	if r.o.Rows == nil {
		return
	}
	call, cancel := context.WithTimeout(ctx, retentionBound)
	defer cancel()
	if rows, err := r.o.Rows.CountRows(call); err == nil {
		r.o.Observe.SQLRows(rows)
	} else if ctx.Err() == nil {
		r.log.Warn("the rows of SQL could not be counted", "err", err)
	}
}

// walk deletes old files. Each kind has a bound of its own, so that none takes another's time, nor that of the rows.
func (r *Retention) walk(ctx context.Context) {
	var problems []error
	for _, f := range r.o.Files {
		call, cancel := context.WithTimeout(ctx, retentionBound)
		n, err := f.Delete(call)
		cancel()
		r.o.Observe.FilesDeleted(f.Kind, n)
		problems = append(problems, err)
	}
	if r.walkErr = errors.Join(problems...); r.walkErr != nil && ctx.Err() == nil {
		r.log.Warn("deleting old files failed", "err", r.walkErr)
	}
}

// rows deletes entries of the log of changes, and jobs, until nothing old is left or its time is over.
func (r *Retention) rows(ctx context.Context) (jobs int64, whole bool, err error) {
	r.files = nil
	if r.o.Rows == nil {
		return 0, true, nil
	}
	end := time.Now().Add(retentionBound)
	changes := r.changes(ctx, end)
	jobs, whole, err = r.jobs(ctx, end)
	return jobs, whole, errors.Join(changes, err)
}

func (r *Retention) changes(ctx context.Context, end time.Time) error {
	for r.o.Changes > 0 && time.Now().Before(end) {
		began := time.Now()
		n, err := r.o.ChangeLog.DeleteChanges(ctx, r.o.Changes)
		r.o.Observe.RowsDeleted("changes", n)
		if err != nil || n == 0 {
			return err
		}
		if err := rest(ctx, began); err != nil {
			return err
		}
	}
	return nil
}

// jobs takes a page of each kind in turn.
func (r *Retention) jobs(ctx context.Context, end time.Time) (deleted int64, whole bool, err error) {
	kinds, err := r.o.Rows.Kinds(ctx)
	if err != nil {
		return 0, false, err
	}
	for len(kinds) > 0 {
		var left []job.Kind
		for _, k := range kinds {
			if time.Now().After(end) {
				return deleted, false, nil
			}
			n, more, err := r.page(ctx, k)
			deleted += n
			if err != nil {
				return deleted, false, err
			}
			if more {
				left = append(left, k)
			}
		}
		kinds = left
	}
	return deleted, true, nil
}

// page deletes those of one page of a kind that nobody needs, and says whether there is more behind it. Where it fails
// the next run begins with the same page.
func (r *Retention) page(ctx context.Context, k job.Kind) (deleted int64, more bool, err error) {
	age := r.o.Age(k)
	if age <= 0 {
		return 0, false, nil
	}
	began := time.Now()
	old, err := r.o.Rows.OldJobs(ctx, k, age, r.places[k])
	if err != nil {
		return 0, false, err
	}
	if len(old) == 0 {
		delete(r.places, k) // what stayed may go next time
		return 0, false, nil
	}
	for i := range old {
		old[i].Callback = r.o.Callback(old[i].ID, old[i].Generation)
	}
	free, err := r.o.Rows.UnneededJobs(ctx, old)
	if err == nil {
		free, err = r.forgotten(ctx, free)
	}
	for err == nil {
		n := step(free)
		if n > 0 {
			err = r.delete(ctx, free[:n], &deleted)
		}
		if err == nil {
			err = rest(ctx, began)
		}
		if free, began = free[n:], time.Now(); len(free) == 0 {
			break
		}
	}
	if err != nil {
		return deleted, false, err
	}
	r.places[k] = old[len(old)-1]
	return deleted, true, nil
}

// forgotten are the jobs of which Redis knows neither the job nor the one that tells of its outcome. What Redis knows
// lives there, is not acknowledged yet, or is answered from there.
func (r *Retention) forgotten(ctx context.Context, old []job.OldJob) (free []job.OldJob, err error) {
	var ids []job.ID
	for i := range old {
		for _, id := range []job.ID{old[i].ID, old[i].Callback} {
			if r.ours(id) {
				ids = append(ids, id)
			}
		}
	}
	missing := map[job.ID]bool{}
	if len(ids) > 0 {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		gone, err := r.o.Redis.Missing(call, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range gone {
			missing[id] = true
		}
	}
	for _, o := range old {
		if (missing[o.ID] || !r.ours(o.ID)) && (missing[o.Callback] || !r.ours(o.Callback)) {
			free = append(free, o)
		}
	}
	return free, nil
}

// ours says whether a job can be in Redis: partitions are only given up when the queue is empty.
func (r *Retention) ours(id job.ID) bool {
	p := id.Partition()
	return p >= 0 && p < r.o.Partitions
}

// delete deletes the files first: after a crash in between the rows are still there to be found. Where a file cannot be
// deleted its job stays, and in this run every other that may have one: a store that is away would hold up each.
func (r *Retention) delete(ctx context.Context, old []job.OldJob, deleted *int64) error {
	free := old[:0:0]
	for _, o := range old {
		makes := r.o.MakesFile(o.Type)
		if makes && r.files == nil {
			call, cancel := context.WithTimeout(ctx, fileBound)
			r.files = r.o.DeleteFile(call, o.ID)
			cancel()
		}
		if !makes || r.files == nil {
			free = append(free, o)
		}
	}
	if len(free) == 0 {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	rows, err := r.o.Rows.DeleteJobs(call, free)
	for table, n := range rows {
		r.o.Observe.RowsDeleted(table, n)
	}
	*deleted += rows["job_outcomes"]
	return err
}

// step is how many of the jobs make a step: at least one, and no more rows than rowsPerStep.
func step(old []job.OldJob) int {
	rows := 0
	for n := range old {
		if rows += old[n].Rows; rows > rowsPerStep && n > 0 {
			return n
		}
	}
	return len(old)
}

// rest waits as long as the work since began took, so that no more than half of the time is worked.
func rest(ctx context.Context, began time.Time) error { return restAtLeast(ctx, began, leastRest) }

// restAtLeast is rest with another least time.
func restAtLeast(ctx context.Context, began time.Time, least time.Duration) error {
	t := time.NewTimer(max(time.Since(began), least))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
