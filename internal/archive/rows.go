package archive

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/database"
)

// tables are those whose rows are counted.
var tables = []string{
	"job_outcomes", "job_results", "failed_jobs", "job_attempts", "cancel_reasons", "accepted_jobs",
	"idempotency_keys", "changes",
}

// CountRows says about how many rows each table has. MySQL is asked for what its optimizer believes, which costs
// nothing and may be some per cent off; SQLite counts, along its smallest index.
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
	// Not information_schema: MySQL keeps what that says for a day. FORMAT=TRADITIONAL, for the format is a setting of
	// the server.
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
