package archive

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The first outcome of a generation stands. A COMPLETED outcome is a row of job_results, any other is a row of
// job_outcomes, so two primary keys decide together (docs/adr/0032-one-row.md). A transaction inserts its own rows, and
// then reads the other table for rivals, with rows that other transactions have not committed yet. Of two transactions
// with different outcomes of one generation at least one sees the other's row. It waits until that transaction has
// ended, and gives way if the row is still there.

// mostNear is how many outcomes a look along a range of ids reads.
const mostNear = 1000

const outcomeColumns = "SELECT job_id, generation, outcome, attempt FROM job_outcomes"

// rivalsNear reads the outcomes between two ids. The ids of a batch are in the order of submits, and few other jobs
// of that time have a row here, so the range costs less than 500 keys.
func rivalsNear(d *database.Dialect) string {
	return outcomeColumns + d.ByPrimary + " WHERE job_id >= ? AND job_id <= ? LIMIT ?"
}

// rivalsOf reads the outcomes of size jobs.
func rivalsOf(d *database.Dialect, size int) string {
	return outcomeColumns + d.ByPrimary + " WHERE job_id IN " + database.Marks(size)
}

// completedOf reads the completed jobs among size jobs.
func completedOf(d *database.Dialect, size int) string {
	return "SELECT job_id, generation, 'COMPLETED', attempts FROM job_results" + d.ByPrimary + " WHERE job_id IN " +
		database.Marks(size)
}

// thisOutcome and thisResult read one row, and wait for the transaction that writes it.
func thisOutcome(d *database.Dialect) string {
	return outcomeColumns + " WHERE job_id = ? AND generation = ?" + d.LockRows
}

func thisResult(d *database.Dialect) string {
	return "SELECT job_id, generation, 'COMPLETED', attempts FROM job_results WHERE job_id = ? AND generation = ?" +
		d.LockRows
}

// rivals returns errSomeThere if another transaction has an outcome of one of these generations in the other table.
// completed and others are sorted by id, and this transaction has inserted their rows.
func (a *Archive) rivals(ctx context.Context, conn gorm.ConnPool, completed, others []*job.Outcome) error {
	d, there := &a.db.Dialect, map[key]ending{}
	if len(completed) > 0 {
		first, last := string(completed[0].ID), string(completed[len(completed)-1].ID)
		n, err := readEndings(ctx, conn, there, rivalsNear(d), []any{first, last, mostNear})
		if err != nil {
			return err
		}
		if n == mostNear {
			if err := readEach(ctx, conn, there, completed, func(size int) string { return rivalsOf(d, size) }); err != nil {
				return err
			}
		}
		if err := giveWay(ctx, conn, completed, there, thisOutcome(d)); err != nil {
			return err
		}
	}
	clear(there)
	if err := readEach(ctx, conn, there, others, func(size int) string { return completedOf(d, size) }); err != nil {
		return err
	}
	return giveWay(ctx, conn, others, there, thisResult(d))
}

// giveWay returns errSomeThere if a row that was seen of one of the outcomes is there when its transaction has ended.
func giveWay(ctx context.Context, conn gorm.ConnPool, outcomes []*job.Outcome, seen map[key]ending, this string) error {
	if len(seen) == 0 {
		return nil
	}
	for _, o := range outcomes {
		if _, ok := seen[keyOf(o)]; !ok {
			continue
		}
		n, err := readEndings(ctx, conn, map[key]ending{}, this, []any{string(o.ID), o.Generation})
		if err != nil {
			return err
		}
		if n > 0 {
			return errSomeThere
		}
	}
	return nil
}

// readEach adds to there the rows of these jobs, of a query for a number of jobs.
func readEach(
	ctx context.Context, conn gorm.ConnPool, there map[key]ending, outcomes []*job.Outcome, query func(size int) string,
) error {
	for part := range slices.Chunk(outcomes, maxBatch) {
		size := database.SizeFor(len(part))
		if _, err := readEndings(ctx, conn, there, query(size), padded(idsOfOutcomes(part), size)); err != nil {
			return err
		}
	}
	return nil
}

func idsOfOutcomes(outcomes []*job.Outcome) []job.ID {
	ids := make([]job.ID, len(outcomes))
	for i, o := range outcomes {
		ids[i] = o.ID
	}
	return ids
}

// readEndings adds the rows of a query to there, and returns how many it read.
func readEndings(
	ctx context.Context, conn gorm.ConnPool, there map[key]ending, query string, args []any,
) (n int, err error) {
	err = eachRow(ctx, conn, query, args, func(scan func(...any) error) error {
		var k key
		var e ending
		n++
		if err := scan(&k.id, &k.generation, &e.status, &e.attempt); err != nil {
			return err
		}
		there[k] = e
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("look up outcomes: %w", err)
	}
	return n, nil
}

// lookUp adds to there what SQL holds of the outcomes. A job is completed once: its row also stands for a COMPLETED
// outcome of another generation.
func (a *Archive) lookUp(ctx context.Context, outcomes []*job.Outcome, there map[key]ending) error {
	d := &a.db.Dialect
	// Reads the writing connection: a row that is not reached must not look absent.
	conn := a.db.Write.WithContext(ctx).Statement.ConnPool
	results, others := map[key]ending{}, map[key]ending{}
	err := readEach(ctx, conn, others, outcomes, func(size int) string { return rivalsOf(d, size) })
	if err == nil {
		err = readEach(ctx, conn, results, outcomes, func(size int) string { return completedOf(d, size) })
	}
	if err != nil {
		return err
	}
	completed := map[job.ID]ending{}
	for k, e := range results {
		completed[k.id] = e
	}
	for _, o := range outcomes {
		k := keyOf(o)
		if e, ok := results[k]; ok {
			there[k] = e
		} else if e, ok := others[k]; ok {
			there[k] = e
		} else if e, ok := completed[o.ID]; ok && o.Status.Shown() == job.Completed {
			there[k] = e
		}
	}
	return nil
}
