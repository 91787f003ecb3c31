package archive

import (
	"context"
	"database/sql"
	"embed"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema to the newest version. Any number of processes may call it at once: one migrates, the others wait
// and find nothing to do. It returns an error that is job.ErrUnavailable if the database does not answer or a migration failed;
// calling it again goes on where it stopped.
func (a *Archive) Migrate(ctx context.Context) error {
	err := a.dialect.exclusive(ctx, func(db *sql.DB) error {
		p, err := goose.NewProvider(a.dialect.goose, db, a.dialect.migrations,
			goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
		if err != nil {
			return err
		}
		done, err := p.Up(ctx)
		for _, m := range done {
			a.log.Info("schema migrated", "version", m.Source.Version, "took", m.Duration)
		}
		return err
	})
	if err != nil {
		return unavailable("migrate archive", err)
	}
	return nil
}
