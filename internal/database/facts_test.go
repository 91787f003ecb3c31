package database_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

func TestReadFacts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, s *databasetest.Store) {
		f, err := s.Database.ReadFacts(t.Context())
		if err != nil || !f.Strict || f.Schema < 3 || f.Schema != f.Newest || !strings.Contains(f.Version, ".") {
			t.Errorf("%+v, %v", f, err)
		}
		if err := s.Database.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Database.ReadFacts(t.Context()); !errors.Is(err, job.ErrUnavailable) {
			t.Errorf("closed: %v", err)
		}
	})
}
