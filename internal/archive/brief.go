package archive

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
)

// brief runs a transaction that locks nothing but the rows it writes. It is tried again at once after a deadlock or a lock wait, so do
// may run more than once. queries are the statements it may use. After an error it has changed nothing, unless that is job.ErrAmbiguous:
// the COMMIT was sent and its answer lost.
func (a *Archive) brief(ctx context.Context, queries []string, do func(conn gorm.ConnPool) error) (err error) {
	db := a.write.WithContext(ctx)
	for try := range patience {
		committing := false
		if err = prepare(ctx, db, queries); err == nil {
			err = db.Transaction(func(tx *gorm.DB) error {
				if err := do(tx.Statement.ConnPool); err != nil {
					return err
				}
				committing = true
				return nil
			}, &sql.TxOptions{Isolation: a.dialect.isolation})
		}
		switch {
		case err == nil:
			return nil
		case committing && !a.unmade(err):
			return ambiguous("commit", err)
		case a.dialect.verdict(err) != again:
			return err
		}
		if err := pause(ctx, time.Duration(rand.Int64N(int64(10*time.Millisecond)<<try))); err != nil {
			return err
		}
	}
	return err
}
