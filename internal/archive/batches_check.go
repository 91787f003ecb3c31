package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

const (
	// checkAtOnce is how many batches one call of CheckBatches looks at.
	checkAtOnce = 20
	// checkEnded is how long after its end a batch is still checked.
	checkEnded = 24 * time.Hour
	// orphansAtOnce is how many members without a job one look at a batch deals with.
	orphansAtOnce = 500
)

// orphans reads members that live and whose jobs have no journal row. Every job that lives has one, so these jobs have
// ended without being counted, or are gone.
const orphans = "SELECT m.job_id, m.generation FROM batch_members m WHERE m.batch_id = ? AND m.status = '' AND " +
	"NOT EXISTS (SELECT 1 FROM accepted_jobs a WHERE a.job_id = m.job_id) LIMIT ?"

const countMembers = "SELECT status, COUNT(*) FROM batch_members WHERE batch_id = ? GROUP BY status"

// CheckBatches checks some batches that have not ended, or ended less than a day ago, and repairs what it finds: a
// member whose end was not counted (a process of an earlier version stored it), a member whose job neither store has
// (only an edit by hand takes a job away), counts that differ from the members, a round that could not end because the
// batch was broken. It leaves out a broken batch. It begins behind the id after; next is where the next call goes on,
// "" at the end. missing returns those ids that Redis does not know.
func (a *Archive) CheckBatches(ctx context.Context, after job.ID, missing func(context.Context, []job.ID) ([]job.ID,
	error)) (found []job.Finding, next job.ID, err error) {
	var ids []job.ID
	query := "SELECT id FROM batches WHERE id > ? AND (ended_at IS NULL OR ended_at > " + a.db.Dialect.Ago +
		") ORDER BY id LIMIT ?"
	args := []any{string(after), checkEnded.Milliseconds(), checkAtOnce}
	if err := a.db.Read.WithContext(ctx).Raw(query, args...).Scan(&ids).Error; err != nil {
		return nil, "", database.Unavailable("check batches", err)
	}
	for _, id := range ids {
		some, err := a.checkMembers(ctx, id, missing)
		found = append(found, some...)
		if err == nil {
			some, err = a.checkCounts(ctx, id)
			found = append(found, some...)
		}
		switch {
		case errors.Is(err, errBadBatch):
			a.db.Log.Error("a batch is broken and is not checked", "batch_id", id, "err", err)
		case err != nil:
			return found, "", err
		}
	}
	if len(ids) == checkAtOnce {
		next = ids[len(ids)-1]
	}
	return found, next, nil
}

// checkMembers counts the ends of members whose jobs have ended, and the members that have no job.
func (a *Archive) checkMembers(ctx context.Context, batch job.ID, missing func(context.Context, []job.ID) ([]job.ID,
	error)) (found []job.Finding, err error) {
	var rows []memberRow
	err = a.db.Read.WithContext(ctx).Raw(orphans, string(batch), orphansAtOnce).Scan(&rows).Error
	if err != nil {
		return nil, database.Unavailable("check batches", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]job.ID, len(rows))
	for i, r := range rows {
		ids[i] = job.ID(r.JobID)
	}
	// Redis is asked before SQL: a job that SQL still has no outcome of, after Redis lacked it, has not ended.
	gone, err := missing(ctx, ids)
	if err != nil {
		return nil, err
	}
	ended, err := a.Outcomes(ctx, ids)
	if err != nil {
		return nil, err
	}
	lacks := map[job.ID]bool{}
	for _, id := range gone {
		lacks[id] = true
	}
	groups := groupsOf(rows, func(r memberRow) (job.ID, group) {
		id, g := job.ID(r.JobID), group{batch: string(batch), generation: r.Generation}
		for _, o := range ended[id] {
			if o.Generation >= r.Generation {
				g.status = o.Status
			}
		}
		detail := "the batch " + string(batch) + " had not counted the end of its member"
		switch {
		case g.status == "" && !lacks[id]:
			return id, group{} // Redis has it: its end will be counted
		case g.status == "":
			g.status, detail = job.MemberLost, "a member of the batch "+string(batch)+" that neither store has any more"
		}
		found = append(found, job.Finding{ID: id, Partition: -1, Result: job.Repaired, Kind: "batch", Detail: detail})
		return id, g
	})
	ctx, left := withUnowed(ctx)
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		_, err := a.ended(ctx, conn, groups) // the reconciler gives Redis what is owed
		return err
	})
	if err != nil {
		return nil, database.Unavailable("repair a batch", err)
	}
	a.tellUnowed(left)
	return found, nil
}

// checkCounts compares the counts of a batch with its members, and ends a round that should have ended. It looks
// without a lock first: a difference may be a transaction between the two reads.
func (a *Archive) checkCounts(ctx context.Context, id job.ID) ([]job.Finding, error) {
	differs, err := a.countsDiffer(ctx, a.db.Read.WithContext(ctx).Statement.ConnPool, id, false)
	if err != nil || !differs {
		return nil, err
	}
	lock := a.members.lock
	ctx, left := withUnowed(ctx)
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		// A transaction that changes members changes the counts too, and needs this lock for it.
		if err := eachRow(ctx, conn, lock, []any{string(id)}, func(func(...any) error) error { return nil }); err != nil {
			return fmt.Errorf("read batches: %w", err)
		}
		var err error
		if differs, err = a.countsDiffer(ctx, conn, id, true); err != nil || !differs {
			return err
		}
		_, err = a.endRound(ctx, conn, string(id))
		return err
	})
	if err != nil {
		return nil, database.Unavailable("repair a batch", err)
	}
	a.tellUnowed(left)
	if !differs {
		return nil, nil
	}
	return []job.Finding{{Partition: -1, Result: job.Repaired, Kind: "batch",
		Detail: "the counts of the batch " + string(id) + " were not those of its members, or its round had not ended"}}, nil
}

// countsDiffer says whether a batch's counts are not those of its members, or its round should have ended. With repair
// it sets the counts.
func (a *Archive) countsDiffer(ctx context.Context, conn gorm.ConnPool, id job.ID, repair bool) (bool, error) {
	was, err := readBatch(ctx, conn, a.members.read, string(id))
	if err != nil {
		return false, err
	}
	now := job.Batch{}
	err = eachRow(ctx, conn, countMembers, []any{string(id)}, func(scan func(...any) error) error {
		var status job.Status
		var n int64
		if err := scan(&status, &n); err != nil {
			return err
		}
		now.Total += n
		switch status {
		case job.Completed:
			now.Completed += n
		case job.Failed, job.MemberLost:
			now.Failed += n
		case job.Cancelled:
			now.Cancelled += n
		case job.Expired:
			now.Expired += n
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("count batch_members: %w", err)
	}
	same := was.Total == now.Total && was.Completed == now.Completed && was.Failed == now.Failed &&
		was.Cancelled == now.Cancelled && was.Expired == now.Expired
	if overdue := was.Sealed && was.Total == was.Ended() && was.EndedRound < was.Round; same || !repair {
		return !same || overdue, nil
	}
	return true, execute(ctx, conn, "UPDATE batches SET total = ?, completed = ?, failed = ?, cancelled = ?, expired = ? "+
		"WHERE id = ?", now.Total, now.Completed, now.Failed, now.Cancelled, now.Expired, string(id))
}

const (
	// unfinished passes the batches that were never sealed and of which no member lives.
	unfinished = "sealed = 0 AND total = completed + failed + cancelled + expired"
	// memberDeletes is how many members one DeleteBatches deletes.
	memberDeletes = 500
)

// DeleteBatches deletes an old batch, or some of its members. A batch is old if its last round ended at least age ago,
// or if nobody sealed it and it was made so long ago. A batch with a member that lives stays. DeleteBatches returns how
// many rows it deleted, 0 if no batch is old.
func (a *Archive) DeleteBatches(ctx context.Context, age time.Duration) (deleted int64, err error) {
	ms := age.Milliseconds()
	var ids []string
	for _, query := range []string{
		"SELECT id FROM batches WHERE ended_at <= " + a.db.Dialect.Ago + " ORDER BY ended_at LIMIT 1",
		"SELECT id FROM batches WHERE ended_at IS NULL AND created_at <= " + a.db.Dialect.Ago + " AND " + unfinished +
			" LIMIT 1",
	} {
		if err := a.db.Read.WithContext(ctx).Raw(query, ms).Scan(&ids).Error; err != nil {
			return 0, database.Unavailable("read old batches", err)
		}
		if len(ids) > 0 {
			break
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	lock := "SELECT 1 FROM batches" + a.db.Dialect.ByPrimary + " WHERE id = ? AND (ended_at <= " + a.db.Dialect.Ago +
		" OR ended_at IS NULL AND created_at <= " + a.db.Dialect.Ago + " AND " + unfinished + ")" + a.db.Dialect.LockRows
	// A round beyond the present one has ended only here: see revive.
	mark := "UPDATE batches" + a.db.Dialect.ByPrimary + " SET sealed = 1, ended_round = round + 1, " +
		"ended_at = COALESCE(ended_at, created_at) WHERE id = ?"
	some := "SELECT job_id FROM batch_members WHERE batch_id = ? LIMIT ?"
	drop := a.db.Dialect.DeleteFrom("batch_members") + " WHERE job_id IN " + database.Marks(memberDeletes)
	last := a.db.Dialect.DeleteFrom("batches") + " WHERE id = ?"
	err = a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		deleted = 0
		there := false
		err := eachRow(ctx, conn, lock, []any{ids[0], ms, ms}, func(func(...any) error) error { there = true; return nil })
		if err != nil || !there {
			return err
		}
		var members []job.ID
		err = eachRow(ctx, conn, some, []any{ids[0], memberDeletes}, func(scan func(...any) error) error {
			members = append(members, "")
			return scan(&members[len(members)-1])
		})
		if err != nil {
			return err
		}
		if len(members) > 0 {
			if _, err := conn.ExecContext(ctx, drop, padded(members, memberDeletes)...); err != nil {
				return err
			}
		}
		deleted = int64(len(members))
		if len(members) == memberDeletes {
			return execute(ctx, conn, mark, ids[0])
		}
		deleted++
		_, err = conn.ExecContext(ctx, last, ids[0])
		return err
	})
	if err != nil {
		return 0, database.Unavailable("delete an old batch", err)
	}
	return deleted, nil
}
