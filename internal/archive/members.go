package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// A batch's counts change in the transactions that change its members: the submit's and the take-back's, the
// outcome's, the requeue's. Each adds to a count what its statement on the members has changed, so what is repeated
// changes nothing. The last statement of each asks whether the round has ended. See
// docs/adr/0044-batches-in-sql.md.
//
// All lock the row of the batch after the rows of the members, except the submit: it locks the batch first, and then
// inserts members that no other transaction can have locked.

var memberTable = table[*job.JournalRow]{"batch_members", []column[*job.JournalRow]{
	{"job_id", func(l *job.JournalRow) any { return string(l.ID) }},
	{"batch_id", func(l *job.JournalRow) any { return l.Batch }},
	{"generation", func(l *job.JournalRow) any { return max(l.Generation, 1) }},
	{"status", func(*job.JournalRow) any { return "" }},
	{"ended_at", func(*job.JournalRow) any { return nil }},
}}

// memberStatements are the statements on members and batches.
type memberStatements struct {
	lock, add, count, revive, endRound, goOn, read string
}

func memberStatementsOf(d database.Dialect) memberStatements {
	of := "UPDATE batches" + d.ByPrimary + " SET "
	return memberStatements{
		lock: "SELECT owner, sealed FROM batches" + d.ByPrimary + " WHERE id = ?" + d.LockRows,
		add:  of + "total = total + ? WHERE id = ?",
		count: of + "completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?, expired = expired + ? " +
			"WHERE id = ?",
		revive: of + "failed = failed - ?, round = round + CASE WHEN ended_round = round THEN 1 ELSE 0 END, " +
			"ended_at = NULL WHERE id = ? AND ended_round <= round", // else DeleteBatches is deleting it
		endRound: of + "ended_round = round, ended_at = " + d.Now + " WHERE id = ? AND sealed = 1 AND " +
			"total = completed + failed + cancelled + expired AND ended_round < round",
		goOn: of + "ended_round = round - 1, ended_at = NULL WHERE id = ?",
		read: "SELECT " + batchColumns + " FROM batches" + d.ByPrimary + " WHERE id = ?",
	}
}

// These three change size members of one batch.
func endMembers(d database.Dialect, size int) string {
	return "UPDATE batch_members" + d.ByPrimary + " SET status = ?, ended_at = " + d.Now + " WHERE job_id IN " +
		database.Marks(size) + " AND batch_id = ? AND generation = ? AND status = ''"
}

func reviveMembers(d database.Dialect, size int) string {
	return "UPDATE batch_members" + d.ByPrimary + " SET status = '', generation = ?, ended_at = NULL WHERE job_id IN " +
		database.Marks(size) + " AND batch_id = ? AND generation < ? AND status = 'FAILED'"
}

func dropMembers(d database.Dialect, size int) string {
	return d.DeleteFrom("batch_members") + " WHERE job_id IN " + database.Marks(size) + " AND batch_id = ? AND status = ''"
}

// group is some members of one batch.
type group struct {
	batch      string
	generation int
	status     job.Status // that they ended with; "" = they did not end
	ids        []job.ID
}

// groupsOf sorts jobs into groups, in the order of the batches' ids: all writers lock alike.
func groupsOf[T any](jobs []T, of func(T) (id job.ID, g group)) []group {
	type alike struct {
		batch      string
		generation int
		status     job.Status
	}
	all := map[alike]*group{}
	for _, j := range jobs {
		id, g := of(j)
		if g.batch == "" {
			continue
		}
		a := alike{g.batch, g.generation, g.status}
		if all[a] == nil {
			all[a] = &g
		}
		all[a].ids = append(all[a].ids, id)
	}
	groups := make([]group, 0, len(all))
	for _, g := range all {
		slices.Sort(g.ids)
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(x, y group) int {
		return strings.Compare(fmt.Sprint(x.batch, x.generation, x.status), fmt.Sprint(y.batch, y.generation, y.status))
	})
	return groups
}

func endedGroup(o *job.Outcome) (job.ID, group) {
	return o.ID, group{batch: o.Batch, generation: max(o.Generation, 1), status: o.Status.Shown()}
}

func rowGroup(l *job.JournalRow) (job.ID, group) {
	return l.ID, group{batch: l.Batch, generation: max(l.Generation, 1)}
}

func takenBackGroup(n *noted) (job.ID, group) { return rowGroup(n.row) }

// change runs one statement on the members of a group and returns how many of them it changed.
func (a *Archive) change(ctx context.Context, conn gorm.ConnPool, g group, text func(database.Dialect, int) string,
	before, after []any) (changed int64, err error) {
	for part := range slices.Chunk(g.ids, maxBatch) {
		size := database.SizeFor(len(part))
		args := slices.Concat(before, padded(part, size), []any{g.batch}, after)
		r, err := conn.ExecContext(ctx, text(a.db.Dialect, size), args...)
		if err != nil {
			return changed, fmt.Errorf("change batch_members: %w", err)
		}
		n, err := r.RowsAffected()
		if err != nil {
			return changed, fmt.Errorf("change batch_members: %w", err)
		}
		changed += n
	}
	return changed, nil
}

// ended stores how members ended, counts them, and returns the rows of the jobs that their batches owe now.
func (a *Archive) ended(ctx context.Context, conn gorm.ConnPool, groups []group) (owed []job.JournalRow, err error) {
	counts := map[string]map[job.Status]int64{}
	for _, g := range groups {
		n, err := a.change(ctx, conn, g, endMembers, []any{string(g.status)}, []any{g.generation})
		if err != nil {
			return nil, err
		}
		if n > 0 && counts[g.batch] == nil {
			counts[g.batch] = map[job.Status]int64{}
		}
		if n > 0 {
			status := g.status
			if status == job.MemberLost {
				status = job.Failed
			}
			counts[g.batch][status] += n
		}
	}
	for _, batch := range slices.Sorted(maps.Keys(counts)) {
		n := counts[batch]
		if err := execute(ctx, conn, a.members.count, n[job.Completed], n[job.Failed], n[job.Cancelled], n[job.Expired],
			batch); err != nil {
			return nil, err
		}
		some, err := a.endRound(ctx, conn, batch)
		if err != nil {
			return nil, err
		}
		owed = append(owed, some...)
	}
	return owed, nil
}

// add makes jobs the members of a batch that is open, and counts them. It returns the jobs that the batch takes, and
// sets in the notes of the others why it does not.
func (a *Archive) add(ctx context.Context, conn gorm.ConnPool, batch string, notes []*noted) ([]*job.JournalRow,
	error) {
	var owner string
	var there, sealed bool
	err := eachRow(ctx, conn, a.members.lock, []any{batch}, func(scan func(...any) error) error {
		there = true
		return scan(&owner, &sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("read batches: %w", err)
	}
	var rows []*job.JournalRow
	for _, n := range notes {
		switch {
		case !there || n.row.Owner != owner:
			n.holder.Refused = job.ErrNoBatch
		case sealed:
			n.holder.Refused = job.ErrSealed
		default:
			n.holder.Refused = nil
			rows = append(rows, n.row)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	added, err := insert(ctx, conn, a.inserts, memberTable, rows)
	if err != nil {
		return nil, err
	}
	return rows, execute(ctx, conn, a.members.add, added, batch)
}

// taken removes the members whose submits were taken back.
func (a *Archive) taken(ctx context.Context, conn gorm.ConnPool, groups []group) error {
	for _, g := range groups {
		n, err := a.change(ctx, conn, g, dropMembers, nil, nil)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if err := execute(ctx, conn, a.members.add, -n, g.batch); err != nil {
			return err
		}
		if _, err := a.endRound(ctx, conn, g.batch); err != nil {
			return err
		}
	}
	return nil
}

// revived makes failed members live again, in the generation of their group. If their batch's round has ended, the
// next round begins.
func (a *Archive) revived(ctx context.Context, conn gorm.ConnPool, groups []group) error {
	for _, g := range groups {
		n, err := a.change(ctx, conn, g, reviveMembers, []any{g.generation}, []any{g.generation})
		if err != nil {
			return err
		}
		if n > 0 {
			if err := execute(ctx, conn, a.members.revive, n, g.batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// endRound ends the round of a batch if the batch is sealed, no member lives, and the round has not ended yet. Then it
// writes the journal rows of the jobs that the batch owes, which no Redis has yet, and returns them. The round of a
// broken batch does not end: CheckBatches ends it once the batch is mended.
func (a *Archive) endRound(ctx context.Context, conn gorm.ConnPool, batch string) ([]job.JournalRow, error) {
	r, err := conn.ExecContext(ctx, a.members.endRound, batch)
	if err != nil {
		return nil, fmt.Errorf("end a round: %w", err)
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return nil, err
	}
	b, err := readBatch(ctx, conn, a.members.read, batch)
	if errors.Is(err, errBadBatch) {
		a.db.Log.Error("a batch is broken and its round does not end", "batch_id", batch, "err", err)
		return nil, execute(ctx, conn, a.members.goOn, batch)
	}
	if err != nil || a.owesOf == nil {
		return nil, err
	}
	owed := a.owesOf(b)
	a.noteUnowed(ctx, b, owed)
	rows := make([]*job.JournalRow, len(owed))
	for i := range owed {
		rows[i] = &owed[i]
	}
	_, err = insert(ctx, conn, a.inserts, acceptedTable, rows)
	return owed, err
}

func execute(ctx context.Context, conn gorm.ConnPool, query string, args ...any) error {
	if _, err := conn.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("update batches: %w", err)
	}
	return nil
}
