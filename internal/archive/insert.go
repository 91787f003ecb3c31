package archive

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// column is one column of a table and the function that gives its value for a row; nil = an expression of the
// insert gives it.
type column[T any] struct {
	name  string
	value func(T) any
}

type table[T any] struct {
	name    string
	columns []column[T]
}

var outcomeTable = table[*job.Outcome]{"job_outcomes", []column[*job.Outcome]{
	{"job_id", func(o *job.Outcome) any { return string(o.ID) }},
	{"generation", func(o *job.Outcome) any { return o.Generation }},
	{"outcome", func(o *job.Outcome) any { return string(o.Status.Shown()) }},
	{"attempt", func(o *job.Outcome) any { return o.Attempt }},
	{"tier", func(o *job.Outcome) any { return string(o.Tier) }},
	{"type", func(o *job.Outcome) any { return o.Type }},
	{"owner", func(o *job.Outcome) any { return o.Owner }},
	{"retry_count", func(o *job.Outcome) any { return o.RetryCount }},
	{"max_retries", func(o *job.Outcome) any { return o.MaxRetries }},
	{"arrived_at", func(o *job.Outcome) any { return database.OrNull(o.ArrivedAt) }},
	{"trace_id", func(o *job.Outcome) any { return o.TraceID }},
	{"first_tried_at", func(o *job.Outcome) any { return ifAlone(o, o.FirstTriedAt) }},
	{"started_at", func(o *job.Outcome) any { return ifAlone(o, o.StartedAt) }},
	{"ended_at", func(o *job.Outcome) any { return ifAlone(o, o.EndedAt) }},
	{"queue", func(o *job.Outcome) any { return o.Queue }},
}}

// ifAlone returns t for a cancelled or expired job and nil otherwise: the other jobs have a row in another table, with
// their times.
func ifAlone(o *job.Outcome, t time.Time) any {
	if o.Status != job.Cancelled && o.Status != job.Expired {
		return nil
	}
	return database.OrNull(t)
}

var resultTable = table[*job.Outcome]{"job_results", []column[*job.Outcome]{
	{"job_id", func(o *job.Outcome) any { return string(o.ID) }},
	{"generation", func(o *job.Outcome) any { return o.Generation }},
	{"tier", func(o *job.Outcome) any { return string(o.Tier) }},
	{"type", func(o *job.Outcome) any { return o.Type }},
	{"owner", func(o *job.Outcome) any { return o.Owner }},
	{"result", func(o *job.Outcome) any { return database.BytesOrNull(o.Result) }},
	{"retry_count", func(o *job.Outcome) any { return o.RetryCount }},
	{"max_retries", func(o *job.Outcome) any { return o.MaxRetries }},
	{"attempts", func(o *job.Outcome) any { return o.Attempt }},
	{"arrived_at", func(o *job.Outcome) any { return database.OrNull(o.ArrivedAt) }},
	{"first_tried_at", func(o *job.Outcome) any { return database.OrNull(o.FirstTriedAt) }},
	{"started_at", func(o *job.Outcome) any { return database.OrNull(o.StartedAt) }},
	{"completed_at", func(o *job.Outcome) any { return database.OrNull(o.EndedAt) }},
	{"trace_id", func(o *job.Outcome) any { return o.TraceID }},
	{"worker", func(o *job.Outcome) any { return o.Worker }},
	{"note", func(o *job.Outcome) any { return job.NoteOf(o.Result) }},
	{"recorded_at", nil},
	{"queue", func(o *job.Outcome) any { return o.Queue }},
}}

var failedTable = table[*job.Outcome]{"failed_jobs", []column[*job.Outcome]{
	{"job_id", func(o *job.Outcome) any { return string(o.ID) }},
	{"generation", func(o *job.Outcome) any { return o.Generation }},
	{"tier", func(o *job.Outcome) any { return string(o.Tier) }},
	{"type", func(o *job.Outcome) any { return o.Type }},
	{"owner", func(o *job.Outcome) any { return o.Owner }},
	{"payload", func(o *job.Outcome) any { return database.BytesOrNull(o.Payload) }},
	{"options", func(o *job.Outcome) any { return database.BytesOrNull(options(o.Options)) }},
	{"total_retries", func(o *job.Outcome) any { return o.RetryCount }},
	{"max_retries", func(o *job.Outcome) any { return o.MaxRetries }},
	{"attempts", func(o *job.Outcome) any { return o.Attempt }},
	{"arrived_at", func(o *job.Outcome) any { return database.OrNull(o.ArrivedAt) }},
	{"first_tried_at", func(o *job.Outcome) any { return database.OrNull(o.FirstTriedAt) }},
	{"started_at", func(o *job.Outcome) any { return database.OrNull(o.StartedAt) }},
	{"discarded_at", func(o *job.Outcome) any { return database.OrNull(o.EndedAt) }},
	{"failure_cause", func(o *job.Outcome) any { return string(o.Cause) }},
	{"last_error", func(o *job.Outcome) any { return o.LastError }},
	{"trace_id", func(o *job.Outcome) any { return o.TraceID }},
}}

type attemptOf struct {
	key
	*job.Attempt
}

var attemptTable = table[attemptOf]{"job_attempts", []column[attemptOf]{
	{"job_id", func(a attemptOf) any { return string(a.id) }},
	{"attempt", func(a attemptOf) any { return a.Number }},
	{"worker", func(a attemptOf) any { return a.Worker }},
	{"started_at", func(a attemptOf) any { return database.OrNull(a.StartedAt) }},
	{"finished_at", func(a attemptOf) any { return database.OrNull(a.FinishedAt) }},
	{"outcome", func(a attemptOf) any { return a.Outcome }},
	{"error", func(a attemptOf) any { return a.Error }},
	{"generation", func(a attemptOf) any { return a.generation }},
	{"until_at", func(a attemptOf) any { return database.OrNull(a.Until) }},
}}

// options returns what a row stores of the submit besides its payload; nil means nothing.
func options(o job.Options) []byte {
	if text := o.Text(); text != "" {
		return []byte(text)
	}
	return nil
}

// maxExact is the greatest number of submits that are always one INSERT. There is a statement for each number up to it:
// split into database.Sizes, 31 rows would be five statements, and each submit of the group waits for all of them.
const maxExact = 32

// cut returns how many of the n remaining rows the next INSERT into a table takes.
func (all inserts) cut(table string, n int) int {
	if _, exact := all[table][n]; exact {
		return n
	}
	for _, s := range database.Sizes {
		if s <= n {
			return s
		}
	}
	return 0
}

// inserts holds the text of each insert statement, by table and number of rows.
type inserts map[string]map[int]string

func buildInserts(d database.Dialect) inserts {
	all := inserts{}
	addInserts(all, outcomeTable, d.KeepFirst, nil)
	addInserts(all, resultTable, d.KeepFirst, map[string]string{"recorded_at": d.Now})
	addInserts(all, failedTable, d.KeepFirst, nil)
	addInserts(all, attemptTable, d.KeepFirst, nil)
	addInserts(all, flowJobTable, d.KeepFirst, nil)
	addInserts(all, memberTable, d.KeepFirst, nil)
	addInserts(all, logTable, d.KeepFirst, nil)
	later := func(key string) string { return d.OnConflict(key) + laterStands(d) }
	addInserts(all, acceptedTable, later, nil)
	for n := range maxExact {
		all[acceptedTable.name][n+1] = insertOf(acceptedTable, n+1, later, nil)
	}
	addInserts(all, keyTable, func(key string) string { return d.OnConflict(key) + firstJobHasIt(d) },
		map[string]string{"expires_at": d.Hence})
	return all
}

// addInserts builds the inserts of a table.
func addInserts[T any](all inserts, t table[T], ending func(key string) string, around map[string]string) {
	all[t.name] = map[int]string{}
	for _, n := range database.Sizes {
		all[t.name][n] = insertOf(t, n, ending, around)
	}
}

// insertOf returns the insert of n rows. around names, for some columns, the expression that stands in place of the ?
// of the value.
func insertOf[T any](t table[T], n int, ending func(key string) string, around map[string]string) string {
	names, values := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i], values[i] = "`"+c.name+"`", cmp.Or(around[c.name], "?")
	}
	row := "(" + strings.Join(values, ",") + ")"
	return "INSERT INTO `" + t.name + "` (" + strings.Join(names, ",") + ") VALUES " +
		strings.Repeat(row+",", n-1) + row + " " + ending(t.columns[0].name)
}

// insert writes rows. For tables whose inserts end with KeepFirst it returns how many of the rows were new.
func insert[T any](ctx context.Context, db gorm.ConnPool, all inserts, t table[T], rows []T) (int, error) {
	written := 0
	for len(rows) > 0 {
		n := all.cut(t.name, len(rows))
		args := make([]any, 0, n*len(t.columns))
		for _, row := range rows[:n] {
			for _, c := range t.columns {
				if c.value != nil {
					args = append(args, c.value(row))
				}
			}
		}
		r, err := db.ExecContext(ctx, all[t.name][n], args...)
		if err != nil {
			return written, fmt.Errorf("insert %s: %w", t.name, err)
		}
		affected, err := r.RowsAffected()
		if err != nil {
			return written, fmt.Errorf("insert %s: %w", t.name, err)
		}
		written += int(affected)
		rows = rows[n:]
	}
	return written, nil
}
