package archive

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table schedule_runs says which occurrences of a schedule were fired, and why others were missed.

// livingRuns are the jobs of a schedule that have not ended: such a job has a journal row, with the journal off too.
const livingRuns = "FROM schedule_runs r JOIN accepted_jobs a ON a.job_id = r.job_id WHERE r.name = ? AND " +
	"r.job_id <> '' AND " + unended

const (
	livingJobs = "SELECT r.job_id " + livingRuns + " ORDER BY r.occurrence, r.request"
	runsOf     = "SELECT r.*, CASE WHEN a.job_id IS NULL THEN 0 ELSE 1 END AS living FROM schedule_runs r " +
		"LEFT JOIN accepted_jobs a ON a.job_id = r.job_id AND " + unended +
		" WHERE r.name = ? ORDER BY r.occurrence DESC, r.request DESC LIMIT ?"
	runOfRequest  = "SELECT job_id FROM schedule_runs WHERE name = ? AND request = ?"
	scheduleOfJob = "SELECT name FROM schedule_runs WHERE job_id = ? LIMIT 1"
	moveSchedule  = "UPDATE schedules SET occurrence = ?, due_at = ?, last_occurrence = ? WHERE name = ? AND " +
		"version = ? AND occurrence"
	unmiss = "DELETE FROM schedule_runs WHERE name = ? AND request = '' AND job_id = '' AND through_at > ?"
	// A row of missed occurrences goes on with those that are missed right after it, for the same reason.
	missMore = "UPDATE schedule_runs SET through_at = ?, missed = CASE WHEN missed = 0 OR ? = 0 THEN 0 ELSE missed + ? " +
		"END, detail = ? WHERE name = ? AND request = '' AND job_id = '' AND reason = ? AND through_at = ?"
)

func addRun(d database.Dialect) string {
	return "INSERT INTO schedule_runs (name, occurrence, request, job_id, through_at, missed, reason, detail, " +
		"recorded_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, " + d.Now + ") " + d.KeepFirst("name")
}

// addRun writes a run. It says false if the run was there already.
func (a *Archive) addRun(ctx context.Context, conn gorm.ConnPool, name string, r *job.ScheduleRun) (bool, error) {
	through := r.Through
	if through.IsZero() {
		through = r.Occurrence
	}
	done, err := conn.ExecContext(ctx, addRun(a.db.Dialect), name, r.Occurrence.UTC(), r.Request, string(r.JobID),
		through.UTC(), r.Missed, string(r.Reason), r.Detail)
	if err != nil {
		return false, fmt.Errorf("insert schedule_runs: %w", err)
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// miss writes that occurrences were missed. last is the occurrence before them.
func (a *Archive) miss(ctx context.Context, conn gorm.ConnPool, name string, last time.Time, r *job.ScheduleRun) error {
	through := r.Through
	if through.IsZero() {
		through = r.Occurrence
	}
	if !last.IsZero() {
		done, err := conn.ExecContext(ctx, missMore, through.UTC(), r.Missed, r.Missed, r.Detail, name, string(r.Reason),
			last.UTC())
		if err != nil {
			return fmt.Errorf("update schedule_runs: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n > 0 {
			return err
		}
	}
	_, err := a.addRun(ctx, conn, name, r)
	return err
}

// FireSchedule moves a schedule from one occurrence to the next, if it is still at the first one: of all calls for an
// occurrence, one call moves it. The same transaction writes the occurrences' runs, and the journal row of the job.
// So each occurrence becomes at most one job, and SQL owes Redis that job until it has ended. With f.Replaces the
// transaction also marks the jobs in f.Replaced to be cancelled: Redis is to be told of them and of the new job.
func (a *Archive) FireSchedule(ctx context.Context, f *job.Firing) (fired job.Fired, err error) {
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		move, args := moveSchedule+" IS NULL", []any{
			database.OrNull(f.Next), database.OrNull(f.Due), database.OrNull(f.Last), f.Name, f.Version}
		if !f.Occurrence.IsZero() {
			move, args = moveSchedule+" = ?", append(args, f.Occurrence.UTC())
		}
		done, err := conn.ExecContext(ctx, move, args...)
		if err != nil {
			return fmt.Errorf("update schedules: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			fired = job.FiredLost
			return err
		}
		if !f.Unmiss.IsZero() {
			if _, err := conn.ExecContext(ctx, unmiss, f.Name, f.Unmiss.UTC()); err != nil {
				return fmt.Errorf("delete schedule_runs: %w", err)
			}
		}
		last := f.Before
		for i := range f.Missed {
			if err := a.miss(ctx, conn, f.Name, last, &f.Missed[i]); err != nil {
				return err
			}
			last = f.Missed[i].Through
		}
		if fired = job.FiredNone; f.Row == nil {
			return nil
		}
		fired, err = a.fire(ctx, conn, f, last)
		return err
	})
	return fired, a.inDoubt("fire a schedule", err)
}

// fire writes the run of an occurrence, and the row of its job, unless too many jobs of the schedule live.
func (a *Archive) fire(ctx context.Context, conn gorm.ConnPool, f *job.Firing, last time.Time) (job.Fired, error) {
	living, err := a.living(ctx, conn, f.Name)
	if err != nil {
		return "", err
	}
	if f.Living >= 0 && len(living) > f.Living {
		return job.FiredSkip, a.miss(ctx, conn, f.Name, last, &job.ScheduleRun{
			Occurrence: f.Run.Occurrence, Through: f.Run.Occurrence, Missed: 1, Reason: job.MissedOverlap,
			Detail: "the job " + string(living[0]) + " of an earlier occurrence has not ended",
		})
	}
	if fresh, err := a.addRun(ctx, conn, f.Name, &f.Run); err != nil || !fresh {
		return job.FiredLost, err
	}
	if err := a.replace(ctx, conn, f); err != nil {
		return "", err
	}
	_, err = insert(ctx, conn, a.inserts, acceptedTable, []*job.JournalRow{f.Row})
	return job.FiredJob, err
}

// living reads the jobs of a schedule that have not ended, the oldest first.
func (a *Archive) living(ctx context.Context, conn gorm.ConnPool, name string) (ids []job.ID, err error) {
	err = eachRow(ctx, conn, livingJobs, []any{name}, func(scan func(...any) error) error {
		var id job.ID
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the living jobs of a schedule: %w", err)
	}
	return ids, nil
}

// RunSchedule makes a job that an operator asks for, beside the occurrences of the schedule: it writes the run and the
// journal row. If the request has a job already, RunSchedule returns that job. living names a job that has not ended,
// if more of them live than f.Living allows; then nothing is made. f.Replaces is as with FireSchedule. The errors are
// job.ErrNoSchedule and job.ErrAmbiguous.
func (a *Archive) RunSchedule(ctx context.Context, f *job.Firing) (id, living job.ID, err error) {
	look := "SELECT incarnation FROM schedules WHERE name = ?" + a.db.Dialect.LockRows
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		id, living, f.Replaced = "", "", nil
		there := false
		err := eachRow(ctx, conn, look, []any{f.Name}, func(scan func(...any) error) error {
			var incarnation string
			there = true
			return scan(&incarnation)
		})
		if err == nil && !there {
			err = job.ErrNoSchedule
		}
		if err == nil {
			err = eachRow(ctx, conn, runOfRequest, []any{f.Name, f.Run.Request},
				func(scan func(...any) error) error { return scan((*string)(&id)) })
		}
		if err != nil || id != "" {
			return err
		}
		ids, err := a.living(ctx, conn, f.Name)
		if err != nil {
			return err
		}
		if f.Living >= 0 && len(ids) > f.Living {
			living = ids[0]
			return nil
		}
		if _, err := a.addRun(ctx, conn, f.Name, &f.Run); err != nil {
			return err
		}
		if err := a.replace(ctx, conn, f); err != nil {
			return err
		}
		id = f.Run.JobID
		_, err = insert(ctx, conn, a.inserts, acceptedTable, []*job.JournalRow{f.Row})
		return err
	})
	return id, living, a.inDoubt("run a schedule", err)
}

// RunOf returns the job that a request has made; "" = none.
func (a *Archive) RunOf(ctx context.Context, name, request string) (id job.ID, err error) {
	if err := a.db.Read.WithContext(ctx).Raw(runOfRequest, name, request).Scan((*string)(&id)).Error; err != nil {
		return "", database.Unavailable("read the run of a request", err)
	}
	return id, nil
}

// LivingRuns reads the jobs of a schedule that have not ended, the oldest first.
func (a *Archive) LivingRuns(ctx context.Context, name string) (ids []job.ID, err error) {
	if err := a.db.Read.WithContext(ctx).Raw(livingJobs, name).Scan(&ids).Error; err != nil {
		return nil, database.Unavailable("read the living jobs of a schedule", err)
	}
	return ids, nil
}

// ScheduleRuns reads the last occurrences of a schedule, fired or missed, the latest first, at most limit.
func (a *Archive) ScheduleRuns(ctx context.Context, name string, limit int) ([]job.ScheduleRun, error) {
	var rows []scheduleRunRow
	if err := a.db.Read.WithContext(ctx).Raw(runsOf, name, limit).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read the runs of a schedule", err)
	}
	runs := make([]job.ScheduleRun, len(rows))
	for i, r := range rows {
		runs[i] = job.ScheduleRun{
			Occurrence: r.Occurrence, Request: r.Request, JobID: job.ID(r.JobID), Through: r.ThroughAt, Missed: r.Missed,
			Reason: job.MissedReason(r.Reason), Detail: r.Detail, At: r.RecordedAt, Living: r.Living,
		}
	}
	return runs, nil
}

// ScheduleOfJob returns the name of the schedule that made a job, as far as it is remembered; "" = none.
func (a *Archive) ScheduleOfJob(ctx context.Context, id job.ID) (name string, err error) {
	if err := a.db.Read.WithContext(ctx).Raw(scheduleOfJob, string(id)).Scan(&name).Error; err != nil {
		return "", database.Unavailable("read the schedule of a job", err)
	}
	return name, nil
}

// TrimRuns forgets all but the last job.MaxScheduleRuns jobs of a schedule, and all but as many notes of missed
// occurrences.
func (a *Archive) TrimRuns(ctx context.Context, name string) error {
	for _, of := range []string{"job_id <> ''", "job_id = ''"} {
		var rows []scheduleRunRow
		look := "SELECT occurrence FROM schedule_runs WHERE name = ? AND " + of + " ORDER BY occurrence DESC LIMIT 1 OFFSET ?"
		if err := a.db.Read.WithContext(ctx).Raw(look, name, job.MaxScheduleRuns).Scan(&rows).Error; err != nil {
			return database.Unavailable("trim the runs of a schedule", err)
		}
		if len(rows) == 0 {
			continue
		}
		drop := "DELETE FROM schedule_runs WHERE name = ? AND occurrence <= ? AND " + of
		if _, err := a.db.Exec(ctx, drop, []any{name, rows[0].Occurrence.UTC()}); err != nil {
			return database.Unavailable("trim the runs of a schedule", err)
		}
	}
	return nil
}
