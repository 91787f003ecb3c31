package archive

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table line_limits has a row for each key of lines that has limits. SQL decides what they are.

// maxLimitedKeys is how many keys of lines may have limits.
const maxLimitedKeys = 10_000

// LineLimits reads the limits of all keys of lines that have any.
func (a *Archive) LineLimits(ctx context.Context) ([]job.LineLimits, error) {
	return a.lineLimits(ctx, "")
}

// LimitsOf reads the limits of a key of lines; the zero value with its name if it has none.
func (a *Archive) LimitsOf(ctx context.Context, name string) (job.LineLimits, error) {
	found, err := a.lineLimits(ctx, " WHERE name = ?", name)
	if err != nil || len(found) == 0 {
		return job.LineLimits{Name: name}, err
	}
	return found[0], nil
}

func (a *Archive) lineLimits(ctx context.Context, where string, args ...any) ([]job.LineLimits, error) {
	var rows []lineLimitsRow
	query := "SELECT name, version, limits FROM line_limits" + where
	if err := a.db.Read.WithContext(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read the limits of lines", err)
	}
	all := make([]job.LineLimits, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal([]byte(r.Limits), &all[i]); err != nil {
			return nil, fmt.Errorf("read the limits of lines in SQL: %q: %w", r.Name, err)
		}
		all[i].Name, all[i].Version = r.Name, r.Version
	}
	return all, nil
}

// StoreLimits stores the limits of a key of lines in place of those of a version, and returns them with their own. No
// limits delete the row. version 0 = the key has none; -1 = any version. job.ErrChanged: it has another version.
// job.ErrBadLimits: too many keys have limits.
func (a *Archive) StoreLimits(ctx context.Context, l job.LineLimits, version int64) (job.LineLimits, error) {
	const tries = 5
	for range tries {
		was, err := a.LimitsOf(ctx, l.Name)
		if err != nil {
			return l, err
		}
		if version >= 0 && was.Version != version {
			return l, job.ErrChanged
		}
		l.Version = was.Version + 1
		stored, err := a.replaceLimits(ctx, l, was.Version)
		if err != nil || stored {
			return l, err
		}
	}
	return l, job.ErrChanged
}

func (a *Archive) replaceLimits(ctx context.Context, l job.LineLimits, version int64) (stored bool, err error) {
	db := a.db.Write.WithContext(ctx)
	text, err := json.Marshal(l)
	if err != nil {
		return false, fmt.Errorf("store the limits of a line: %w", err)
	}
	switch {
	case l.None() && version == 0:
		return true, nil
	case l.None():
		db = db.Exec("DELETE FROM line_limits WHERE name = ? AND version = ?", l.Name, version)
	case version > 0:
		db = db.Exec("UPDATE line_limits SET version = ?, limits = ?, changed_at = "+a.db.Dialect.Now+
			" WHERE name = ? AND version = ?", l.Version, string(text), l.Name, version)
	default:
		var keys int64
		if err := a.db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM line_limits").Scan(&keys).Error; err != nil {
			return false, database.Unavailable("count the limits of lines", err)
		}
		if keys >= maxLimitedKeys {
			return false, fmt.Errorf("%w: %d keys have limits already", job.ErrBadLimits, keys)
		}
		db = db.Exec("INSERT INTO line_limits (name, version, limits, changed_at) VALUES (?, ?, ?, "+a.db.Dialect.Now+
			") "+a.db.Dialect.KeepFirst("name"), l.Name, l.Version, string(text))
	}
	if db.Error != nil {
		return false, database.Unavailable("store the limits of a line", db.Error)
	}
	return db.RowsAffected > 0, nil
}
