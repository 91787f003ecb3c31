package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// A flow is in SQL only (docs/adr/0045-flows-wait-in-sql.md). Each transaction that changes a flow first locks its row
// in flows, those of several flows in the order of their ids, reads the whole graph, lets job.FlowGraph decide, and
// writes what the decision changed. So two transactions never decide about one flow at the same time.

// flowRow is a flow as a query reads it.
type flowRow struct {
	ID          string     `gorm:"type:char(36);primaryKey"`
	Name        string     `gorm:"type:varchar(100);not null"`
	Owner       string     `gorm:"type:varchar(64);not null"`
	TraceID     string     `gorm:"type:varchar(100);not null"`
	CreatedAt   time.Time  `gorm:"type:datetime(6);not null"` // Redis' clock
	EndedAt     *time.Time `gorm:"type:datetime(6)"`          // the database's clock; nil = not all jobs have ended
	State       string     `gorm:"type:varchar(16);not null"`
	Cancelled   bool       `gorm:"type:tinyint;not null"`
	RequestKey  *string    `gorm:"type:char(32)"`
	RequestBody *string    `gorm:"type:char(32)"`
}

func (flowRow) TableName() string { return "flows" }

func (r *flowRow) flow() job.Flow {
	f := job.Flow{
		ID: job.ID(r.ID), Name: r.Name, Owner: r.Owner, TraceID: r.TraceID, CreatedAt: r.CreatedAt,
		EndedAt: database.OrZero(r.EndedAt), State: job.FlowState(r.State), Cancelled: r.Cancelled,
	}
	if r.RequestKey != nil && r.RequestBody != nil {
		f.Request = job.Idempotency{Key: *r.RequestKey, Body: *r.RequestBody}
	}
	return f
}

// flowJobRow is a job of a flow as a query reads it.
type flowJobRow struct {
	FlowID           string     `gorm:"type:char(36);primaryKey"`
	Name             string     `gorm:"type:varchar(100);primaryKey"`
	JobID            string     `gorm:"type:char(36);not null"`
	Status           string     `gorm:"type:varchar(16);not null"`
	Generation       int        `gorm:"type:int;not null"`
	DependencyFailed bool       `gorm:"type:tinyint;not null"`
	OnFailure        string     `gorm:"type:varchar(8);not null"`
	Tier             string     `gorm:"type:varchar(31);not null"`
	Type             string     `gorm:"type:varchar(100);not null"`
	Owner            string     `gorm:"type:varchar(64);not null"`
	Queue            string     `gorm:"type:varchar(80);not null"` // "" = main
	Priority         int        `gorm:"type:int;not null"`
	MaxRetries       int        `gorm:"type:int;not null"`
	DelayMs          int64      `gorm:"type:bigint;not null"`
	RunAt            *time.Time `gorm:"type:datetime(6)"`
	ExpiresInMs      int64      `gorm:"type:bigint;not null;default:0"`
	TraceID          string     `gorm:"type:varchar(100);not null"`
	Content          string     `gorm:"type:char(32);not null"`
	WaitsFor         string     `gorm:"type:mediumtext;not null"`
	Options          []byte     `gorm:"type:mediumblob"`
	Payload          []byte     `gorm:"type:mediumblob"`
}

func (flowJobRow) TableName() string { return "flow_jobs" }

// flowJob returns the job of a row. An error says that options or waits_for cannot be read.
func (r *flowJobRow) flowJob() (j job.FlowJob, err error) {
	j = job.FlowJob{
		Job: job.Job{
			ID: job.ID(r.JobID), Generation: r.Generation, Tier: job.Tier(r.Tier), Type: r.Type, Owner: r.Owner,
			TraceID: r.TraceID, MaxRetries: r.MaxRetries, Status: job.Status(r.Status), Payload: r.Payload,
			RunAt: database.OrZero(r.RunAt),
		},
		Flow: job.ID(r.FlowID), Name: r.Name, OnFailure: job.OnFailure(r.OnFailure), Priority: r.Priority,
		Delay: time.Duration(r.DelayMs) * time.Millisecond, ExpiresIn: time.Duration(r.ExpiresInMs) * time.Millisecond,
		DependencyFailed: r.DependencyFailed,
	}
	if j.After, err = readAfter(r.WaitsFor); err != nil {
		return j, err
	}
	if j.Options, err = job.ReadOptions(string(r.Options)); err != nil {
		return j, fmt.Errorf("read flow job %s: %w", r.JobID, err)
	}
	j.Options.Queue, j.Options.Flow = r.Queue, job.ID(r.FlowID) // a list reads no options
	if j.DependencyFailed {
		j.Cause = job.DependencyFailed
	}
	return j, nil
}

func readAfter(text string) (after []string, err error) {
	if text == "[]" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &after); err != nil {
		return nil, fmt.Errorf("read the dependencies of a flow's job: %w", err)
	}
	return after, nil
}

func writeAfter(after []string) string {
	if len(after) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(after) // Marshal cannot fail on texts
	return string(text)
}

// offeredJob is a job of a flow that is to be inserted, with the hash of its content.
type offeredJob struct {
	*job.FlowJob
	content string
}

var flowJobTable = table[offeredJob]{"flow_jobs", []column[offeredJob]{
	{"flow_id", func(j offeredJob) any { return string(j.FlowJob.Flow) }},
	{"name", func(j offeredJob) any { return j.Name }},
	{"job_id", func(j offeredJob) any { return string(j.ID) }},
	{"status", func(j offeredJob) any { return string(j.Status) }},
	{"generation", func(j offeredJob) any { return max(j.Generation, 1) }},
	{"dependency_failed", func(j offeredJob) any { return j.DependencyFailed }},
	{"on_failure", func(j offeredJob) any { return string(j.OnFailure) }},
	{"tier", func(j offeredJob) any { return string(j.Tier) }},
	{"type", func(j offeredJob) any { return j.Type }},
	{"owner", func(j offeredJob) any { return j.Owner }},
	{"queue", func(j offeredJob) any { return j.Queue }},
	{"priority", func(j offeredJob) any { return j.Priority }},
	{"max_retries", func(j offeredJob) any { return j.MaxRetries }},
	{"delay_ms", func(j offeredJob) any { return j.Delay.Milliseconds() }},
	{"run_at", func(j offeredJob) any { return database.OrNull(j.RunAt) }},
	{"expires_in_ms", func(j offeredJob) any { return j.ExpiresIn.Milliseconds() }},
	{"trace_id", func(j offeredJob) any { return j.TraceID }},
	{"content", func(j offeredJob) any { return j.content }},
	{"waits_for", func(j offeredJob) any { return writeAfter(j.After) }},
	{"options", func(j offeredJob) any { return database.BytesOrNull(options(j.Options)) }},
	{"payload", func(j offeredJob) any { return database.BytesOrNull(j.Payload) }},
}}

// chunkBytes is about how many bytes one statement inserts: a database bounds the size of a statement.
const chunkBytes = 1 << 20

// insertChunks inserts rows in statements of about chunkBytes.
func insertChunks[T any](
	ctx context.Context, conn gorm.ConnPool, all inserts, t table[T], rows []T, size func(T) int,
) error {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < len(rows) && (n == 0 || bytes+size(rows[n]) <= chunkBytes) {
			bytes += size(rows[n])
			n++
		}
		if _, err := insert(ctx, conn, all, t, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func sizeOfRow(r *job.JournalRow) int { return len(r.Payload) + 512 }

func sizeOfOffered(j offeredJob) int { return len(j.Payload) + 512 }

const insertFlow = "INSERT INTO flows (id, name, owner, trace_id, created_at, state, cancelled, request_key, " +
	"request_body) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?) "

// CreateFlow writes a flow with all its jobs, which are WAITING or have no parent. contents has the hashes of what
// the submitter said of the jobs, in their order. The same transaction writes the journal rows of the jobs that wait
// for nothing, and CreateFlow returns them.
//
// If the flow's Request stands for another flow already, nothing is written, and first is that flow, without its jobs.
// After job.ErrAmbiguous the flow may be written: repeating the call with the same ids tells.
func (a *Archive) CreateFlow(ctx context.Context, f *job.Flow, contents []string) (
	first *job.Flow, released []job.JournalRow, err error) {
	insert := insertFlow + a.db.Dialect.KeepFirst("id")
	const byKey, byID = "SELECT * FROM flows WHERE request_key = ?", "SELECT * FROM flows WHERE id = ?"
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		first, released = nil, nil
		done, err := conn.ExecContext(ctx, insert, string(f.ID), f.Name, f.Owner, f.TraceID, f.CreatedAt.UTC(),
			string(job.FlowRunning), textOrNull(f.Request.Key), textOrNull(f.Request.Body))
		if err != nil {
			return fmt.Errorf("insert flows: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			first = &job.Flow{}
			return err
		}
		offered := make([]offeredJob, len(f.Jobs))
		for i := range f.Jobs {
			offered[i] = offeredJob{&f.Jobs[i], contents[i]}
		}
		if err := insertChunks(ctx, conn, a.inserts, flowJobTable, offered, sizeOfOffered); err != nil {
			return err
		}
		locked, err := a.loadFlow(ctx, conn, string(f.ID))
		if err == nil {
			released, err = a.settleFlow(ctx, conn, locked, f.CreatedAt)
		}
		return err
	})
	if err == nil && first != nil {
		first, err = a.firstFlow(ctx, byKey, f.Request.Key)
		if errors.Is(err, job.ErrFlowNotFound) { // a repeat of this very call
			first, err = a.firstFlow(ctx, byID, string(f.ID))
		}
	}
	if err != nil {
		return nil, nil, flowError("create a flow", err)
	}
	return first, released, nil
}

func (a *Archive) firstFlow(ctx context.Context, query, arg string) (*job.Flow, error) {
	var row flowRow
	err := a.db.Write.WithContext(ctx).Raw(query, arg).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, job.ErrFlowNotFound
	}
	if err != nil {
		return nil, err
	}
	f := row.flow()
	return &f, nil
}

// flowError wraps the error of a flow's transaction. Errors that say what is wrong with the request stay as they are.
func flowError(verb string, err error) error {
	var about *job.FlowError
	for _, said := range []error{job.ErrFlowNotFound, job.ErrFlowName, job.ErrFlowCancelled, job.ErrFlowFull,
		job.ErrNotFound, job.ErrAmbiguous, job.ErrLeaseLost, errBadFlow} {
		if errors.Is(err, said) {
			return fmt.Errorf("%s: %w", verb, err)
		}
	}
	if errors.As(err, &about) {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return database.Unavailable(verb, err)
}

// flowsOf returns the flows of some outcomes, sorted, each once.
func flowsOf(outcomes []*job.Outcome) (flows []string) {
	for _, o := range outcomes {
		if o.Flow != "" {
			flows = append(flows, string(o.Flow))
		}
	}
	slices.SortFunc(flows, strings.Compare)
	return slices.Compact(flows)
}
