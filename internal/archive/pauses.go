package archive

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table pauses has one row: what is paused, in the last version that a process has copied. Redis decides what is
// paused; SQL stores it for a Redis that lost its data.

// Pauses reads the pauses that SQL has.
func (a *Archive) Pauses(ctx context.Context) (job.Pauses, error) {
	var rows []pausesRow
	if err := a.db.Read.WithContext(ctx).Raw("SELECT id, version, pauses FROM pauses").Scan(&rows).Error; err != nil {
		return job.Pauses{}, database.Unavailable("read the pauses", err)
	}
	if len(rows) == 0 {
		return job.Pauses{}, nil
	}
	found := job.Pauses{Version: rows[0].Version}
	if err := json.Unmarshal([]byte(rows[0].Pauses), &found.List); err != nil {
		return found, fmt.Errorf("read the pauses in SQL: %w", err)
	}
	return found, nil
}

// KeepPauses stores a version of the pauses. It leaves a row of a later version unchanged.
func (a *Archive) KeepPauses(ctx context.Context, p job.Pauses) error {
	text, err := json.Marshal(append([]job.Pause{}, p.List...))
	if err != nil {
		return fmt.Errorf("keep the pauses: %w", err)
	}
	db := a.db.Write.WithContext(ctx)
	update := db.Exec("UPDATE pauses SET version = ?, pauses = ?, changed_at = "+a.db.Dialect.Now+
		" WHERE id = 1 AND version <= ?", p.Version, string(text), p.Version)
	switch {
	case update.Error != nil:
		return database.Unavailable("keep the pauses", update.Error)
	case update.RowsAffected > 0:
		return nil
	}
	insert := db.Exec("INSERT INTO pauses (id, version, pauses, changed_at) VALUES (1, ?, ?, "+a.db.Dialect.Now+") "+
		a.db.Dialect.KeepFirst("id"), p.Version, string(text))
	if insert.Error != nil {
		return database.Unavailable("keep the pauses", insert.Error)
	}
	return nil
}
