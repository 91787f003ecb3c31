package archive_test

import (
	"context"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/database/databasetest"
)

// Several processes may start at once on an empty database: each migration is applied once.
func TestMigrateAtOnce(t *testing.T) {
	t.Attr("proves", "S3-I12")
	t.Parallel()
	for name, fresh := range databasetest.Backends {
		t.Run(name, func(t *testing.T) {
			o := fresh(t)
			var all sync.WaitGroup
			begin := make(chan struct{})
			for range 4 {
				db := databasetest.Open(t, o)
				all.Go(func() {
					<-begin
					ctx, cancel := context.WithTimeout(t.Context(), within)
					defer cancel()
					if err := db.Migrate(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			close(begin)
			all.Wait()
			s := archivetest.New(t, o) // a second time
			versions := databasetest.Migrations(t)
			if n := s.Count(t, "goose_db_version WHERE version_id > 0"); n != len(versions) {
				t.Errorf("%d migrations were applied %d times", len(versions), n)
			}
			w := start(t, s.Archive, &redis{}, archive.WriterOptions{})
			record(t, w, failed(1))
		})
	}
}
