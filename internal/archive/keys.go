package archive

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/job"
)

// keyOfJob is an Idempotency-Key on its way into the journal.
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

// newestJobHasIt says what becomes of a key that is there: the job that was accepted under it now has it, and one that has it already keeps
// its time.
func newestJobHasIt(d dialect) string {
	set := func(column string) string {
		return column + " = CASE WHEN job_id = " + d.offered("job_id") + " THEN " + column + " ELSE " + d.offered(column) + " END"
	}
	return set("body") + ", " + set("expires_at") + ", job_id = " + d.offered("job_id") // the last: see laterStands
}

// keysOf are the keys of notes, those of rows among them, in one order for all writers.
func keysOf(n *notes, keep time.Duration) []keyOfJob {
	var keys []keyOfJob
	for _, l := range n.rows {
		if l.Idempotency.Key != "" {
			keys = append(keys, keyOfJob{l.Idempotency, l.ID, keep})
		}
	}
	for _, k := range n.keys {
		keys = append(keys, keyOfJob{k.Idempotency, k.ID, keep})
	}
	slices.SortStableFunc(keys, func(x, y keyOfJob) int { return cmp.Compare(x.Key, y.Key) })
	return keys
}

func livingKeys(d dialect) string {
	return "SELECT idem_key, body, job_id, expires_at FROM idempotency_keys WHERE idem_key > ? AND expires_at > " + d.now + " ORDER BY idem_key LIMIT ?"
}

func expiredKeys(d dialect) string {
	return "SELECT idem_key FROM idempotency_keys WHERE expires_at <= " + d.now + " ORDER BY expires_at LIMIT ?"
}

// Keys reads the Idempotency-Keys that have not expired, by the database's clock, in their order: those after after, at most limit (and at
// most 1,000).
func (a *Archive) Keys(ctx context.Context, after string, limit int) ([]job.KeyKept, error) {
	var rows []keyRow
	err := a.read.WithContext(ctx).Raw(livingKeys(a.dialect), after, min(max(limit, 1), maxPage)).Scan(&rows).Error
	if err != nil {
		return nil, unavailable("read keys", err)
	}
	keys := make([]job.KeyKept, len(rows))
	for i, r := range rows {
		keys[i] = job.KeyKept{Idempotency: job.Idempotency{Key: r.IdemKey, Body: r.Body}, ID: job.ID(r.JobID), Expires: r.ExpiresAt}
	}
	return keys, nil
}

// keysAtOnce is how many expired keys one call of DropKeys removes.
const keysAtOnce = 5_000

// DropKeys removes Idempotency-Keys that have expired, at most 5,000, in transactions of a batch each. It says how many
// it removed, and whether there may be more.
func (a *Archive) DropKeys(ctx context.Context) (dropped int64, more bool, err error) {
	var expired []string
	if err := a.read.WithContext(ctx).Raw(expiredKeys(a.dialect), keysAtOnce).Scan(&expired).Error; err != nil {
		return 0, false, unavailable("read expired keys", err)
	}
	slices.SortFunc(expired, strings.Compare)
	drop := a.dialect.deleteFrom("idempotency_keys") + " WHERE idem_key IN " + marks(maxBatch) + " AND expires_at <= " + a.dialect.now
	for part := range slices.Chunk(expired, maxBatch) {
		args := make([]any, maxBatch)
		for i := range args {
			args[i] = part[min(i, len(part)-1)]
		}
		var n int64
		err := a.brief(ctx, []string{drop}, func(conn gorm.ConnPool) error {
			r, err := conn.ExecContext(ctx, drop, args...)
			if err == nil {
				n, err = r.RowsAffected()
			}
			return err
		})
		if err != nil {
			return dropped, false, unavailable("drop expired keys", err)
		}
		dropped += n
	}
	return dropped, len(expired) == keysAtOnce, nil
}
