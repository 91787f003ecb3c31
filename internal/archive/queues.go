package archive

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table queues holds the declared queues. Redis decides which queues there are; SQL stores them for a Redis that
// lost its data. An older version never replaces a row.

const readQueues = "SELECT name, version, queue FROM queues ORDER BY name"

// Queues reads the queues that SQL has. It returns job.ErrBadQueue if one of them cannot be used.
func (a *Archive) Queues(ctx context.Context) ([]job.Queue, error) {
	var rows []queueRow
	if err := a.db.Read.WithContext(ctx).Raw(readQueues).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read the queues", err)
	}
	queues := make([]job.Queue, len(rows))
	for i, r := range rows {
		q, err := job.ReadQueue(r.Name, r.Queue)
		if err != nil {
			return nil, fmt.Errorf("read the queues in SQL: %q: %w", r.Name, err)
		}
		q.Version = r.Version
		queues[i] = q
	}
	return queues, nil
}

// KeepQueue stores a queue as Redis has it. It leaves a row of a later version unchanged.
func (a *Archive) KeepQueue(ctx context.Context, q job.Queue) error {
	text, db := q.Text(), a.db.Write.WithContext(ctx)
	update := db.Exec("UPDATE queues SET version = ?, queue = ?, changed_at = "+a.db.Dialect.Now+
		" WHERE name = ? AND version <= ?", q.Version, text, q.Name, q.Version)
	switch {
	case update.Error != nil:
		return database.Unavailable("keep a queue", update.Error)
	case update.RowsAffected > 0:
		return nil
	}
	insert := db.Exec("INSERT INTO queues (name, version, queue, changed_at) VALUES (?, ?, ?, "+a.db.Dialect.Now+") "+
		a.db.Dialect.KeepFirst("name"), q.Name, q.Version, text)
	if insert.Error != nil {
		return database.Unavailable("keep a queue", insert.Error)
	}
	return nil
}

// DropQueue removes a queue's row, if there is one.
func (a *Archive) DropQueue(ctx context.Context, name string) error {
	err := a.db.Write.WithContext(ctx).Exec("DELETE FROM queues WHERE name = ?", name).Error
	if err != nil {
		return database.Unavailable("drop a queue", err)
	}
	return nil
}
