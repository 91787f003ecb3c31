package access_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierq/tierq/internal/access"
	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

func aKey(n int) job.StoredKey {
	return job.StoredKey{
		Key: job.Key{
			ID: fmt.Sprintf("abcdefghijklmn%02d", n), Name: "Zürich \x00 '; --", Role: job.RoleSubmit,
			Tiers: []job.Tier{"PAID", "PUBLIC"}, Types: []string{"REPORT"},
			Queues: []string{"pictures", "a.b:c-D_1*"}, Submits: true, Leases: 7, Rate: 2.5, Burst: 7, InFlight: 1e9, CreatedBy: "boss",
			ExpiresAt: time.Date(2031, 5, 1, 10, 0, 0, 123e3, time.UTC),
		},
		Hash: [32]byte{1, 0, 255, byte(n)},
	}
}

// recent checks that the database has just set this time.
func recent(t *testing.T, what string, at time.Time) {
	t.Helper()
	if age := time.Since(at); age < -time.Second || age > time.Minute {
		t.Errorf("%s is %v old", what, age)
	}
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		ctx := t.Context()
		stamps := cmpopts.IgnoreFields(job.Key{}, "CreatedAt")
		version := func() int64 {
			t.Helper()
			v, err := s.APIKeysVersion(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if keys, err := s.APIKeys(ctx); len(keys) != 0 || err != nil || version() != 0 {
			t.Errorf("%v, %v, version %d", keys, err, version())
		}
		want := aKey(1)
		added, err := s.AddAPIKey(ctx, want)
		if diff := cmp.Diff(want, added, stamps); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		recent(t, "created_at", added.CreatedAt)
		if _, err := s.AddAPIKey(ctx, want); err == nil {
			t.Error("the same id twice")
		}
		all := job.StoredKey{Key: job.Key{ID: "b", Name: "all", Role: job.RoleAdmin}, Hash: [32]byte{2}}
		if _, err := s.AddAPIKey(ctx, all); err != nil {
			t.Fatal(err)
		}
		s.sql.Exec(t, "UPDATE api_keys SET queues = NULL WHERE id = 'b'") // as a process of an earlier version writes it
		keys, err := s.APIKeys(ctx)
		if diff := cmp.Diff([]job.StoredKey{want, all}, keys, stamps, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}

		was, until := version(), time.Date(2026, 12, 1, 0, 0, 0, 5e3, time.UTC)
		rotated, err := s.RotateAPIKey(ctx, want.ID, [32]byte{9}, until)
		if err != nil || rotated.Hash != [32]byte{9} || rotated.OldHash != want.Hash || !rotated.OldUntil.Equal(until) ||
			version() == was {
			t.Errorf("%+v, %v", rotated, err)
		}
		recent(t, "rotated_at", rotated.RotatedAt)

		was = version()
		revoked, err := s.RevokeAPIKey(ctx, want.ID)
		if err != nil || version() == was {
			t.Fatal(err)
		}
		recent(t, "revoked_at", revoked.RevokedAt)
		was = version()
		if again, err := s.RevokeAPIKey(ctx, want.ID); err != nil || !again.RevokedAt.Equal(revoked.RevokedAt) ||
			version() != was {
			t.Errorf("revoked again: %+v, %v", again, err)
		}
		if _, err := s.RotateAPIKey(ctx, want.ID, [32]byte{8}, until); !errors.Is(err, job.ErrNoKey) {
			t.Errorf("a revoked key is rotated: %v", err)
		}
		for what, try := range map[string]func() (job.StoredKey, error){
			"read":   func() (job.StoredKey, error) { return s.APIKey(ctx, "nobody") },
			"rotate": func() (job.StoredKey, error) { return s.RotateAPIKey(ctx, "nobody", [32]byte{}, until) },
			"revoke": func() (job.StoredKey, error) { return s.RevokeAPIKey(ctx, "' OR 1=1 --") },
		} {
			if _, err := try(); !errors.Is(err, job.ErrNoKey) {
				t.Errorf("%s an unknown key: %v", what, err)
			}
		}
		if k, err := s.APIKey(ctx, "b"); err != nil || !k.RevokedAt.IsZero() || k.Hash != all.Hash ||
			k.OldHash != [32]byte{} {
			t.Errorf("the bystander: %+v, %v", k, err)
		}
	})
}

// The time of the last use only moves forward, and does not change the version.
func TestUsedAPIKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		var ids []string
		for n := range 12 {
			k, err := s.AddAPIKey(t.Context(), aKey(n))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, k.ID)
		}
		for i := range 250 { // unknown ids are ignored
			ids = append(ids, fmt.Sprint("gone", i))
		}
		was, err := s.APIKeysVersion(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{noon, noon.Add(-time.Hour)} {
			if err := s.UsedAPIKeys(t.Context(), ids[1:], at); err != nil {
				t.Fatal(err)
			}
		}
		keys, err := s.APIKeys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			if want := k.ID != ids[0]; k.LastUsedAt.Equal(noon) != want || !want && !k.LastUsedAt.IsZero() {
				t.Errorf("%s was last used at %v", k.ID, k.LastUsedAt)
			}
		}
		if v, err := s.APIKeysVersion(t.Context()); v != was || err != nil {
			t.Errorf("version %d, was %d, %v", v, was, err)
		}
	})
}

// A key whose row was damaged by hand is not valid, least of all for every tier, type or queue. The other keys are
// still read, because a revocation must take effect.
func TestBrokenAPIKey(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"tiers", "types", "queues"} {
		t.Run(column, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, s *store) { isRefusedWhenBroken(t, s, column) })
		})
	}
}

// isRefusedWhenBroken damages a list of a key, and checks that the key is refused.
func isRefusedWhenBroken(t *testing.T, s *store, column string) {
	ctx := t.Context()
	bad, good := aKey(1), job.StoredKey{Key: job.Key{ID: "b", Name: "all", Role: job.RoleAdmin}, Hash: [32]byte{2}}
	for _, k := range []job.StoredKey{bad, good} {
		if _, err := s.AddAPIKey(ctx, k); err != nil {
			t.Fatal(err)
		}
	}
	s.sql.Exec(t, "UPDATE api_keys SET "+column+" = '[\"PUBLIC\"' WHERE id = '"+bad.ID+"'")
	if _, err := s.RevokeAPIKey(ctx, good.ID); err != nil {
		t.Fatal(err)
	}
	keys, err := s.APIKeys(ctx)
	if err != nil || len(keys) != 2 || keys[1].RevokedAt.IsZero() {
		t.Fatalf("%+v, %v", keys, err)
	}
	if _, err := s.APIKey(ctx, bad.ID); err == nil || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("asked for alone: %v", err)
	}
	_, err = s.RotateAPIKey(ctx, bad.ID, [32]byte{9}, time.Now())
	if err == nil || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("rotated: %v", err)
	}
	if keys, err := s.APIKeys(ctx); err != nil || !keys[0].RotatedAt.IsZero() {
		t.Errorf("an error for a rotation that was made: %+v, %v", keys, err)
	}
	if k, err := s.RevokeAPIKey(ctx, bad.ID); err != nil || k.ID != bad.ID || k.Role != "" || k.RevokedAt.IsZero() {
		t.Errorf("revoked: %+v, %v", k, err)
	}
	if k := keys[0]; k.ID != bad.ID || k.Role != "" || k.Hash != [32]byte{} || k.RevokedAt.IsZero() {
		t.Errorf("%+v", k)
	}
}

func TestAPIKeysWithoutSQL(t *testing.T) {
	t.Parallel()
	server := testkit.NewMariaDB(t)
	a := access.New(databasetest.New(t, database.Options{MySQLDSN: server.NewDatabase(t)}).Database)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	_, version := a.APIKeysVersion(t.Context())
	_, list := a.APIKeys(t.Context())
	_, add := a.AddAPIKey(t.Context(), aKey(1))
	_, revoke := a.RevokeAPIKey(t.Context(), "x")
	for what, err := range map[string]error{
		"version": version, "list": list, "add": add, "revoke": revoke,
		"used":    a.UsedAPIKeys(t.Context(), []string{"x"}, time.Now()),
		"changes": a.AddChanges(t.Context(), []job.Change{{Action: "x", At: time.Now()}}),
	} {
		if !errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// If several processes add a first key at once, one of them is told that its key was added, and no other key is
// stored. If there is a key, also a revoked one, no further first key is added.
func TestAddFirstAPIKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *store) {
		const processes = 4
		added := make(chan bool, processes)
		for n := range processes {
			go func() {
				mine, err := s.AddFirstAPIKey(t.Context(), aKey(n))
				if err != nil {
					t.Error(err)
				}
				added <- mine
			}()
		}
		count := 0
		for range processes {
			if <-added {
				count++
			}
		}
		keys, err := s.APIKeys(t.Context())
		if count != 1 || len(keys) != 1 || err != nil {
			t.Fatalf("%d were told that theirs was added; %d keys, %v", count, len(keys), err)
		}
		if _, err := s.RevokeAPIKey(t.Context(), keys[0].ID); err != nil {
			t.Fatal(err)
		}
		if mine, err := s.AddFirstAPIKey(t.Context(), aKey(9)); mine || err != nil {
			t.Errorf("beside a revoked key: %v, %v", mine, err)
		}
	})
}
