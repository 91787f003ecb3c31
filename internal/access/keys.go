package access

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The database's clock sets when a key was made, rotated and revoked. The caller's clock sets when a key expires,
// and until when an old secret is valid.

const (
	apiKeyColumns = "id, name, role, tiers, types, rate, burst, in_flight, hash, old_hash, old_until, created_at, " +
		"created_by, rotated_at, expires_at, " +
		"revoked_at, last_used_at"
	apiKeys        = "SELECT " + apiKeyColumns + " FROM api_keys ORDER BY created_at, id"
	apiKeyOf       = "SELECT " + apiKeyColumns + " FROM api_keys WHERE id = ?"
	apiKeysVersion = "SELECT COALESCE(SUM(version), 0) FROM api_keys"
)

// APIKeys reads all API keys, also revoked ones, in the order in which they were made. A key whose row cannot be
// read is logged and returned as revoked, without a role and a secret.
func (s *Store) APIKeys(ctx context.Context) ([]job.StoredKey, error) {
	var rows []apiKeyRow
	if err := s.db.Read.WithContext(ctx).Raw(apiKeys).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read API keys", err)
	}
	keys := make([]job.StoredKey, len(rows))
	for i := range rows {
		var err error
		if keys[i], err = rows[i].key(); err != nil { // the other keys must be read all the same
			s.db.Log.Error("an API key cannot be read and opens nothing", "key_id", rows[i].ID, "err", err)
			keys[i].Role, keys[i].Hash, keys[i].OldHash, keys[i].RevokedAt = "", [32]byte{}, [32]byte{}, keys[i].CreatedAt
		}
	}
	return keys, nil
}

// APIKey reads one API key; job.ErrNoKey if there is none with this id.
func (s *Store) APIKey(ctx context.Context, id string) (job.StoredKey, error) {
	var rows []apiKeyRow
	if err := s.db.Read.WithContext(ctx).Raw(apiKeyOf, id).Scan(&rows).Error; err != nil {
		return job.StoredKey{}, database.Unavailable("read an API key", err)
	}
	if len(rows) == 0 {
		return job.StoredKey{}, fmt.Errorf("read an API key: %w", job.ErrNoKey)
	}
	return rows[0].key()
}

// APIKeysVersion returns a number that is another one after each change of a key. A use of a key is not a change.
func (s *Store) APIKeysVersion(ctx context.Context) (version int64, err error) {
	if err := s.db.Read.WithContext(ctx).Raw(apiKeysVersion).Scan(&version).Error; err != nil {
		return 0, database.Unavailable("read the version of the API keys", err)
	}
	return version, nil
}

// AddAPIKey stores a new key, and returns it as it is stored. After job.ErrAmbiguous the key may be stored.
func (s *Store) AddAPIKey(ctx context.Context, k job.StoredKey) (job.StoredKey, error) {
	insert, args, err := s.keyInsert(k)
	if err != nil {
		return k, fmt.Errorf("add an API key: %w", err)
	}
	if _, err = s.changeKey(ctx, "add an API key", insert, args...); err != nil {
		return k, err
	}
	return s.APIKey(ctx, k.ID)
}

// AddFirstAPIKey stores a key if there is none, not even a revoked one. If several processes call it at once, added
// is true for exactly one of them. After job.ErrAmbiguous the key may be stored.
func (s *Store) AddFirstAPIKey(ctx context.Context, k job.StoredKey) (added bool, err error) {
	const verb = "add the first API key"
	insert, args, err := s.keyInsert(k)
	if err != nil {
		return false, fmt.Errorf("%s: %w", verb, err)
	}
	err = s.db.Exclusive(ctx, func(*sql.DB) error {
		var made int64
		err := s.db.Write.WithContext(ctx).Raw("SELECT COUNT(*) FROM api_keys").Scan(&made).Error
		if err != nil || made > 0 {
			return err
		}
		_, err = s.db.Exec(ctx, insert, args)
		added = err == nil
		return err
	})
	return added && err == nil, s.failed(verb, err)
}

func (s *Store) keyInsert(k job.StoredKey) (insert string, args []any, err error) {
	tiers, err := json.Marshal(orEmpty(k.Tiers))
	if err != nil {
		return "", nil, err
	}
	types, err := json.Marshal(orEmpty(k.Types))
	if err != nil {
		return "", nil, err
	}
	insert = "INSERT INTO api_keys " +
		"(id, name, role, tiers, types, rate, burst, in_flight, hash, created_at, created_by, expires_at, version) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, " + s.db.Dialect.Now + ", ?, ?, 1)"
	return insert, []any{
		k.ID, k.Name, string(k.Role), string(tiers), string(types), k.Rate, k.Burst, k.InFlight, k.Hash[:], k.CreatedBy,
		database.OrNull(k.ExpiresAt),
	}, nil
}

// RotateAPIKey gives a key another secret. The present secret stays valid until oldUntil; an older one ends now. It
// returns job.ErrNoKey for a key that does not exist or was revoked. After job.ErrAmbiguous the key may have been
// rotated.
func (s *Store) RotateAPIKey(ctx context.Context, id string, hash [32]byte, oldUntil time.Time) (job.StoredKey, error) {
	// The order matters: MySQL assigns one column after the other.
	n, err := s.changeKey(ctx, "rotate an API key", "UPDATE api_keys SET old_hash = hash, old_until = ?, hash = ?, "+
		"rotated_at = "+s.db.Dialect.Now+", version = version + 1 WHERE id = ? AND revoked_at IS NULL", oldUntil.UTC(),
		hash[:], id)
	switch {
	case err != nil:
		return job.StoredKey{}, err
	case n == 0:
		return job.StoredKey{}, fmt.Errorf("rotate an API key: %w", job.ErrNoKey)
	}
	return s.APIKey(ctx, id)
}

// RevokeAPIKey revokes a key. A repeat changes nothing, and keeps the time of the first revocation. It returns
// job.ErrNoKey for a key that does not exist. After job.ErrAmbiguous the key may have been revoked.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (job.StoredKey, error) {
	_, err := s.changeKey(ctx, "revoke an API key", "UPDATE api_keys SET revoked_at = "+s.db.Dialect.Now+
		", version = version + 1 WHERE id = ? AND revoked_at IS NULL", id)
	if err != nil {
		return job.StoredKey{}, err
	}
	return s.APIKey(ctx, id)
}

func (s *Store) changeKey(ctx context.Context, verb, statement string, args ...any) (int64, error) {
	n, err := s.db.Exec(ctx, statement, args)
	return n, s.failed(verb, err)
}

// failed returns the error of a change: job.ErrUnavailable if it was certainly not made, otherwise
// job.ErrAmbiguous.
func (s *Store) failed(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.db.ChangedNothing(err):
		return database.Unavailable(verb, err)
	}
	return database.Ambiguous(verb, err)
}

// usedAtOnce bounds how many keys one statement marks as used.
const usedAtOnce = 100

// UsedAPIKeys records that these keys were used at about this time. An earlier time does not replace a later one.
func (s *Store) UsedAPIKeys(ctx context.Context, ids []string, at time.Time) error {
	update := "UPDATE api_keys SET last_used_at = ? WHERE (last_used_at IS NULL OR last_used_at < ?) AND id IN " +
		database.Marks(usedAtOnce)
	sorted := slices.Sorted(slices.Values(ids)) // in the same order for all writers
	for part := range slices.Chunk(sorted, usedAtOnce) {
		args := []any{at.UTC(), at.UTC()}
		for i := range usedAtOnce {
			args = append(args, part[min(i, len(part)-1)])
		}
		if _, err := s.db.Exec(ctx, update, args); err != nil {
			return database.Unavailable("note the use of API keys", err)
		}
	}
	return nil
}

// apiKeyRow is an API key as it is read. A test compares it with the migrated schema. Tiers and Types are JSON
// lists; a nil time means "never".
type apiKeyRow struct {
	ID         string     `gorm:"type:char(16);primaryKey"`
	Name       string     `gorm:"type:varchar(100);not null"`
	Role       string     `gorm:"type:varchar(16);not null"`
	Tiers      string     `gorm:"type:text;not null"`
	Types      string     `gorm:"type:text;not null"`
	Rate       float64    `gorm:"type:double;not null"`
	Burst      int        `gorm:"type:int;not null"`
	InFlight   int        `gorm:"type:int;not null"`
	Hash       []byte     `gorm:"type:binary(32);not null"`
	OldHash    []byte     `gorm:"type:binary(32)"`
	OldUntil   *time.Time `gorm:"type:datetime(6)"`
	CreatedAt  time.Time  `gorm:"type:datetime(6);not null"` // by the database's clock, as RotatedAt and RevokedAt
	CreatedBy  string     `gorm:"type:varchar(64);not null"`
	RotatedAt  *time.Time `gorm:"type:datetime(6)"`
	ExpiresAt  *time.Time `gorm:"type:datetime(6)"`
	RevokedAt  *time.Time `gorm:"type:datetime(6)"`
	LastUsedAt *time.Time `gorm:"type:datetime(6)"`
	Version    int        `gorm:"type:int;not null"`
}

func (apiKeyRow) TableName() string { return "api_keys" }

func (r *apiKeyRow) key() (k job.StoredKey, err error) {
	k = job.StoredKey{
		Key: job.Key{
			ID: r.ID, Name: r.Name, Role: job.Role(r.Role), Rate: r.Rate, Burst: r.Burst, InFlight: r.InFlight,
			CreatedAt: r.CreatedAt, CreatedBy: r.CreatedBy,
			RotatedAt: database.OrZero(r.RotatedAt), ExpiresAt: database.OrZero(r.ExpiresAt),
			RevokedAt: database.OrZero(r.RevokedAt), LastUsedAt: database.OrZero(r.LastUsedAt),
		},
		OldUntil: database.OrZero(r.OldUntil),
	}
	copy(k.Hash[:], r.Hash)
	copy(k.OldHash[:], r.OldHash)
	// A list that cannot be read must not become an empty one, which means "all".
	if err := json.Unmarshal([]byte(r.Tiers), &k.Tiers); err != nil {
		return k, fmt.Errorf("read API key %s: its tiers: %w", r.ID, err)
	}
	if err := json.Unmarshal([]byte(r.Types), &k.Types); err != nil {
		return k, fmt.Errorf("read API key %s: its types: %w", r.ID, err)
	}
	return k, nil
}

// orEmpty replaces a nil list by an empty one, whose JSON is [] and not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
