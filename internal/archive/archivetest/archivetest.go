// Package archivetest gives tests an archive on each database that tierq supports, and access to its rows.
package archivetest

import (
	"testing"

	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
)

// Store is a fresh database of one test, with an archive in it.
type Store struct {
	*archive.Archive
	*databasetest.Store
	options archive.Options
}

// Each runs test with a fresh archive on every backend: /sqlite and /mariadb.
func Each(t *testing.T, test func(t *testing.T, a *archive.Archive)) {
	t.Helper()
	EachStore(t, func(t *testing.T, s *Store) { test(t, s.Archive) })
}

// EachStore is Each for tests that also read the rows behind the archive.
func EachStore(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	databasetest.Each(t, func(t *testing.T, s *databasetest.Store) { test(t, in(s, archive.Options{})) })
}

// EachJournal is EachStore with the accept journal on.
func EachJournal(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	for backend, fresh := range databasetest.Backends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			test(t, NewJournal(t, fresh(t)))
		})
	}
}

// New makes an archive in the database that o describes, and migrates that database.
func New(t testing.TB, o database.Options) *Store {
	t.Helper()
	return in(databasetest.New(t, o), archive.Options{})
}

// NewJournal is New with the accept journal on.
func NewJournal(t testing.TB, o database.Options) *Store {
	t.Helper()
	return in(databasetest.New(t, o), archive.Options{Journal: true})
}

func in(s *databasetest.Store, o archive.Options) *Store {
	return &Store{Archive: archive.New(s.Database, o), Store: s, options: o}
}

// Beside opens one more archive on the same database, as another process would.
func (s *Store) Beside(t testing.TB) *archive.Archive {
	t.Helper()
	return archive.New(databasetest.Open(t, s.Options), s.options)
}

// CountOutcomes returns how many outcomes the rows tell that match where ("" = all): a completed job's row is its
// result, any other is an outcome. A generation with two outcomes counts twice.
func (s *Store) CountOutcomes(t testing.TB, where string, args ...any) int {
	t.Helper()
	if where != "" {
		where = " WHERE " + where
	}
	return s.Count(t, "(SELECT job_id, generation, 'COMPLETED' AS outcome FROM job_results UNION ALL "+
		"SELECT job_id, generation, outcome FROM job_outcomes WHERE outcome <> 'COMPLETED') AS ended"+where, args...)
}
