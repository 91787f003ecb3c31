package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tierq/tierq/internal/auth"
	"github.com/tierq/tierq/internal/config"
	"github.com/tierq/tierq/internal/job"
)

// NewKey describes an API key to be made, with plain types.
type NewKey struct {
	Name     string
	Role     string // submit, read-only, admin or worker
	Tiers    []string
	Types    []string
	Queues   []string
	Submits  bool
	Leases   int
	Rate     float64
	Burst    int
	InFlight int
	Expires  time.Duration // from now on; 0 = never
}

// GenerateKey returns the text of a key that no store has: for TIERQ_ADMIN_KEY.
func GenerateKey() string {
	_, _, text := auth.Mint()
	return text
}

// CreateKey makes an API key in the store that the settings name, without a server: to make the first key, and to
// get in after the last key was lost. It returns the key's id and the text to show once. The error of an invalid
// key says what is wrong with it. Servers that use the store know the key within two seconds. An embedded server
// locks its store.
func CreateKey(ctx context.Context, c config.Config, k NewKey, log *slog.Logger) (id, text string, err error) {
	s, err := openStores(c, log)
	if errors.Is(err, errInUse) {
		return "", "", fmt.Errorf("TIERQ_DATA_DIR: a running server uses %s: leave out --store, and the command "+
			"calls that server", c.DataDir)
	}
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.database.Ping(ctx); err != nil {
		return "", "", err
	}
	if err := s.database.Migrate(ctx); err != nil {
		return "", "", err
	}
	if keys, err := s.access.APIKeys(ctx); err != nil {
		return "", "", err
	} else if len(keys) == 0 && c.AdminKey == "" && job.Role(k.Role) != job.RoleAdmin {
		return "", "", errors.New("the first key must have the role admin: over the API only an admin key makes " +
			"further keys")
	}
	now := time.Now()
	made, text, err := auth.NewKeys(auth.KeysOptions{Desk: s.access, Now: time.Now}).CreateKey(ctx, k.key(now))
	if err != nil {
		return "", "", err
	}
	if err := s.access.AddChanges(ctx,
		[]job.Change{{At: now, Action: "key.create", Target: made.ID, After: shown(&made), Outcome: "done"}}); err != nil {
		log.Warn("the key was made, but its entry in the log of changes could not be written", "key", made.ID, "err", err)
	}
	return made.ID, text, nil
}

// shown returns a key as the API writes it to the log of changes.
func shown(k *job.Key) []byte {
	body := struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		Role      job.Role   `json:"role"`
		Tiers     []job.Tier `json:"tiers"`
		Types     []string   `json:"types"`
		Queues    []string   `json:"queues"`
		Submits   bool       `json:"submits,omitempty"`
		Leases    int        `json:"leases,omitempty"`
		Rate      float64    `json:"rate"`
		Burst     int        `json:"burst"`
		InFlight  int        `json:"inFlight"`
		ExpiresAt *time.Time `json:"expiresAt"`
	}{k.ID, k.Name, k.Role, append([]job.Tier{}, k.Tiers...), append([]string{}, k.Types...),
		append([]string{}, k.Queues...), k.Submits, k.Leases, k.Rate, k.Burst, k.InFlight, nil}
	if !k.ExpiresAt.IsZero() {
		at := k.ExpiresAt.UTC()
		body.ExpiresAt = &at
	}
	text, _ := json.Marshal(body) // cannot fail for these types
	return text
}

func (k NewKey) key(now time.Time) job.Key {
	made := job.Key{Name: k.Name, Role: job.Role(k.Role), Types: k.Types, Queues: k.Queues,
		Submits: k.Submits, Leases: k.Leases, Rate: k.Rate, Burst: k.Burst, InFlight: k.InFlight}
	for _, t := range k.Tiers {
		made.Tiers = append(made.Tiers, job.Tier(t))
	}
	if k.Expires > 0 {
		made.ExpiresAt = now.Add(k.Expires)
	}
	return made
}
