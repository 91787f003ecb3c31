package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// changeRow is an entry of the log of changes as it is read. A test compares it with the migrated schema. The
// database sets Seq.
type changeRow struct {
	Seq        int64     `gorm:"type:bigint;primaryKey"`
	Digest     string    `gorm:"type:char(32);not null"`
	ChangedAt  time.Time `gorm:"type:datetime(6);not null"`
	Actor      string    `gorm:"type:varchar(64);not null"`
	Name       string    `gorm:"type:varchar(100);not null"`
	Address    string    `gorm:"type:varchar(64);not null"`
	Action     string    `gorm:"type:varchar(64);not null"`
	Target     string    `gorm:"type:varchar(255);not null"`
	BeforeJSON []byte    `gorm:"type:mediumblob"`
	AfterJSON  []byte    `gorm:"type:mediumblob"`
	Outcome    string    `gorm:"type:varchar(16);not null"`
	TraceID    string    `gorm:"type:varchar(100);not null"`
}

func (changeRow) TableName() string { return "changes" }

// digest returns 32 characters that identify a change by all its members.
func digest(c job.Change) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s %q %q %q %q %q %q %q %q %q", c.At.UTC().Format("2006-01-02 15:04:05.000000"), c.Actor,
		c.Name, c.Address, c.Action,
		c.Target, c.Before, c.After, c.Outcome, c.TraceID) // a hash accepts every write
	return hex.EncodeToString(h.Sum(nil)[:16])
}

const changeInsert = "INSERT INTO `changes` (`digest`,`changed_at`,`actor`,`name`,`address`,`action`,`target`," +
	"`before_json`,`after_json`,`outcome`,`trace_id`) VALUES (?,?,?,?,?,?,?,?,?,?,?) "

// AddChanges adds entries to the log of changes, in this order. It may be repeated after an error: an entry that is
// already there is not added again. An entry whose data the database refuses is logged and left out.
func (s *Store) AddChanges(ctx context.Context, changes []job.Change) error {
	for _, c := range changes {
		_, err := s.db.Exec(ctx, changeInsert+s.db.Dialect.KeepFirst("digest"), []any{
			digest(c), c.At.UTC(), c.Actor, c.Name, c.Address, c.Action, c.Target,
			database.BytesOrNull(c.Before), database.BytesOrNull(c.After), c.Outcome, c.TraceID,
		})
		switch {
		case err == nil:
		case s.db.Dialect.Verdict(err) == database.BadData:
			s.db.Log.Error("SQL refuses an entry of the log of changes",
				"action", c.Action, "target", c.Target, "err", err)
		default:
			return database.Unavailable("add to the log of changes", err)
		}
	}
	return nil
}

// maxPage bounds how many changes one call reads.
const maxPage = 1000

const changesPage = "SELECT seq, changed_at, actor, name, address, action, target, before_json, after_json, " +
	"outcome, trace_id FROM changes " +
	"WHERE seq < ? ORDER BY seq DESC LIMIT ?"

// Changes reads a page of the log of changes, newest first, and the cursor of the next page, "" at the end. cursor
// is "" or the next of an earlier call; limit is at most 1,000. It returns job.ErrBadCursor for a cursor that
// Changes did not return.
func (s *Store) Changes(ctx context.Context, cursor string, limit int) (changes []job.Change, next string, err error) {
	before, err := readChangesCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), maxPage)
	var rows []changeRow
	if err := s.db.Read.WithContext(ctx).Raw(changesPage, before, limit+1).Scan(&rows).Error; err != nil {
		return nil, "", database.Unavailable("read the log of changes", err)
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

// readChangesCursor parses a cursor: the page has the entries with lower numbers.
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

// rowsAtOnce bounds how many changes one statement deletes.
const rowsAtOnce = 500

func oldChanges(d *database.Dialect) string {
	return "SELECT seq FROM (SELECT seq, changed_at FROM changes ORDER BY seq LIMIT ?) first" +
		" WHERE changed_at <= " + d.Ago
}

func deleteChanges(d *database.Dialect, size int) string {
	return d.DeleteFrom("changes") + " WHERE seq IN " + database.Marks(size)
}

// DeleteChanges deletes the oldest entries of the log of changes that are at least age old, at most rowsAtOnce, and
// returns how many. It goes by the order of the entries' numbers: an old entry that was stored late, after an
// outage of SQL, is deleted once it is among the first.
func (s *Store) DeleteChanges(ctx context.Context, age time.Duration) (int64, error) {
	var old []int64
	err := s.db.Read.WithContext(ctx).Raw(oldChanges(&s.db.Dialect), rowsAtOnce, age.Milliseconds()).Scan(&old).Error
	if err != nil {
		return 0, database.Unavailable("read old changes", err)
	}
	if len(old) == 0 {
		return 0, nil
	}
	slices.Sort(old)
	args := make([]any, database.SizeFor(len(old)))
	for i := range args {
		args[i] = old[min(i, len(old)-1)]
	}
	n, err := s.db.Exec(ctx, deleteChanges(&s.db.Dialect, len(args)), args)
	if err != nil {
		return 0, database.Unavailable("delete old changes", err)
	}
	return n, nil
}
