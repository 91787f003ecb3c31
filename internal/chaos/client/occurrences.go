package client

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// Schedules names the API key of the operators of schedules, and the database that has the occurrences. The zero value
// has no schedules.
type Schedules struct {
	Key Key     // an admin's; it owns the schedules
	DB  *sql.DB // the servers themselves forget old occurrences, and the occurrences of a deleted schedule
}

// occurrences has the rows of the occurrences of all schedules, as they were read last, and the operators' changes.
type occurrences struct {
	reading sync.Mutex
	read    time.Time // when the last complete reading began
	rows    map[occurrence]check.OccurrenceRun
	wishes  []check.ScheduleWish
	changes []check.ScheduleChange
}

// occurrence is the key of a row, and its job.
type occurrence struct {
	name, request string
	at            int64
	id            job.ID
}

const (
	occurrencesQuery = "SELECT name, occurrence, through_at, request, job_id, missed, reason, recorded_at FROM " +
		"schedule_runs"
	// A completed job's row is its result, any other outcome is a row of job_outcomes.
	ofOwnerQuery = "SELECT job_id FROM job_results WHERE owner = ? UNION " +
		"SELECT job_id FROM job_outcomes WHERE owner = ? ORDER BY job_id"
	firingQuery = "SELECT last_occurrence FROM schedules WHERE due_at IS NOT NULL"
)

// readOccurrences reads the rows of schedule_runs. It returns when the last complete reading began.
func (l *Load) readOccurrences(ctx context.Context) time.Time {
	l.occurrences.reading.Lock()
	defer l.occurrences.reading.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	err := rows(ctx, l.Schedules.DB, occurrencesQuery, func(scan func(...any) error) error {
		var r check.OccurrenceRun
		var at, through, recorded stamp
		var request string
		err := scan(&r.Name, &at, &through, &request, &r.JobID, &r.Missed, &r.Reason, &recorded)
		r.Occurrence, r.Through, r.At, r.Asked = at.Time, through.Time, recorded.Time, request != ""
		if l.occurrences.rows == nil {
			l.occurrences.rows = map[occurrence]check.OccurrenceRun{}
		}
		l.occurrences.rows[occurrence{r.Name, request, at.UnixNano(), r.JobID}] = r
		return err
	})
	if err == nil { // else the database is away, and is read again
		l.occurrences.read = began
	}
	return l.occurrences.read
}

// behind says whether a schedule that fires may have an occurrence of some seconds ago that is not decided.
func (l *Load) behind(ctx context.Context) bool {
	late := false
	err := rows(ctx, l.Schedules.DB, firingQuery, func(scan func(...any) error) error {
		var last stamp
		err := scan(&last)
		late = late || time.Since(last.Time) > 5*time.Second
		return err
	})
	return late || err != nil
}

// wished records the values that an operator asks for.
func (h *history) wished(w check.ScheduleWish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.occurrences.wishes = append(h.occurrences.wishes, w)
	h.write(line{Wished: &w})
}

// changed records a change of a schedule.
func (h *history) changed(c check.ScheduleChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.occurrences.changes = append(h.occurrences.changes, c)
	h.write(line{Changed: &c})
}

// ReadSchedules fills in the evidence about schedules. Operate and EndSchedules must have ended.
func (l *Load) ReadSchedules(ctx context.Context, e *check.Evidence) error {
	if l.Schedules.DB == nil {
		return nil
	}
	s := &e.Schedules
	s.Wishes, s.Changes = slices.Clone(l.occurrences.wishes), slices.Clone(l.occurrences.changes)
	for _, r := range l.occurrences.rows {
		s.Runs = append(s.Runs, r)
	}
	slices.SortFunc(s.Runs, func(x, y check.OccurrenceRun) int { return x.At.Compare(y.At) })
	owner := l.Schedules.Key.ID
	found, err := l.Schedules.DB.QueryContext(ctx, ofOwnerQuery, owner, owner)
	if err != nil {
		return fmt.Errorf("read the jobs of schedules: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var id job.ID
		if err := found.Scan(&id); err != nil {
			return fmt.Errorf("read the jobs of schedules: %w", err)
		}
		s.Owned = append(s.Owned, id)
	}
	return found.Err()
}
