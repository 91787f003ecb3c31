package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/database"
)

// oneRowFrom reads in how many milliseconds completed jobs begin to have one row.
func oneRowFrom(d *database.Dialect) string {
	return "SELECT " + d.Elapsed(d.Now, "from_at") + " FROM one_row"
}

// alone says whether a completed job has one row now. For a day after an upgrade it has a row in job_outcomes too,
// because processes of the earlier version read, and compare, only those.
func (a *Archive) alone(ctx context.Context) (bool, error) {
	if from := a.aloneFrom.Load(); from != nil {
		return !time.Now().Before(*from), nil
	}
	var ms int64
	if err := a.db.Write.WithContext(ctx).Raw(oneRowFrom(&a.db.Dialect)).Scan(&ms).Error; err != nil {
		return false, fmt.Errorf("read one_row: %w", err)
	}
	from := time.Now().Add(time.Duration(ms) * time.Millisecond)
	a.aloneFrom.Store(&from)
	return ms <= 0, nil
}
