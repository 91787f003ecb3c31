package access_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
)

// A change of a key and the row in its answer are one transaction: if the row cannot be read, the change is not
// made. An error for a change that was made would lose the text of a new key.
func TestAPIKeyChanges_RowCannotBeRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		ctx := t.Context()
		before, err := s.AddAPIKey(ctx, aKey(1))
		if err != nil {
			t.Fatal(err)
		}
		was, err := s.APIKeysVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		// None of the three changes writes this column, and each answer reads it.
		s.sql.Exec(t, "ALTER TABLE api_keys RENAME COLUMN last_used_at TO away")
		_, added := s.AddAPIKey(ctx, aKey(2))
		_, rotated := s.RotateAPIKey(ctx, before.ID, [32]byte{9}, time.Now().Add(time.Hour))
		_, revoked := s.RevokeAPIKey(ctx, before.ID)
		s.sql.Exec(t, "ALTER TABLE api_keys RENAME COLUMN away TO last_used_at")
		for what, err := range map[string]error{"add": added, "rotate": rotated, "revoke": revoked} {
			if !errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
				t.Errorf("%s: %v", what, err)
			}
		}
		keys, err := s.APIKeys(ctx)
		if diff := cmp.Diff([]job.StoredKey{before}, keys); diff != "" || err != nil {
			t.Errorf("an error for a change that was made: %v (-want +got):\n%s", err, diff)
		}
		if version, err := s.APIKeysVersion(ctx); version != was || err != nil {
			t.Errorf("version %d, want %d; %v", version, was, err)
		}
	})
}

// A change of a key needs no connection of the pool of readers, which SQLite has beside its writer.
func TestAPIKeyChanges_NoReaders(t *testing.T) {
	t.Parallel()
	db := databasetest.New(t, databasetest.SQLite(t)).Database
	s, ctx := access.New(db), t.Context()
	readers, err := db.Read.DB()
	if err != nil {
		t.Fatal(err)
	}
	if err := readers.Close(); err != nil {
		t.Fatal(err)
	}
	if k, err := s.AddAPIKey(ctx, aKey(1)); err != nil || k.CreatedAt.IsZero() {
		t.Errorf("add: %+v, %v", k, err)
	}
	if k, err := s.RotateAPIKey(ctx, aKey(1).ID, [32]byte{9}, time.Now()); err != nil || k.Hash != [32]byte{9} ||
		k.OldHash != aKey(1).Hash || k.RotatedAt.IsZero() {
		t.Errorf("rotate: %+v, %v", k, err)
	}
	if k, err := s.RevokeAPIKey(ctx, aKey(1).ID); err != nil || k.RevokedAt.IsZero() {
		t.Errorf("revoke: %+v, %v", k, err)
	}
}
