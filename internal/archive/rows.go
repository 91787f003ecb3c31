package archive

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/database"
)

// tables are the tables whose rows CountRows counts.
var tables = []string{
	"job_outcomes", "job_results", "failed_jobs", "job_attempts", "cancel_reasons", "job_logs", "accepted_jobs",
	"idempotency_keys", "changes", "flows", "flow_jobs", "batches", "batch_members",
}

// CountRows returns about how many rows each table has. For MySQL it returns the optimizer's estimate, which costs
// nothing and may be some per cent off. For SQLite it counts the rows along the smallest index.
func (a *Archive) CountRows(ctx context.Context) (map[string]int64, error) {
	rows := make(map[string]int64, len(tables))
	for _, table := range tables {
		n, err := a.countRows(ctx, table)
		if err != nil {
			return nil, database.Unavailable("count rows", err)
		}
		rows[table] = n
	}
	return rows, nil
}

func (a *Archive) countRows(ctx context.Context, table string) (n int64, err error) {
	if a.db.Read != a.db.Write {
		err = a.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM " + table).Scan(&n).Error
		return n, err
	}
	// information_schema would not do: MySQL caches its row counts for a day. FORMAT=TRADITIONAL is given because the
	// server has a setting for the default format.
	var plan struct{ Rows *int64 }
	err = a.db.Read.WithContext(ctx).Raw("EXPLAIN FORMAT=TRADITIONAL SELECT 1 FROM " + table).Scan(&plan).Error
	if err == nil && plan.Rows == nil {
		err = fmt.Errorf("no estimate for %s", table)
	}
	if err != nil {
		return 0, err
	}
	return *plan.Rows, nil
}
