package access_test

import (
	"testing"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/database/databasetest"
)

// store is a Store with a fresh database, and direct access to that database.
type store struct {
	*access.Store
	sql *databasetest.Store
}

// each runs test with a store of its own on every backend: /sqlite and /mariadb.
func each(t *testing.T, test func(t *testing.T, s *store)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, db *databasetest.Store) { test(t, &store{access.New(db.Database), db}) })
}
