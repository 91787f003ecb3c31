package archive

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// withoutRowOfFlow reads the released jobs of a flow that have no journal row. A released job has a row until its
// outcome, whose transaction also changes the flow. So a released job without a row is wrong: its flow does not know
// the outcome, or the row is lost. The query compares the status as an expression: otherwise SQLite reads the index of
// all released jobs of all flows.
const withoutRowOfFlow = "SELECT j.job_id FROM flow_jobs j " +
	"WHERE j.flow_id = ? AND COALESCE(j.status, '') = 'PENDING' AND NOT EXISTS " +
	"(SELECT 1 FROM accepted_jobs a WHERE a.job_id = j.job_id AND a.generation >= j.generation)"

// openFlows reads the next flows that have not ended. There are few of them among all flows.
func openFlows(d *database.Dialect) string {
	return "SELECT id FROM flows" + d.By("flows_ended") + " WHERE ended_at IS NULL AND id > ? ORDER BY id LIMIT ?"
}

// CheckFlows checks the next limit flows that have not ended, behind the flow after, and repairs what is wrong: a
// WAITING job whose parents have all ended, a flow that was not told of an outcome, a released job that has neither a
// row nor an outcome. It returns what it found, and the jobs whose rows it wrote. next is "" at the end.
func (a *Archive) CheckFlows(ctx context.Context, after job.ID, limit int, now time.Time) (
	found []job.Finding, released []job.ID, next job.ID, err error) {
	var ids []job.ID
	err = a.db.Read.WithContext(ctx).Raw(openFlows(&a.db.Dialect), string(after), limit).Scan(&ids).Error
	if err != nil {
		return nil, nil, "", database.Unavailable("check flows", err)
	}
	for _, id := range ids {
		wrong, err := a.suspectFlow(ctx, id)
		if a.skips(string(id), err) {
			continue
		}
		if err != nil {
			return found, released, "", err
		}
		if !wrong {
			continue
		}
		some, rows, err := a.repairFlow(ctx, id, now)
		if a.skips(string(id), err) {
			continue
		}
		if err != nil {
			return found, released, "", err
		}
		found = append(found, some...)
		for i := range rows {
			released = append(released, rows[i].ID)
		}
	}
	if len(ids) == limit {
		next = ids[len(ids)-1]
	}
	return found, released, next, nil
}

// suspectFlow says whether a flow looks wrong. It reads without a lock, so a flow that moves may look wrong.
func (a *Archive) suspectFlow(ctx context.Context, id job.ID) (bool, error) {
	var lost []string
	if err := a.db.Read.WithContext(ctx).Raw(withoutRowOfFlow, string(id)).Scan(&lost).Error; err != nil {
		return false, database.Unavailable("check a flow", err)
	}
	if len(lost) > 0 {
		return true, nil
	}
	f, err := a.Flow(ctx, id)
	if err != nil {
		return false, err
	}
	graph, err := job.GraphOf(f.Jobs)
	if err != nil {
		return false, fmt.Errorf("check flow %s: %w: %w", id, errBadFlow, err)
	}
	free, cancelled := graph.Settle()
	return len(free)+len(cancelled) > 0 || graph.State() != f.State, nil
}

// repairFlow repairs a flow under its lock, and says what it repaired.
func (a *Archive) repairFlow(ctx context.Context, id job.ID, now time.Time) (
	found []job.Finding, rows []job.JournalRow, err error) {
	err = a.changeFlow(ctx, "repair a flow", id, func(conn gorm.ConnPool, f *lockedFlow) error {
		found, rows = nil, nil
		say := func(id job.ID, detail string) {
			found = append(found, job.Finding{
				ID: id, Partition: id.Partition(), Result: job.Repaired, Kind: "flow",
				Detail: f.names[id] + " of flow " + f.id + ": " + detail,
			})
		}
		var lost []job.ID
		err := eachRow(ctx, conn, withoutRowOfFlow, []any{f.id}, func(scan func(...any) error) error {
			var id job.ID
			err := scan(&id)
			lost = append(lost, id)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the jobs of a flow: %w", err)
		}
		var again []string
		for _, id := range lost {
			ended, err := a.endingOf(ctx, conn, id)
			if err != nil {
				return err
			}
			if ended.Status != "" && f.graph.End(f.names[id], ended.Generation, ended.Status) {
				say(id, "the flow did not know that the job ended "+string(ended.Status))
				continue
			}
			say(id, "the job had neither a journal row nor an outcome")
			again = append(again, f.names[id])
		}
		if rows, err = a.releaseNodes(ctx, conn, f, again, now); err != nil {
			return err
		}
		released, err := a.settleFlow(ctx, conn, f, now)
		if err != nil {
			return err
		}
		rows = append(rows, released...)
		for name, before := range f.before {
			if n := f.graph.Node(name); before.Status == job.Waiting && n.Status != job.Waiting {
				say(f.ids[name], "the job waited, and nothing was left to wait for")
			}
		}
		return nil
	})
	return found, rows, err
}

// endingOf reads the outcome of a job's latest ended generation in a transaction; no status = there is none.
func (a *Archive) endingOf(ctx context.Context, conn gorm.ConnPool, id job.ID) (last job.Recorded, err error) {
	const query = "SELECT generation, 'COMPLETED' FROM job_results WHERE job_id = ? UNION ALL " +
		"SELECT generation, outcome FROM job_outcomes WHERE job_id = ?"
	err = eachRow(ctx, conn, query, []any{string(id), string(id)}, func(scan func(...any) error) error {
		var r job.Recorded
		var status string
		if err := scan(&r.Generation, &status); err != nil {
			return err
		}
		if r.Generation > last.Generation {
			last = job.Recorded{Generation: r.Generation, Status: job.Status(status)}
		}
		return nil
	})
	if err != nil {
		return last, fmt.Errorf("read the outcomes of a job: %w", err)
	}
	return last, nil
}

// DeleteFlows deletes some of the flows whose last job ended at least age ago, and returns how many rows went: 0 at the
// end. The rows of the jobs themselves have a retention of their own.
func (a *Archive) DeleteFlows(ctx context.Context, age time.Duration) (deleted int64, err error) {
	const some = 20
	var ids []string
	old := "SELECT id FROM flows WHERE ended_at <= " + a.db.Dialect.Ago + " ORDER BY ended_at, id LIMIT ?"
	if err := a.db.Read.WithContext(ctx).Raw(old, age.Milliseconds(), some).Scan(&ids).Error; err != nil {
		return 0, database.Unavailable("read old flows", err)
	}
	ended := "SELECT id FROM flows WHERE id = ? AND ended_at IS NOT NULL"
	const dropJobs, drop = "DELETE FROM flow_jobs WHERE flow_id = ?", "DELETE FROM flows WHERE id = ?"
	for _, id := range ids {
		n := int64(0)
		err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
			n = 0
			if there, err := a.lockFlows(ctx, conn, []string{id}); err != nil || len(there) == 0 {
				return err
			}
			still := false // a requeue may have brought it back
			err := eachRow(ctx, conn, ended, []any{id}, func(scan func(...any) error) error {
				still = true
				return scan(new(string))
			})
			if err != nil || !still {
				return err
			}
			for _, statement := range []string{dropJobs, drop} {
				done, err := conn.ExecContext(ctx, statement, id)
				if err != nil {
					return err
				}
				rows, err := done.RowsAffected()
				if err != nil {
					return err
				}
				n += rows
			}
			return nil
		})
		if err != nil {
			return deleted, database.Unavailable("delete old flows", err)
		}
		deleted += n
	}
	return deleted, nil
}
