package access

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The database's clock sets when a key was made, rotated and revoked. The caller's clock sets when a key expires,
// and until when an old secret is valid.

const (
	apiKeyColumns = "id, name, role, tiers, types, queues, submits, leases, rate, burst, in_flight, hash, old_hash, old_until, " +
		"created_at, created_by, rotated_at, expires_at, revoked_at, last_used_at"
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
		keys[i] = s.keyOrRevoked(&rows[i]) // one unreadable row must not hide the other keys
	}
	return keys, nil
}

// keyOrRevoked returns the key of a row. A key whose row cannot be read is logged and returned as revoked, without a
// role and a secret.
func (s *Store) keyOrRevoked(row *apiKeyRow) job.StoredKey {
	k, err := row.key()
	if err != nil {
		s.db.Log.Error("an API key cannot be read and is refused", "key_id", row.ID, "err", err)
		k.Role, k.Hash, k.OldHash = "", [32]byte{}, [32]byte{}
		if k.RevokedAt.IsZero() {
			k.RevokedAt = k.CreatedAt
		}
	}
	return k
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

// AddAPIKey stores a new key, and returns it as it is stored. After job.ErrAmbiguous the key may be stored; after any
// other error it is not.
func (s *Store) AddAPIKey(ctx context.Context, k job.StoredKey) (job.StoredKey, error) {
	const verb = "add an API key"
	insert, args, err := s.keyInsert(k)
	if err != nil {
		return k, fmt.Errorf("%s: %w", verb, err)
	}
	added, _, err := s.changeKey(ctx, verb, k.ID, insert, args, (*apiKeyRow).key)
	if err != nil {
		return k, err
	}
	return added, nil
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
	queues, err := json.Marshal(orEmpty(k.Queues))
	if err != nil {
		return "", nil, err
	}
	insert = "INSERT INTO api_keys (id, name, role, tiers, types, queues, submits, leases, rate, burst, in_flight, hash, " +
		"created_at, created_by, expires_at, version) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, " + s.db.Dialect.Now +
		", ?, ?, 1)"
	return insert, []any{
		k.ID, k.Name, string(k.Role), string(tiers), string(types), string(queues), k.Submits, k.Leases, k.Rate, k.Burst,
		k.InFlight, k.Hash[:], k.CreatedBy, database.OrNull(k.ExpiresAt),
	}, nil
}

// RotateAPIKey gives a key another secret. The present secret stays valid until oldUntil; an older one ends now. It
// returns job.ErrNoKey for a key that does not exist or was revoked. After job.ErrAmbiguous the key may have been
// rotated; after any other error it was not.
func (s *Store) RotateAPIKey(ctx context.Context, id string, hash [32]byte, oldUntil time.Time) (job.StoredKey, error) {
	const verb = "rotate an API key"
	// The order matters: MySQL assigns one column after the other.
	k, changed, err := s.changeKey(ctx, verb, id, "UPDATE api_keys SET old_hash = hash, old_until = ?, hash = ?, "+
		"rotated_at = "+s.db.Dialect.Now+", version = version + 1 WHERE id = ? AND revoked_at IS NULL",
		[]any{oldUntil.UTC(), hash[:], id}, (*apiKeyRow).key)
	switch {
	case err != nil:
		return job.StoredKey{}, err
	case !changed:
		return job.StoredKey{}, fmt.Errorf("%s: %w", verb, job.ErrNoKey)
	}
	return k, nil
}

// RevokeAPIKey revokes a key. A repeat changes nothing, and keeps the time of the first revocation. It returns
// job.ErrNoKey for a key that does not exist. After job.ErrAmbiguous the key may have been revoked; after any other
// error it was not.
func (s *Store) RevokeAPIKey(ctx context.Context, id string) (job.StoredKey, error) {
	// A key whose row cannot be read must be revocable too.
	read := func(row *apiKeyRow) (job.StoredKey, error) { return s.keyOrRevoked(row), nil }
	k, _, err := s.changeKey(ctx, "revoke an API key", id, "UPDATE api_keys SET revoked_at = "+s.db.Dialect.Now+
		", version = version + 1 WHERE id = ? AND revoked_at IS NULL", []any{id}, read)
	return k, err
}

// changeKey runs a statement about one key, and reads the key's row in the same transaction: if the row cannot be
// read, the statement changes nothing. So an answer never fails after its change was made. changed is false if the
// statement found no row to change. The error is job.ErrNoKey if there is no such key, job.ErrAmbiguous if the
// COMMIT's answer was lost, the error of read, and job.ErrUnavailable otherwise.
func (s *Store) changeKey(ctx context.Context, verb, id, statement string, args []any,
	read func(*apiKeyRow) (job.StoredKey, error)) (k job.StoredKey, changed bool, err error) {
	var unreadable error
	err = s.db.Transaction(ctx, func(conn gorm.ConnPool) error {
		done, err := conn.ExecContext(ctx, statement, args...)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return err
		}
		row, err := s.readKey(ctx, conn, id)
		if err != nil {
			return err
		}
		changed = n > 0
		k, unreadable = read(row)
		return unreadable
	})
	switch {
	case err == nil:
		return k, changed, nil
	case unreadable != nil, errors.Is(err, job.ErrNoKey), errors.Is(err, job.ErrAmbiguous):
		return job.StoredKey{}, false, fmt.Errorf("%s: %w", verb, err)
	}
	return job.StoredKey{}, false, database.Unavailable(verb, err)
}

// readKey reads the row of a key on the connection of a transaction; job.ErrNoKey if there is none.
func (s *Store) readKey(ctx context.Context, conn gorm.ConnPool, id string) (*apiKeyRow, error) {
	rows, err := conn.QueryContext(ctx, apiKeyOf, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, cmp.Or(rows.Err(), job.ErrNoKey)
	}
	row := new(apiKeyRow)
	if err := s.db.Write.ScanRows(rows, row); err != nil {
		return nil, err
	}
	return row, rows.Close()
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

// apiKeyRow is an API key as it is read. A test compares it with the migrated schema. Tiers, Types and Queues are
// JSON lists. Nil Queues are an empty list: an earlier version has made the key. A nil time means "never".
type apiKeyRow struct {
	ID         string     `gorm:"type:char(16);primaryKey"`
	Name       string     `gorm:"type:varchar(100);not null"`
	Role       string     `gorm:"type:varchar(16);not null"`
	Tiers      string     `gorm:"type:text;not null"`
	Types      string     `gorm:"type:text;not null"`
	Queues     *string    `gorm:"type:text"`
	Submits    bool       `gorm:"type:tinyint;not null"`
	Leases     int        `gorm:"type:int;not null"`
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
			ID: r.ID, Name: r.Name, Role: job.Role(r.Role), Submits: r.Submits, Leases: r.Leases, Rate: r.Rate,
			Burst: r.Burst, InFlight: r.InFlight,
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
	if r.Queues != nil {
		if err := json.Unmarshal([]byte(*r.Queues), &k.Queues); err != nil {
			return k, fmt.Errorf("read API key %s: its queues: %w", r.ID, err)
		}
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
