package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table schedules has a row for each schedule. SQL decides what they are and which occurrence comes next.

const (
	scheduleColumns = "name, version, owner, schedule, incarnation, occurrence, due_at, last_occurrence, created_at, " +
		"changed_at"
	allSchedules = "SELECT " + scheduleColumns + " FROM schedules ORDER BY name"
	oneSchedule  = "SELECT " + scheduleColumns + ", payload FROM schedules WHERE name = ?"
	dueSchedules = "SELECT " + scheduleColumns + ", payload FROM schedules WHERE due_at <= ? " +
		"ORDER BY due_at, name LIMIT ?"
	nextDue        = "SELECT due_at FROM schedules WHERE due_at > ? ORDER BY due_at LIMIT 1"
	scheduleOwners = "SELECT DISTINCT owner FROM schedules WHERE due_at IS NOT NULL AND owner <> ''"
	schedulesOf    = "SELECT name, version FROM schedules WHERE owner = ? AND due_at IS NOT NULL ORDER BY name"
)

// schedule returns the schedule of a row.
func (r *scheduleRow) schedule() (s job.Schedule, err error) {
	if err := json.Unmarshal([]byte(r.Schedule), &s); err != nil {
		return s, fmt.Errorf("read the schedule %q in SQL: %w", r.Name, err)
	}
	s.Name, s.Version, s.Owner, s.Incarnation, s.Job.Payload = r.Name, r.Version, r.Owner, r.Incarnation, r.Payload
	s.Next, s.Due, s.Last = database.OrZero(r.Occurrence), database.OrZero(r.DueAt), database.OrZero(r.LastOccurrence)
	s.CreatedAt, s.ChangedAt = r.CreatedAt, r.ChangedAt
	return s, nil
}

func (a *Archive) schedulesBy(ctx context.Context, query string, args ...any) ([]job.Schedule, error) {
	var rows []scheduleRow
	if err := a.db.Read.WithContext(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read schedules", err)
	}
	all := make([]job.Schedule, 0, len(rows))
	for i := range rows {
		one, err := rows[i].schedule()
		if err == nil {
			all = append(all, one)
			continue
		}
		if query == oneSchedule {
			return nil, err
		}
		a.db.Log.Error("a schedule cannot be read", "schedule", rows[i].Name, "err", err) // it holds up no other
	}
	return all, nil
}

// Schedules reads all schedules, by name, without their payloads. It leaves out a schedule that cannot be read.
func (a *Archive) Schedules(ctx context.Context) ([]job.Schedule, error) {
	return a.schedulesBy(ctx, allSchedules)
}

// Schedule reads a schedule. job.ErrNoSchedule.
func (a *Archive) Schedule(ctx context.Context, name string) (job.Schedule, error) {
	found, err := a.schedulesBy(ctx, oneSchedule, name)
	switch {
	case err != nil:
		return job.Schedule{}, err
	case len(found) == 0:
		return job.Schedule{}, job.ErrNoSchedule
	}
	return found[0], nil
}

// DueSchedules reads the schedules that are due by a time, the first due first, at most limit. next is when the next
// schedule after these is due, zero = no schedule is.
func (a *Archive) DueSchedules(ctx context.Context, by time.Time, limit int) (due []job.Schedule, next time.Time,
	err error) {
	if due, err = a.schedulesBy(ctx, dueSchedules, by.UTC(), limit); err != nil {
		return nil, next, err
	}
	var rows []scheduleRow
	if err := a.db.Read.WithContext(ctx).Raw(nextDue, by.UTC()).Scan(&rows).Error; err != nil {
		return nil, next, database.Unavailable("read when a schedule is due", err)
	}
	if len(rows) > 0 {
		next = database.OrZero(rows[0].DueAt)
	}
	return due, next, nil
}

// ScheduleOwners reads the ids of the API keys that have schedules which are not paused.
func (a *Archive) ScheduleOwners(ctx context.Context) (owners []string, err error) {
	if err := a.db.Read.WithContext(ctx).Raw(scheduleOwners).Scan(&owners).Error; err != nil {
		return nil, database.Unavailable("read the owners of schedules", err)
	}
	return owners, nil
}

// SchedulesOf reads name and version of an API key's schedules that are not paused.
func (a *Archive) SchedulesOf(ctx context.Context, owner string) ([]job.Schedule, error) {
	var rows []scheduleRow
	if err := a.db.Read.WithContext(ctx).Raw(schedulesOf, owner).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read the schedules of an owner", err)
	}
	all := make([]job.Schedule, len(rows))
	for i := range rows {
		all[i] = job.Schedule{Name: rows[i].Name, Version: rows[i].Version}
	}
	return all, nil
}

// scheduleValues returns the values of the columns that a change of a schedule sets.
func scheduleValues(s *job.Schedule) ([]any, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("store a schedule: %w", err)
	}
	return []any{
		s.Version, s.Owner, string(text), database.BytesOrNull(s.Job.Payload), s.Incarnation, database.OrNull(s.Next),
		database.OrNull(s.Due), database.OrNull(s.Last),
	}, nil
}

const scheduleSets = "version = ?, owner = ?, schedule = ?, payload = ?, incarnation = ?, occurrence = ?, " +
	"due_at = ?, last_occurrence = ?, changed_at = "

// StoreSchedule stores a schedule whose row has version s.Version - 1; version 1 is a new schedule. next is the row's
// occurrence as the caller has read it, zero = none. job.ErrChanged: the row has another version or occurrence, or is
// there already. job.ErrBadSchedule: there are too many. job.ErrAmbiguous: it may have been stored.
func (a *Archive) StoreSchedule(ctx context.Context, s job.Schedule, next time.Time) error {
	values, err := scheduleValues(&s)
	if err != nil {
		return err
	}
	if s.Version == 1 {
		return a.addSchedule(ctx, &s, values)
	}
	update := "UPDATE schedules SET " + scheduleSets + a.db.Dialect.Now + " WHERE name = ? AND version = ? AND "
	args := append(values, s.Name, s.Version-1)
	if next.IsZero() {
		update += "occurrence IS NULL"
	} else {
		update += "occurrence = ?"
		args = append(args, next.UTC())
	}
	changed, err := a.db.Exec(ctx, update, args)
	switch {
	case err != nil:
		return a.inDoubt("store a schedule", err)
	case changed == 0:
		return job.ErrChanged
	}
	return nil
}

// addSchedule inserts a schedule, and then counts all. The count locks the rows that it reads: of two transactions that
// insert at the same time one waits for the other, or is made again after a deadlock.
func (a *Archive) addSchedule(ctx context.Context, s *job.Schedule, values []any) error {
	count := "SELECT COUNT(*), COALESCE(SUM(CASE WHEN owner = ? THEN 1 ELSE 0 END), 0) FROM schedules" +
		a.db.Dialect.ByPrimary + a.db.Dialect.LockRows
	insert := "INSERT INTO schedules (version, owner, schedule, payload, incarnation, occurrence, due_at, " +
		"last_occurrence, name, created_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, " + a.db.Dialect.Now + ", " +
		a.db.Dialect.Now + ") " + a.db.Dialect.KeepFirst("name")
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		r, err := conn.ExecContext(ctx, insert, append(values, s.Name)...)
		if err != nil {
			return fmt.Errorf("insert schedules: %w", err)
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, job.ErrChanged)
		}
		var all, own int
		if err := conn.QueryRowContext(ctx, count, s.Owner).Scan(&all, &own); err != nil {
			return fmt.Errorf("count schedules: %w", err)
		}
		if all > job.MaxSchedules || own > job.MaxSchedulesOfOwner {
			return job.BadSchedule("name", "is one too many: there are %d schedules, %d of them of this owner", all-1, own-1)
		}
		return nil
	})
	return a.inDoubt("store a schedule", err)
}

// DeleteSchedule deletes a schedule of a version (-1 = any) and what it remembers of its runs. Their jobs go on.
// job.ErrNoSchedule, job.ErrChanged.
func (a *Archive) DeleteSchedule(ctx context.Context, name string, version int64) error {
	const (
		look = "SELECT version FROM schedules WHERE name = ?"
		drop = "DELETE FROM schedules WHERE name = ?"
		runs = "DELETE FROM schedule_runs WHERE name = ?"
	)
	locked := look + a.db.Dialect.LockRows
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		is := int64(-1)
		err := eachRow(ctx, conn, locked, []any{name}, func(scan func(...any) error) error { return scan(&is) })
		switch {
		case err != nil:
			return fmt.Errorf("read schedules: %w", err)
		case is < 0:
			return job.ErrNoSchedule
		case version >= 0 && is != version:
			return job.ErrChanged
		}
		for _, query := range []string{drop, runs} {
			if _, err := conn.ExecContext(ctx, query, name); err != nil {
				return fmt.Errorf("delete a schedule: %w", err)
			}
		}
		return nil
	})
	return a.inDoubt("delete a schedule", err)
}

// inDoubt returns the error of a change of schedules: a sentinel as it is, job.ErrUnavailable if the change was
// certainly not made, else job.ErrAmbiguous.
func (a *Archive) inDoubt(verb string, err error) error {
	for _, known := range []error{job.ErrNoSchedule, job.ErrChanged, job.ErrBadSchedule, job.ErrAmbiguous} {
		if errors.Is(err, known) {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case a.db.ChangedNothing(err):
		return database.Unavailable(verb, err)
	}
	return database.Ambiguous(verb, err)
}
