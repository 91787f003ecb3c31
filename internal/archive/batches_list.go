package archive

import (
	"context"
	"fmt"
	"strings"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// Batches reads batches, the latest first: those of an owner, or with all those of every owner. It leaves out a batch
// that cannot be read. cursor is "" or the next of an earlier call; limit is at most 1,000. next is "" at the end.
// job.ErrBadCursor: no Batches returned the cursor.
func (a *Archive) Batches(ctx context.Context, owner string, all bool, cursor string, limit int) (page []job.Batch,
	next string, err error) {
	before, err := readListCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), maxPage)
	where, args := "id < ?", []any{before}
	if !all {
		where, args = "owner = ? AND id < ?", []any{owner, before}
	}
	var rows []batchRow
	query := "SELECT " + batchColumns + " FROM batches WHERE " + where + " ORDER BY id DESC LIMIT ?"
	if err := a.db.Read.WithContext(ctx).Raw(query, append(args, limit+1)...).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("list batches", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].ID
	}
	for i := range rows {
		b, err := rows[i].batch()
		if err != nil {
			a.db.Log.Error("a batch cannot be read", "batch_id", rows[i].ID, "err", err) // a broken batch holds up no other
			continue
		}
		page = append(page, *b)
	}
	return page, next, nil
}

// Members reads members of a batch in the order of status and id: all of them (status nil), or those with a status;
// "" means the members that live. cursor is "" or the next of an earlier call; limit is at most 1,000. next is "" at
// the end. job.ErrBadCursor: no Members returned the cursor.
func (a *Archive) Members(ctx context.Context, batch job.ID, status *job.Status, cursor string, limit int) (
	page []job.BatchMember, next string, err error) {
	after, id, err := readMemberCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), maxPage)
	where, args := "(status > ? OR status = ? AND job_id > ?)", []any{string(after), string(after), string(id)}
	if status != nil {
		if cursor != "" && after != *status {
			return nil, "", fmt.Errorf("list members: %w", job.ErrBadCursor)
		}
		where, args = "status = ? AND job_id > ?", []any{string(*status), string(id)}
	}
	var rows []memberRow
	query := "SELECT * FROM batch_members" + a.db.Dialect.By("batch_members_batch") + " WHERE batch_id = ? AND " + where +
		" ORDER BY status, job_id LIMIT ?"
	args = append(append([]any{string(batch)}, args...), limit+1)
	if err := a.db.Read.WithContext(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("list members", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = rows[limit-1].Status + "_" + rows[limit-1].JobID
	}
	for _, r := range rows {
		page = append(page, job.BatchMember{ID: job.ID(r.JobID), Generation: r.Generation, Status: job.Status(r.Status),
			EndedAt: database.OrZero(r.EndedAt)})
	}
	return page, next, nil
}

// readMemberCursor parses <status>_<job id>.
func readMemberCursor(cursor string) (status job.Status, id job.ID, err error) {
	if cursor == "" {
		return "", "", nil
	}
	s, rest, found := strings.Cut(cursor, "_")
	id, err = job.ParseID(rest)
	if known := s == "" || s == string(job.MemberLost) || job.Status(s).Ended(); !found || !known || err != nil ||
		string(id) != rest {
		return "", "", fmt.Errorf("list members: %w", job.ErrBadCursor)
	}
	return job.Status(s), id, nil
}
