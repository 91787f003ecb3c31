package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// changeTable: seq is the database's.
var changeTable = table[job.Change]{"changes", []column[job.Change]{
	{"digest", func(c job.Change) any { return digest(c) }},
	{"changed_at", func(c job.Change) any { return c.At.UTC() }},
	{"actor", func(c job.Change) any { return c.Actor }},
	{"name", func(c job.Change) any { return c.Name }},
	{"address", func(c job.Change) any { return c.Address }},
	{"action", func(c job.Change) any { return c.Action }},
	{"target", func(c job.Change) any { return c.Target }},
	{"before_json", func(c job.Change) any { return bytesOrNull(c.Before) }},
	{"after_json", func(c job.Change) any { return bytesOrNull(c.After) }},
	{"outcome", func(c job.Change) any { return c.Outcome }},
	{"trace_id", func(c job.Change) any { return c.TraceID }},
}}

// digest is all that a change says, in 32 characters.
func digest(c job.Change) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %q %q %q %q %q %q %q %q %q", c.At.UTC().Format("2006-01-02 15:04:05.000000"), c.Actor, c.Name, c.Address, c.Action,
		c.Target, c.Before, c.After, c.Outcome, c.TraceID) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// AddChanges adds to the log of changes, in this order. What is there already is not added again: after an error the same call may be
// repeated. A change that the database refuses for its data is logged and left out.
func (a *Archive) AddChanges(ctx context.Context, changes []job.Change) error {
	for _, c := range changes {
		row := make([]any, 0, len(changeTable.columns))
		for _, column := range changeTable.columns {
			row = append(row, column.value(c))
		}
		_, err := a.mark(ctx, a.inserts[changeTable.name][1], row)
		switch {
		case err == nil:
		case a.dialect.verdict(err) == badData:
			a.log.Error("SQL refuses an entry of the log of changes", "action", c.Action, "target", c.Target, "err", err)
		default:
			return unavailable("add to the log of changes", err)
		}
	}
	return nil
}

const changesPage = "SELECT seq, changed_at, actor, name, address, action, target, before_json, after_json, outcome, trace_id FROM changes " +
	"WHERE seq < ? ORDER BY seq DESC LIMIT ?"

// Changes reads the log of changes, the newest first. cursor is "" or an earlier call's next; limit is at most 1,000. It returns
// job.ErrBadCursor for a cursor that no Changes gave.
func (a *Archive) Changes(ctx context.Context, cursor string, limit int) (changes []job.Change, next string, err error) {
	before, err := readChangesCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), maxPage)
	var rows []changeRow
	if err := a.read.WithContext(ctx).Raw(changesPage, before, limit+1).Scan(&rows).Error; err != nil {
		return nil, "", unavailable("read the log of changes", err)
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = strconv.FormatInt(rows[limit-1].Seq, 10)
	}
	changes = make([]job.Change, len(rows))
	for i, r := range rows {
		changes[i] = job.Change{
			ID: r.Seq, At: r.ChangedAt, Actor: r.Actor, Name: r.Name, Address: r.Address, Action: r.Action, Target: r.Target,
			Before: r.BeforeJSON, After: r.AfterJSON, Outcome: r.Outcome, TraceID: r.TraceID,
		}
	}
	return changes, next, nil
}

// readChangesCursor reads where the log goes on: below this number.
func readChangesCursor(cursor string) (before int64, err error) {
	if cursor == "" {
		return math.MaxInt64, nil
	}
	before, err = strconv.ParseInt(cursor, 10, 64)
	if err != nil || before < 1 || strconv.FormatInt(before, 10) != cursor {
		return 0, fmt.Errorf("read the log of changes: %w", job.ErrBadCursor)
	}
	return before, nil
}
