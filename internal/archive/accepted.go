package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

var acceptedTable = table[*job.JournalRow]{"accepted_jobs", []column[*job.JournalRow]{
	{"job_id", func(l *job.JournalRow) any { return string(l.ID) }},
	{"generation", func(l *job.JournalRow) any { return max(l.Generation, 1) }},
	{"tier", func(l *job.JournalRow) any { return string(l.Tier) }},
	{"type", func(l *job.JournalRow) any { return l.Type }},
	{"owner", func(l *job.JournalRow) any { return l.Owner }},
	{"priority", func(l *job.JournalRow) any { return l.Priority }},
	{"payload", func(l *job.JournalRow) any { return bytesOrNull(l.Payload) }},
	{"options", func(l *job.JournalRow) any { return bytesOrNull(options(l.Options)) }},
	{"max_retries", func(l *job.JournalRow) any { return l.MaxRetries }},
	{"arrived_at", func(l *job.JournalRow) any { return orNull(l.ArrivedAt) }},
	{"due_at", func(l *job.JournalRow) any { return orNull(l.RunAt) }},
	{"attempt", func(l *job.JournalRow) any { return l.Attempt }},
	{"retry_count", func(l *job.JournalRow) any { return l.RetryCount }},
	{"first_tried_at", func(l *job.JournalRow) any { return orNull(l.FirstTriedAt) }},
	{"started_at", func(l *job.JournalRow) any { return orNull(l.StartedAt) }},
	{"worker", func(l *job.JournalRow) any { return l.Worker }},
	{"cancel_requested", func(l *job.JournalRow) any { return l.CancelRequested }},
	{"run_id", func(l *job.JournalRow) any { return l.Incarnation }},
	{"trace_id", func(l *job.JournalRow) any { return l.TraceID }},
	{"idempotency_key", func(l *job.JournalRow) any { return textOrNull(l.Idempotency.Key) }},
	{"idempotency_body", func(l *job.JournalRow) any { return textOrNull(l.Idempotency.Body) }},
}}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// progress are the columns that say how far a generation has come.
var progress = map[string]bool{"due_at": true, "retry_count": true, "first_tried_at": true, "started_at": true, "worker": true, "attempt": true}

// laterStands says what becomes of a row of accepted_jobs that is there: a later generation replaces it, a later attempt of the same
// generation brings it up to date, anything else leaves it as it is.
func laterStands(d dialect) string {
	later := d.offered("generation") + " > generation"
	further := later + " OR " + d.offered("generation") + " = generation AND " + d.offered("attempt") + " > attempt"
	set := func(column, when, to string) string {
		return column + " = CASE WHEN " + when + " THEN " + to + " ELSE " + column + " END"
	}
	sets := []string{set("recorded_at", later, d.now)}
	for _, c := range acceptedTable.columns {
		switch {
		case c.name == "job_id" || c.name == "generation" || c.name == "attempt":
		case progress[c.name]:
			sets = append(sets, set(c.name, further, d.offered(c.name)))
		default:
			sets = append(sets, set(c.name, later, d.offered(c.name)))
		}
	}
	// Last, because MySQL goes from left to right: the others ask for these two as they were.
	sets = append(sets, set("attempt", further, d.offered("attempt")), set("generation", later, d.offered("generation")))
	return strings.Join(sets, ", ")
}

// living is the job of a row; the error says that its options cannot be read, and it comes without them.
func (r *acceptedRow) living() (l job.JournalRow, err error) {
	l = job.JournalRow{
		Job: job.Job{
			ID: job.ID(r.JobID), Generation: r.Generation, Tier: job.Tier(r.Tier), Type: r.Type, Owner: r.Owner, TraceID: r.TraceID,
			Payload: r.Payload, Status: job.Pending, Attempt: r.Attempt, RetryCount: r.RetryCount, MaxRetries: r.MaxRetries,
			CancelRequested: r.CancelRequested, Worker: r.Worker, ArrivedAt: orZero(r.ArrivedAt), FirstTriedAt: orZero(r.FirstTriedAt),
			StartedAt: orZero(r.StartedAt), RunAt: orZero(r.DueAt),
		},
		Priority: r.Priority, Incarnation: r.Incarnation,
	}
	if r.IdempotencyKey != nil && r.IdempotencyBody != nil {
		l.Idempotency = job.Idempotency{Key: *r.IdempotencyKey, Body: *r.IdempotencyBody}
	}
	if l.Options, err = job.ReadOptions(string(r.Options)); err != nil {
		return l, fmt.Errorf("read accepted job %s: %w", r.JobID, err)
	}
	return l, nil
}

// notes is what one transaction of the journal writes.
type notes struct {
	rows  []*job.JournalRow // whole rows, see laterStands
	keys  []*job.KeyKept
	waits []*job.Waits
}

const (
	// Of a second copy nothing is counted again: the job does not run any more.
	noteWaits = "UPDATE accepted_jobs SET started_at = NULL, worker = '', retry_count = retry_count + ?, due_at = ? " +
		"WHERE job_id = ? AND attempt = ? AND started_at IS NOT NULL"
	noteCancel = "UPDATE accepted_jobs SET cancel_requested = 1, " +
		"run_id = CASE WHEN run_id = '' THEN ? ELSE run_id END WHERE job_id = ?"
)

// note writes notes in one transaction, and with them the Idempotency-Keys of its rows. Keys stay for keepKeys. A row whose outcome SQL has already
// is gone again when the transaction ends; if the two were written at the same moment it may stay, and Sweep finds it.
func (a *Archive) note(ctx context.Context, n *notes, keepKeys time.Duration) error {
	// One order for all writers, as in record. A job's rows stay in the order in which they came.
	slices.SortStableFunc(n.rows, func(x, y *job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
	keys := keysOf(n, keepKeys)
	size := sizeFor(len(n.rows))
	ended, drop := a.findEnded(size), a.dropAccepted(size)
	queries := slices.Concat(a.inserts.statements(acceptedTable.name, len(n.rows)), a.inserts.statements(keyTable.name, len(keys)))
	if len(n.rows) > 0 {
		queries = append(queries, ended, drop)
	}
	if len(n.waits) > 0 {
		queries = append(queries, noteWaits)
	}
	return a.brief(ctx, queries, func(conn gorm.ConnPool) error {
		if _, err := insert(ctx, conn, a.inserts, acceptedTable, n.rows); err != nil {
			return err
		}
		if err := a.dropEnded(ctx, conn, n.rows, ended, drop, size); err != nil {
			return err
		}
		if _, err := insert(ctx, conn, a.inserts, keyTable, keys); err != nil {
			return err
		}
		for _, w := range n.waits {
			if _, err := conn.ExecContext(ctx, noteWaits, w.Spent, orNull(w.Due), string(w.ID), w.Attempt); err != nil {
				return fmt.Errorf("update accepted_jobs: %w", err)
			}
		}
		return nil
	})
}

// findEnded reads which of size jobs have outcomes. Without locks: a locking read would wait for a transaction that may wait for us.
func (a *Archive) findEnded(size int) string {
	return "SELECT job_id, generation FROM job_outcomes" + a.dialect.byPrimary + " WHERE job_id IN " + marks(size)
}

// dropAccepted removes the rows of size jobs that are of a generation or an earlier one.
func (a *Archive) dropAccepted(size int) string {
	return a.dialect.deleteFrom("accepted_jobs") + " WHERE job_id IN " + marks(size) + " AND generation <= ?"
}

// dropEnded removes those of the rows just written whose outcome is there.
func (a *Archive) dropEnded(
	ctx context.Context,
	conn gorm.ConnPool,
	rows []*job.JournalRow,
	find, drop string,
	size int,
) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]job.ID, len(rows))
	for i, l := range rows {
		ids[i] = l.ID
	}
	found, err := conn.QueryContext(ctx, find, padded(ids, size)...)
	if err != nil {
		return fmt.Errorf("look for outcomes: %w", err)
	}
	defer found.Close()
	var ended []key
	for found.Next() {
		var k key
		if err := found.Scan(&k.id, &k.generation); err != nil {
			return fmt.Errorf("look for outcomes: %w", err)
		}
		ended = append(ended, k)
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("look for outcomes: %w", err)
	}
	if err := found.Close(); err != nil { // before the next statement on this connection
		return fmt.Errorf("look for outcomes: %w", err)
	}
	return dropRows(ctx, conn, ended, drop, size)
}

// dropRows removes the rows of these generations and earlier ones, at most size jobs. drop is dropAccepted of that size.
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

// sizeFor is the smallest of sizes that holds n, at most maxBatch.
func sizeFor(n int) int {
	best := maxBatch
	for _, s := range sizes {
		if s >= n {
			best = s
		}
	}
	return best
}

// marks is a list of n question marks.
func marks(n int) string { return "(" + strings.Repeat("?,", n-1) + "?)" }

// padded are at most size ids as arguments, the last one repeated, so that there are few texts to prepare.
func padded(ids []job.ID, size int) []any {
	args := make([]any, size)
	for i := range args {
		args[i] = string(ids[min(i, len(ids)-1)])
	}
	return args
}
