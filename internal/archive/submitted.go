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

// notes is what one transaction of the journal writes, by kind.
type notes struct {
	submits []*noted
	backs   []*noted
	claims  []*noted
	waits   []*noted
}

// note writes notes in one transaction. In the notes of submits it sets the holder of their keys, in those of take
// backs whether the row is gone. Keys stay for keepKeys.
func (a *Archive) note(ctx context.Context, n *notes, keepKeys time.Duration) error {
	// All writers sort alike, as in record, to avoid deadlocks.
	slices.SortStableFunc(n.submits, byJob)
	slices.SortStableFunc(n.backs, byJob)
	w := a.submitsOf(n.submits, keepKeys)
	back := a.takeBackOf(n.backs)
	ctx, left := withUnowed(ctx)
	err := a.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		if err := w.write(ctx, conn); err != nil {
			return err
		}
		if err := back.write(ctx, conn); err != nil {
			return err
		}
		for _, c := range n.claims {
			l := c.row
			if _, err := conn.ExecContext(ctx, noteClaim, database.OrNull(l.ArrivedAt), l.Attempt, l.RetryCount,
				l.Crashes, database.OrNull(l.FirstTriedAt), database.OrNull(l.StartedAt), l.Worker, l.Token,
				l.LeaseFor.Milliseconds(), l.Incarnation, string(l.ID), max(l.Generation, 1), l.Attempt, l.Attempt); err != nil {
				return fmt.Errorf("update accepted_jobs: %w", err)
			}
		}
		for _, n := range n.waits {
			w := n.waits
			_, err := conn.ExecContext(ctx, noteWaits, w.Spent, w.Crashed, database.OrNull(w.Due), string(w.ID), w.Attempt)
			if err != nil {
				return fmt.Errorf("update accepted_jobs: %w", err)
			}
		}
		return nil
	})
	if err == nil {
		a.tellUnowed(left)
	}
	return err
}

func byJob(x, y *noted) int { return strings.Compare(string(x.row.ID), string(y.row.ID)) }

// submitsWrite writes the keys of submits and then their rows. A submit whose key stands for another job gets no
// row.
type submitsWrite struct {
	a       *Archive
	notes   []*noted
	keys    []keyOfJob
	wanted  []any // the keys, as arguments of the query holders
	holders string
	unkey   string
	batches []string // that the submits name, sorted
}

func (a *Archive) submitsOf(submits []*noted, keep time.Duration) *submitsWrite {
	w := &submitsWrite{a: a, notes: submits, unkey: dropKeyOf(a.db.Dialect)}
	for _, n := range submits {
		if n.row.Batch != "" && !slices.Contains(w.batches, n.row.Batch) {
			w.batches = append(w.batches, n.row.Batch)
		}
		if key := n.row.Idempotency; key.Key != "" {
			w.keys = append(w.keys, keyOfJob{key, n.row.ID, keep})
		}
	}
	slices.Sort(w.batches)
	slices.SortStableFunc(w.keys, func(x, y keyOfJob) int { return strings.Compare(x.Key, y.Key) })
	if len(w.keys) > 0 {
		size := database.SizeFor(len(w.keys))
		// Keys of any age are read: the insert before took over the expired ones, and every key that is left has a job.
		w.holders = holdersOf(size)
		w.wanted = make([]any, size)
		for i := range w.wanted {
			w.wanted[i] = w.keys[min(i, len(w.keys)-1)].Key
		}
	}
	return w
}

func (w *submitsWrite) write(ctx context.Context, conn gorm.ConnPool) error {
	if len(w.notes) == 0 {
		return nil
	}
	var held map[string]job.KeyHolder
	var bodies map[string]string
	if len(w.keys) > 0 {
		if _, err := insert(ctx, conn, w.a.inserts, keyTable, w.keys); err != nil {
			return err
		}
		var err error
		if held, bodies, err = holders(ctx, conn, w.holders, w.wanted); err != nil {
			return err
		}
	}
	ours := map[job.ID]bool{}
	for _, n := range w.notes {
		ours[n.row.ID] = true
	}
	var rows []*job.JournalRow
	for _, n := range w.notes {
		key := n.row.Idempotency
		h, there := held[key.Key]
		if !there || h.ID == n.row.ID {
			n.holder = job.KeyHolder{}
			rows = append(rows, n.row)
			continue
		}
		h.OtherBody = bodies[key.Key] != key.Body
		h.Submitting = h.Submitting || ours[h.ID] // that job's row is written below
		n.holder = h
	}
	rows, err := w.join(ctx, conn, rows)
	if err != nil {
		return err
	}
	_, err = insert(ctx, conn, w.a.inserts, acceptedTable, rows)
	return err
}

// join makes the jobs of rows that name a batch members of it, and returns the rows that no batch refused. The keys of
// refused submits become free again.
func (w *submitsWrite) join(ctx context.Context, conn gorm.ConnPool, rows []*job.JournalRow) ([]*job.JournalRow,
	error) {
	if len(w.batches) == 0 {
		return rows, nil
	}
	taken := map[string][]*noted{}
	rows = slices.DeleteFunc(rows, func(l *job.JournalRow) bool { return l.Batch != "" })
	for _, n := range w.notes {
		if n.row.Batch != "" && n.holder.ID == "" {
			taken[n.row.Batch] = append(taken[n.row.Batch], n)
		}
	}
	for _, batch := range w.batches {
		some, err := w.a.add(ctx, conn, batch, taken[batch])
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	for _, n := range w.notes {
		if n.holder.Refused == nil || n.row.Idempotency.Key == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, w.unkey, n.row.Idempotency.Key, string(n.row.ID)); err != nil {
			return nil, fmt.Errorf("delete idempotency_keys: %w", err)
		}
	}
	slices.SortFunc(rows, func(x, y *job.JournalRow) int { return strings.Compare(string(x.ID), string(y.ID)) })
	return rows, nil
}

func dropKeyOf(d database.Dialect) string {
	return d.DeleteFrom("idempotency_keys") + " WHERE idem_key = ? AND job_id = ?"
}

// takeBackWrite removes the rows that their submits may still take back, and the keys of their jobs.
type takeBackWrite struct {
	a     *Archive
	notes []*noted
	ids   []job.ID
	look  string
	drop  string
	unkey string
}

func (a *Archive) takeBackOf(backs []*noted) *takeBackWrite {
	w := &takeBackWrite{a: a, notes: backs}
	if len(backs) == 0 {
		return w
	}
	for _, n := range backs {
		w.ids = append(w.ids, n.row.ID)
	}
	size := database.SizeFor(len(backs))
	w.look = "SELECT a.job_id FROM accepted_jobs a" + a.db.Dialect.ByPrimary +
		" WHERE a.job_id IN " + database.Marks(size) + " AND " + takenBack + a.db.Dialect.LockRows
	// submitting is in the condition although the rows are locked: without it MariaDB scans, and locks, the whole of
	// a small table.
	w.drop = a.db.Dialect.DeleteFrom("accepted_jobs") + " WHERE job_id IN " + database.Marks(size) +
		" AND submitting = 1"
	w.unkey = dropKeyOf(a.db.Dialect)
	return w
}

func (w *takeBackWrite) write(ctx context.Context, conn gorm.ConnPool) error {
	if len(w.notes) == 0 {
		return nil
	}
	gone := map[job.ID]bool{}
	var ids []job.ID
	err := eachRow(ctx, conn, w.look, padded(w.ids, database.SizeFor(len(w.ids))), func(scan func(...any) error) error {
		var id job.ID
		if err := scan(&id); err != nil {
			return err
		}
		gone[id] = true
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read accepted_jobs: %w", err)
	}
	if len(ids) > 0 {
		if _, err := conn.ExecContext(ctx, w.drop, padded(ids, database.SizeFor(len(w.ids)))...); err != nil {
			return fmt.Errorf("delete accepted_jobs: %w", err)
		}
	}
	members := groupsOf(slices.DeleteFunc(slices.Clone(w.notes), func(n *noted) bool { return !gone[n.row.ID] }),
		takenBackGroup)
	if err := w.a.taken(ctx, conn, members); err != nil {
		return err
	}
	for _, n := range w.notes {
		n.gone = gone[n.row.ID]
		if key := n.row.Idempotency.Key; key != "" && n.gone {
			if _, err := conn.ExecContext(ctx, w.unkey, key, string(n.row.ID)); err != nil {
				return fmt.Errorf("delete idempotency_keys: %w", err)
			}
		}
	}
	return nil
}
