package archive

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// keyOfJob is an Idempotency-Key that is written with its job's journal row.
type keyOfJob struct {
	job.Idempotency
	id   job.ID
	keep time.Duration
}

var keyTable = table[keyOfJob]{"idempotency_keys", []column[keyOfJob]{
	{"idem_key", func(k keyOfJob) any { return k.Key }},
	{"body", func(k keyOfJob) any { return k.Body }},
	{"job_id", func(k keyOfJob) any { return string(k.id) }},
	{"expires_at", func(k keyOfJob) any { return k.keep.Milliseconds() }},
}}

// firstJobHasIt is the update for a key that exists: the key stays with its job, unless it has expired.
func firstJobHasIt(d database.Dialect) string {
	over := "expires_at <= " + d.Now
	set := func(column string) string {
		return column + " = CASE WHEN " + over + " THEN " + d.Offered(column) + " ELSE " + column + " END"
	}
	return set("body") + ", " + set("job_id") + ", " + set("expires_at") // last: the others compare its old value
}

// holdersOf reads size keys, expired keys too, and for each whether its job's submit may still take back its row.
func holdersOf(size int) string {
	return "SELECT k.idem_key, k.body, k.job_id, EXISTS (SELECT 1 FROM accepted_jobs a WHERE a.job_id = k.job_id AND " +
		takenBack + ") FROM idempotency_keys k WHERE k.idem_key IN " + database.Marks(size)
}

// holderOf is holdersOf for one key, and only if the key has not expired.
func holderOf(d database.Dialect) string { return holdersOf(1) + " AND k.expires_at > " + d.Now }

// holders reads the jobs that keys stand for, and the hash of the body that each key came with; both by key.
func holders(ctx context.Context, conn gorm.ConnPool, query string, keys []any) (map[string]job.KeyHolder,
	map[string]string, error) {
	held, bodies := map[string]job.KeyHolder{}, map[string]string{}
	err := eachRow(ctx, conn, query, keys, func(scan func(...any) error) error {
		var key, body string
		var h job.KeyHolder
		if err := scan(&key, &body, &h.ID, &h.Submitting); err != nil {
			return err
		}
		held[key], bodies[key] = h, body
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read idempotency_keys: %w", err)
	}
	return held, bodies, nil
}

// Holder returns the job that a key stands for, by the database's clock; no ID means that the key is free.
func (a *Archive) Holder(ctx context.Context, key job.Idempotency) (job.KeyHolder, error) {
	held, bodies, err := holders(
		ctx, a.db.Read.WithContext(ctx).Statement.ConnPool, holderOf(a.db.Dialect), []any{key.Key},
	)
	if err != nil {
		return job.KeyHolder{}, database.Unavailable("read a key", err)
	}
	h, there := held[key.Key]
	h.OtherBody = there && bodies[key.Key] != key.Body
	return h, nil
}

func expiredKeys(d database.Dialect) string {
	return "SELECT idem_key FROM idempotency_keys WHERE expires_at <= " + d.Now + " ORDER BY expires_at LIMIT ?"
}

// keysAtOnce is the largest number of expired keys that one call of DropKeys removes.
const keysAtOnce = 5_000

// DropKeys removes expired Idempotency-Keys, at most 5,000, in transactions of one batch each. It returns how many
// it removed, and whether there may be more.
func (a *Archive) DropKeys(ctx context.Context) (dropped int64, more bool, err error) {
	var expired []string
	if err := a.db.Read.WithContext(ctx).Raw(expiredKeys(a.db.Dialect), keysAtOnce).Scan(&expired).Error; err != nil {
		return 0, false, database.Unavailable("read expired keys", err)
	}
	slices.SortFunc(expired, strings.Compare)
	drop := a.db.Dialect.DeleteFrom("idempotency_keys") + " WHERE idem_key IN " + database.Marks(maxBatch) +
		" AND expires_at <= " + a.db.Dialect.Now
	for part := range slices.Chunk(expired, maxBatch) {
		args := make([]any, maxBatch)
		for i := range args {
			args[i] = part[min(i, len(part)-1)]
		}
		var n int64
		err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
			r, err := conn.ExecContext(ctx, drop, args...)
			if err == nil {
				n, err = r.RowsAffected()
			}
			return err
		})
		if err != nil {
			return dropped, false, database.Unavailable("drop expired keys", err)
		}
		dropped += n
	}
	return dropped, len(expired) == keysAtOnce, nil
}
