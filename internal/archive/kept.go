package archive

import (
	"context"

	"github.com/tierq/tierq/internal/database"
)

// The table kept has a few texts that an embedded server keeps over a restart, by their names. Other servers have none.

// Kept returns the text of a name; "" = there is none.
func (a *Archive) Kept(ctx context.Context, name string) (text string, err error) {
	var texts []string
	if err := a.db.Read.WithContext(ctx).Raw("SELECT text FROM kept WHERE name = ?", name).Scan(&texts).Error; err != nil {
		return "", database.Unavailable("read what is kept", err)
	}
	for _, text := range texts {
		return text, nil
	}
	return "", nil
}

// Keep stores the text of a name in place of the one before.
func (a *Archive) Keep(ctx context.Context, name, text string) error {
	d := a.db.Dialect
	query := "INSERT INTO kept (name, text) VALUES (?, ?) " + d.OnConflict("name") + "text = " + d.Offered("text")
	if _, err := a.db.Exec(ctx, query, []any{name, text}); err != nil {
		return database.Unavailable("keep a text", err)
	}
	return nil
}
