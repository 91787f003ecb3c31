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

// OldRows gives access to the rows of ended jobs in SQL.
type OldRows interface {
	// Kinds returns the pairs of tier and outcome that SQL has rows of.
	Kinds(ctx context.Context) ([]job.Kind, error)
	// OldJobs reads the jobs of a kind that are at least age old, the oldest first, starting behind after, at most
	// job.MaxBatch.
	OldJobs(ctx context.Context, k job.Kind, age time.Duration, after job.OldJob) ([]job.OldJob, error)
	// UnneededJobs returns old without the jobs that SQL may still need.
	UnneededJobs(ctx context.Context, old []job.OldJob) ([]job.OldJob, error)
	// DeleteJobs deletes those of the jobs that SQL does not need at that moment, and counts the deleted rows by
	// table.
	DeleteJobs(ctx context.Context, old []job.OldJob) (job.DeletedRows, error)
	// CountRows returns roughly how many rows each table has.
	CountRows(ctx context.Context) (map[string]int64, error)
}

// OldChanges gives access to the log of changes in SQL.
type OldChanges interface {
	// DeleteChanges deletes some of the oldest entries of the log of changes. It returns 0 if no entry is older than
	// age.
	DeleteChanges(ctx context.Context, age time.Duration) (int64, error)
}

// OldFlows gives access to the flows in SQL.
type OldFlows interface {
	// DeleteFlows deletes some flows whose last job ended at least age ago, and returns how many rows went: 0 at the end.
	DeleteFlows(ctx context.Context, age time.Duration) (int64, error)
}

// OldBatches gives access to the batches in SQL.
type OldBatches interface {
	// DeleteBatches deletes some rows of a batch that ended at least age ago. It returns 0 if there is none.
	DeleteBatches(ctx context.Context, age time.Duration) (int64, error)
}

// Absence returns the ids of jobs that Redis lacks.
type Absence interface {
	Missing(ctx context.Context, ids []job.ID) ([]job.ID, error)
}

// RowObserver is told how many rows SQL has, and how many rows and files were deleted.
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

// RetentionOptions are the parts that a Retention needs. If Rows is nil, it deletes files only; ChangeLog is set
// whenever Rows is. Flows and Batches may be nil.
type RetentionOptions struct {
	Rows       OldRows
	ChangeLog  OldChanges
	Flows      OldFlows
	FlowAge    time.Duration // how long ended flows are kept; 0 = for ever
	Batches    OldBatches
	BatchAge   time.Duration // how long ended batches are kept; 0 = for ever
	Redis      Absence
	Partitions int
	Age        func(k job.Kind) time.Duration // how long jobs of a kind are kept; 0 = for ever
	Changes    time.Duration                  // how long entries of the log of changes are kept; 0 = for ever
	// Callback returns the id of the job that reports an outcome to a callback URL.
	Callback func(id job.ID, generation int) job.ID
	// MakesFile says whether jobs of a type may have made a file. DeleteFile deletes the file before the job's rows
	// are deleted, and may be called again.
	MakesFile  func(jobType string) bool
	DeleteFile func(ctx context.Context, id job.ID) error
	Files      []OldFiles
	Observe    RowObserver
	Log        *slog.Logger
}

const (
	retentionEvery = time.Hour
	retentionSoon  = time.Minute // after a run that was too short, and after an error; consecutive errors double it
	retentionBound = time.Minute // time limit of one run's rows, and of the files of one kind
	leastRest      = 20 * time.Millisecond
	rowsPerStep    = 500 // rows of one table, unless a single job has more
	fileBound      = 10 * time.Second
)

// Retention deletes data whose retention in SQL is over, in small steps. After each step it rests as long as the
// step took, so that writers wait for one step at most. Any number of processes may run it, because rows that one
// process deleted are gone for the others.
type Retention struct {
	*loop.Loop
	o       RetentionOptions
	log     *slog.Logger
	begun   bool
	places  map[job.Kind]job.OldJob // where the next run continues, by kind
	failed  time.Duration           // the wait after the last run, if deleting rows failed
	files   error                   // why files of jobs could not be deleted in this run
	walked  time.Time               // when old files were last deleted and rows counted
	walkErr error                   // why deleting old files failed
	last    atomic.Pointer[RetentionReport]
}

// RetentionReport is the result of the last run.
type RetentionReport struct {
	At      time.Time
	Jobs    int64 // deleted by this run
	Total   int64 // deleted since the process started
	Whole   bool  // all old data was looked at, without a problem
	Problem string
}

// NewRetention makes a retention loop.
func NewRetention(o RetentionOptions) *Retention {
	r := &Retention{o: o, log: o.Log, places: map[job.Kind]job.OldJob{}}
	r.Loop = loop.New(r.runOnce)
	return r
}

// Last returns the report of the last run; false means that there was none yet.
func (r *Retention) Last() (RetentionReport, bool) {
	if l := r.last.Load(); l != nil {
		return *l, true
	}
	return RetentionReport{}, false
}

// runOnce only counts rows at the start of the process, and deletes some minutes later, so that processes that
// start together do not delete together. Deleting old files and counting may take long: both happen once an hour,
// even while a backlog of rows causes a run each minute.
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
		r.log.Warn("deleting old rows from SQL failed", "err", rows)
	}
	r.last.Store(&report)
	if jobs > 0 {
		r.log.Info("deleted old jobs from SQL", "jobs", jobs)
	}
	if err != nil { // an error of files causes no back-off: the affected rows stay until the next round
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

// walk deletes old files. Each kind has a time limit of its own, so that no kind takes the time of another or of
// the rows.
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

// rows deletes entries of the log of changes, flows, and jobs, until no old one is left or the time is over.
func (r *Retention) rows(ctx context.Context) (jobs int64, whole bool, err error) {
	r.files = nil
	if r.o.Rows == nil {
		return 0, true, nil
	}
	end := time.Now().Add(retentionBound)
	changes := r.table(ctx, end, "changes", r.o.Changes, r.o.ChangeLog.DeleteChanges)
	var flows, batches error
	if r.o.Flows != nil {
		flows = r.table(ctx, end, "flow_jobs", r.o.FlowAge, r.o.Flows.DeleteFlows)
	}
	if r.o.Batches != nil {
		batches = r.table(ctx, end, "batches", r.o.BatchAge, r.o.Batches.DeleteBatches)
	}
	jobs, whole, err = r.jobs(ctx, end)
	return jobs, whole, errors.Join(changes, flows, batches, err)
}

// table deletes old rows of a table that nothing else needs, until there are none or the time is over.
func (r *Retention) table(ctx context.Context, end time.Time, name string, age time.Duration,
	drop func(context.Context, time.Duration) (int64, error)) error {
	for age > 0 && time.Now().Before(end) {
		began := time.Now()
		n, err := drop(ctx, age)
		r.o.Observe.RowsDeleted(name, n)
		if err != nil || n == 0 {
			return err
		}
		if err := rest(ctx, began); err != nil {
			return err
		}
	}
	return nil
}

// rest waits as long as the work since began took, at least leastRest, so that at most half of the time is work.
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
