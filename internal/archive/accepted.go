package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

var acceptedTable = table[*job.JournalRow]{"accepted_jobs", []column[*job.JournalRow]{
	{"job_id", func(l *job.JournalRow) any { return string(l.ID) }},
	{"generation", func(l *job.JournalRow) any { return max(l.Generation, 1) }},
	{"tier", func(l *job.JournalRow) any { return string(l.Tier) }},
	{"type", func(l *job.JournalRow) any { return l.Type }},
	{"owner", func(l *job.JournalRow) any { return l.Owner }},
	{"priority", func(l *job.JournalRow) any { return l.Priority }},
	{"payload", func(l *job.JournalRow) any { return database.BytesOrNull(l.Payload) }},
	{"options", func(l *job.JournalRow) any { return database.BytesOrNull(options(l.Options)) }},
	{"max_retries", func(l *job.JournalRow) any { return l.MaxRetries }},
	{"arrived_at", func(l *job.JournalRow) any { return database.OrNull(l.ArrivedAt) }},
	{"due_at", func(l *job.JournalRow) any { return database.OrNull(l.RunAt) }},
	{"attempt", func(l *job.JournalRow) any { return l.Attempt }},
	{"retry_count", func(l *job.JournalRow) any { return l.RetryCount }},
	{"crash_count", func(l *job.JournalRow) any { return l.Crashes }},
	{"first_tried_at", func(l *job.JournalRow) any { return database.OrNull(l.FirstTriedAt) }},
	{"started_at", func(l *job.JournalRow) any { return database.OrNull(l.StartedAt) }},
	{"worker", func(l *job.JournalRow) any { return l.Worker }},
	{"lease_token", func(l *job.JournalRow) any { return l.Token }},
	{"lease_ms", func(l *job.JournalRow) any { return l.LeaseFor.Milliseconds() }},
	{"cancel_requested", func(l *job.JournalRow) any { return l.CancelRequested }},
	{"run_id", func(l *job.JournalRow) any { return l.Incarnation }},
	{"trace_id", func(l *job.JournalRow) any { return l.TraceID }},
	{"idempotency_key", func(l *job.JournalRow) any { return textOrNull(l.Idempotency.Key) }},
	{"idempotency_body", func(l *job.JournalRow) any { return textOrNull(l.Idempotency.Body) }},
	{"submitting", func(l *job.JournalRow) any { return l.Submitting }},
	{"kill_reason", func(l *job.JournalRow) any { return l.KillReason }},
}}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// laterStands is the update for a row of accepted_jobs that exists: a later generation replaces the row, anything
// else leaves it unchanged.
func laterStands(d database.Dialect) string {
	later := d.Offered("generation") + " > generation"
	set := func(column, to string) string {
		return column + " = CASE WHEN " + later + " THEN " + to + " ELSE " + column + " END"
	}
	sets := []string{set("recorded_at", d.Now)}
	for _, c := range acceptedTable.columns {
		if c.name != "job_id" && c.name != "generation" {
			sets = append(sets, set(c.name, d.Offered(c.name)))
		}
	}
	// generation is last, because MySQL assigns from left to right: the other columns compare its old value.
	return strings.Join(append(sets, set("generation", d.Offered("generation"))), ", ")
}

// living returns the job of a row. An error says that the options cannot be read; the job comes without them.
func (r *acceptedRow) living() (l job.JournalRow, err error) {
	l = job.JournalRow{
		Job: job.Job{
			ID: job.ID(r.JobID), Generation: r.Generation, Tier: job.Tier(r.Tier), Type: r.Type, Owner: r.Owner,
			TraceID: r.TraceID,
			Payload: r.Payload, Status: job.Pending, Attempt: r.Attempt, RetryCount: r.RetryCount, MaxRetries: r.MaxRetries,
			Crashes: r.CrashCount, CancelRequested: r.CancelRequested, Worker: r.Worker,
			ArrivedAt: database.OrZero(r.ArrivedAt), FirstTriedAt: database.OrZero(r.FirstTriedAt),
			StartedAt: database.OrZero(r.StartedAt), RunAt: database.OrZero(r.DueAt),
		},
		Priority: r.Priority, Incarnation: r.Incarnation, Submitting: r.Submitting, KillReason: r.KillReason,
		Token: r.LeaseToken, LeaseFor: time.Duration(r.LeaseMs) * time.Millisecond,
	}
	if r.IdempotencyKey != nil && r.IdempotencyBody != nil {
		l.Idempotency = job.Idempotency{Key: *r.IdempotencyKey, Body: *r.IdempotencyBody}
	}
	if l.Options, err = job.ReadOptions(string(r.Options)); err != nil {
		return l, fmt.Errorf("read accepted job %s: %w", r.JobID, err)
	}
	return l, nil
}

const (
	// A second note of the same attempt counts nothing again, because the row says that the job no longer runs.
	noteWaits = "UPDATE accepted_jobs SET started_at = NULL, worker = '', lease_token = '', " +
		"lease_ms = 0, retry_count = retry_count + ?, crash_count = crash_count + ?, due_at = ? " +
		"WHERE job_id = ? AND attempt = ? AND started_at IS NOT NULL"
	// A caller who cancels a job knows its id, so the job's submit was accepted.
	noteCancel = "UPDATE accepted_jobs SET cancel_requested = 1, submitting = 0, " +
		"run_id = CASE WHEN run_id = '' THEN ? ELSE run_id END WHERE job_id = ?"
	// noteKill stores with a kill that the job is to be cancelled: a process of an earlier version knows no kill.
	noteKill = "UPDATE accepted_jobs SET cancel_requested = 1, kill_reason = ?, submitting = 0, " +
		"run_id = CASE WHEN run_id = '' THEN ? ELSE run_id END WHERE job_id = ? AND generation = ?"
	// A row whose submit is not stamped yet gets the arrival too, because the stamp leaves it unchanged from now on.
	noteHasten = "UPDATE accepted_jobs SET due_at = NULL, arrived_at = COALESCE(arrived_at, ?), submitting = 0, " +
		"run_id = CASE WHEN run_id = '' THEN ? ELSE run_id END WHERE job_id = ?"
	// A claim proves that Redis has the job, and gives its arrival. A late claim changes nothing. A repeated one is
	// answered with another token.
	noteClaim = "UPDATE accepted_jobs SET arrived_at = ?, attempt = ?, retry_count = ?, crash_count = ?, " +
		"first_tried_at = ?, started_at = ?, worker = ?, lease_token = ?, lease_ms = ?, " +
		"due_at = NULL, submitting = 0, run_id = CASE WHEN run_id = '' THEN ? ELSE run_id END " +
		"WHERE job_id = ? AND generation = ? AND (attempt < ? OR attempt = ? AND started_at IS NOT NULL)"
	dropIfEnded = "DELETE FROM accepted_jobs WHERE job_id = ? AND (EXISTS " +
		"(SELECT 1 FROM job_outcomes o WHERE o.job_id = ? AND o.generation >= ?) OR EXISTS " +
		"(SELECT 1 FROM job_results r WHERE r.job_id = ? AND r.generation >= ?))"
)

// owe writes the row of a job that SQL owes to Redis, unless the job has ended.
func (a *Archive) owe(ctx context.Context, l *job.JournalRow) error {
	return a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		if _, err := insert(ctx, conn, a.inserts, acceptedTable, []*job.JournalRow{l}); err != nil {
			return err
		}
		id, generation := string(l.ID), max(l.Generation, 1)
		if _, err := conn.ExecContext(ctx, dropIfEnded, id, id, generation, id, generation); err != nil {
			return fmt.Errorf("delete accepted_jobs: %w", err)
		}
		return nil
	})
}

// dropAccepted removes the rows of size jobs that are of a given generation or an earlier one.
func (a *Archive) dropAccepted(size int) string {
	return a.db.Dialect.DeleteFrom("accepted_jobs") + " WHERE job_id IN " + database.Marks(size) +
		" AND generation <= ?"
}

// dropRows removes the rows of these generations and earlier ones, at most size jobs per statement. drop is
// dropAccepted(size).
func dropRows(ctx context.Context, conn gorm.ConnPool, ended []key, drop string, size int) error {
	slices.SortFunc(ended, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.generation, y.generation), strings.Compare(string(x.id), string(y.id)))
	})
	for len(ended) > 0 {
		g, n := ended[0].generation, 0
		var ids []job.ID
		for n < len(ended) && n < size && ended[n].generation == g {
			ids = append(ids, ended[n].id)
			n++
		}
		if _, err := conn.ExecContext(ctx, drop, append(padded(ids, size), g)...); err != nil {
			return fmt.Errorf("delete accepted_jobs: %w", err)
		}
		ended = ended[n:]
	}
	return nil
}

// padded returns size arguments: the ids, of which there are at most size, and then the last id repeated. So there
// are few statements to prepare.
func padded(ids []job.ID, size int) []any {
	args := make([]any, size)
	for i := range args {
		args[i] = string(ids[min(i, len(ids)-1)])
	}
	return args
}
