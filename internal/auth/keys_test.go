package auth

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestKeyLife(t *testing.T) {
	d := newDesk(t, "")
	told := 0
	d.keys.opts.Changed = d.Load
	made, text, err := d.keys.CreateKey(t.Context(), job.Key{
		ID: "mine", Name: "ci", Role: job.RoleSubmit, Tiers: []job.Tier{"PAID"}, Types: []string{"REPORT"}, Rate: 0.5,
		Burst: 3, InFlight: 4, CreatedBy: "boss",
		RevokedAt: time.Now(), LastUsedAt: time.Now(),
	})
	id, secret, ok := Parse(text)
	if err != nil || !ok || made.ID != id || made.Name != "ci" || made.CreatedAt.IsZero() || made.CreatedBy != "boss" {
		t.Fatalf("%+v, %v", made, err)
	}
	if !made.RevokedAt.IsZero() || !made.LastUsedAt.IsZero() {
		t.Errorf("it was made with a past: %+v", made)
	}
	if !d.opens("Bearer " + text) {
		t.Error("this process does not know it at once")
	}
	for _, k := range d.store.keys {
		if k.Hash != Hash(secret) || strings.Contains(k.Name+k.CreatedBy, secret) {
			t.Errorf("stored as %+v", k)
		}
	}
	d.keys.opts.Changed = func(context.Context) error { told++; return errAway }
	if _, err := d.keys.RevokeKey(t.Context(), id); err != nil || told != 1 {
		t.Errorf("the keyring could not look: %v, told %d times", err, told)
	}
	if err := d.Load(t.Context()); err != nil || d.opens("Bearer "+text) {
		t.Errorf("a revoked key opens, %v", err)
	}
	if _, _, err := d.keys.RotateKey(t.Context(), id, 0); !isAbout(err, "id") {
		t.Errorf("a revoked key is rotated: %v", err)
	}
	for _, err := range []error{second(d.keys.RevokeKey(t.Context(), "nobody")),
		third(d.keys.RotateKey(t.Context(), "nobody", 0))} {
		if !errors.Is(err, job.ErrNoKey) {
			t.Errorf("an unknown key: %v", err)
		}
	}
	for _, grace := range []time.Duration{-1, maxGrace + 1} {
		if _, _, err := d.keys.RotateKey(t.Context(), id, grace); !isAbout(err, "graceSeconds") {
			t.Errorf("a grace of %v: %v", grace, err)
		}
	}
	keys, err := d.keys.Keys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].ID != id || keys[0].RevokedAt.IsZero() {
		t.Errorf("%+v, %v", keys, err)
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func isAbout(err error, field string) bool {
	var wrong *job.PayloadError
	return errors.As(err, &wrong) && wrong.Field == field
}

func TestKeysThatCannotBe(t *testing.T) {
	t.Attr("proves", "A62")
	d := newDesk(t, "")
	var many []string
	for i := range maxList + 1 {
		many = append(many, fmt.Sprint("T", i))
	}
	for _, tc := range []struct {
		field string
		wrong func(*job.Key)
	}{
		{"name", func(k *job.Key) { k.Name = "" }},
		{"name", func(k *job.Key) { k.Name = "ci\u200b" }},
		{"role", func(k *job.Key) { k.Role = "" }},
		{"role", func(k *job.Key) { k.Role = "Admin" }},
		{"tiers", func(k *job.Key) { k.Tiers = []job.Tier{"PAİD"} }},
		{"tiers", func(k *job.Key) { k.Tiers = []job.Tier{"paid"} }},
		{"tiers", func(k *job.Key) { k.Tiers = []job.Tier{""} }},
		{"tiers", func(k *job.Key) { k.Tiers = []job.Tier{"PAID", "PAID"} }},
		{"tiers", func(k *job.Key) { k.Role, k.Tiers = job.RoleReadOnly, []job.Tier{"PAID"} }},
		{"types", func(k *job.Key) { k.Role, k.Types = job.RoleReadOnly, []string{"A"} }},
		{"types", func(k *job.Key) { k.Role, k.Types = job.RoleWorker, []string{"A"} }},
		{"queues", func(k *job.Key) { k.Queues = []string{"pictures"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleAdmin, []string{"pictures"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleReadOnly, []string{"pictures"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{"a b"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{""} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{"a", "b", "a"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, many }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{"*"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{"a*b"} }},
		{"queues", func(k *job.Key) { k.Role, k.Queues = job.RoleWorker, []string{"a**"} }},
		{"submits", func(k *job.Key) { k.Submits = true }},
		{"submits", func(k *job.Key) { k.Role, k.Submits = job.RoleAdmin, true }},
		{"submits", func(k *job.Key) { k.Role, k.Submits = job.RoleReadOnly, true }},
		{"leases", func(k *job.Key) { k.Leases = 1 }},
		{"leases", func(k *job.Key) { k.Role, k.Leases = job.RoleWorker, -1 }},
		{"leases", func(k *job.Key) { k.Role, k.Leases = job.RoleWorker, maxLeases+1 }},
		{"types", func(k *job.Key) { k.Types = []string{"A B"} }},
		{"types", func(k *job.Key) { k.Types = []string{strings.Repeat("A", 65)} }},
		{"types", func(k *job.Key) { k.Types = many }},
		{"rate", func(k *job.Key) { k.Rate = -1 }},
		{"rate", func(k *job.Key) { k.Rate = math.NaN() }},
		{"rate", func(k *job.Key) { k.Rate = math.Inf(1) }},
		{"rate", func(k *job.Key) { k.Rate = 1e-9 }},
		{"burst", func(k *job.Key) { k.Rate, k.Burst = 1, -1 }},
		{"burst", func(k *job.Key) { k.Burst = 1 }},
		{"inFlight", func(k *job.Key) { k.InFlight = -1 }},
		{"inFlight", func(k *job.Key) { k.InFlight = maxInFlight + 1 }},
		{"expiresAt", func(k *job.Key) { k.ExpiresAt = time.Now().Add(-time.Second) }},
		{"expiresAt", func(k *job.Key) { k.ExpiresAt = time.Now().Add(2 * century) }},
	} {
		k := job.Key{Name: "ci", Role: job.RoleSubmit}
		tc.wrong(&k)
		if _, text, err := d.keys.CreateKey(t.Context(), k); !isAbout(err, tc.field) || text != "" {
			t.Errorf("%+v: %v, want one about %s", k, err, tc.field)
		}
	}
	if len(d.store.keys) != 0 {
		t.Errorf("%d of them are there", len(d.store.keys))
	}
	for _, role := range job.Roles {
		k := job.Key{Name: "ci", Role: role, Rate: 1e6, Burst: 1e6, InFlight: 1e9, ExpiresAt: time.Now().Add(time.Hour)}
		if made, _, err := d.keys.CreateKey(t.Context(), k); err != nil || made.Role != role {
			t.Errorf("%s: %v", role, err)
		}
	}
	bound := job.Key{
		Name: "thumbs", Role: job.RoleWorker, Tiers: []job.Tier{"PAID"}, Queues: []string{job.MainQueue, "pictures*"},
		Submits: true, Types: []string{"REPORT"}, Leases: maxLeases,
	}
	if made, _, err := d.keys.CreateKey(t.Context(), bound); err != nil || !slices.Equal(made.Queues, bound.Queues) ||
		!slices.Equal(made.Tiers, bound.Tiers) || !made.Submits || made.Leases != maxLeases ||
		!slices.Equal(made.Types, bound.Types) {
		t.Errorf("a worker's key that is bound: %+v, %v", made, err)
	}
	if !slices.ContainsFunc(d.store.keys, func(k job.StoredKey) bool { return k.Role == job.RoleAdmin }) {
		t.Error("no admin's key was made")
	}
}

// A key names job types by the rule of submits: a longer name could never be submitted. A key that an earlier version
// stored with a longer name still opens, and submits its other types.
func TestTypesOfKeys_AreTypesOfSubmits(t *testing.T) {
	d := newDesk(t, "")
	longest, tooLong := strings.Repeat("A", job.MaxTypeName), strings.Repeat("A", job.MaxTypeName+1)
	if _, header := d.make(t, job.Key{Name: "ci", Role: job.RoleSubmit, Types: []string{longest}}); header == "" {
		t.Error("the longest name is refused")
	}
	_, _, err := d.keys.CreateKey(t.Context(), job.Key{Name: "ci", Role: job.RoleSubmit, Types: []string{tooLong}})
	if !isAbout(err, "types") || !strings.Contains(err.Error(), "1 to 64 capital letters") {
		t.Errorf("one more character: %v", err)
	}
	id, secret, text := Mint()
	d.store.keys = append(d.store.keys, job.StoredKey{
		Key: job.Key{ID: id, Name: "old", Role: job.RoleSubmit, Types: []string{tooLong, "REPORT"}}, Hash: Hash(secret),
	})
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, ok := d.Authenticate([]string{"Bearer " + text})
	caller := job.Caller{Key: key}
	if !ok || !caller.MayType("REPORT") || caller.MayType("SEND_EMAIL") {
		t.Errorf("a stored key with a longer name: %+v, %t", caller, ok)
	}
}
