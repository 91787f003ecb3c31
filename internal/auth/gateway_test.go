package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const aGatewaySecret = "for tests only, and nothing else."

// passwords returns the passwords of a key that are valid now.
func passwords(t *testing.T, d *Doors, id string) []string {
	t.Helper()
	_, all, err := d.Gateway(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantNoGateway checks that a key opens no gateway, and that nobody is shown a password of it.
func wantNoGateway(t *testing.T, d *Doors, what, id string) {
	t.Helper()
	c, all, err := d.Gateway(t.Context(), id)
	if !errors.Is(err, job.ErrUnauthorized) || all != nil || c.Key.ID != "" || c.Works() {
		t.Errorf("%s: %q, %+v, %v", what, all, c, err)
	}
	if shown, err := d.GatewayPassword(t.Context(), id); !errors.Is(err, job.ErrNoKey) ||
		errors.Is(err, job.ErrUnauthorized) || shown != "" {
		t.Errorf("%s is shown %q, %v", what, shown, err)
	}
}

// A key's password is derived from the secret of the server, its id and its secret's hash; it is the same for every
// process with that secret, and another one for every other key.
func TestGateway(t *testing.T) {
	inDoors(t, DoorsOptions{GatewaySecret: aGatewaySecret, KeyQuota: 50}, func(t *testing.T, d *Doors, made *desk) {
		id, header := aKnown(t, made, job.Key{
			Name: "thumbs", Role: job.RoleWorker, Queues: []string{"pictures"}, Tiers: []job.Tier{job.Paid}, Rate: 7,
		})
		mac := hmac.New(sha256.New, []byte(aGatewaySecret))
		hash := made.store.keys[0].Hash
		mac.Write(append([]byte("faktory"+id), hash[:]...))
		want := base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		c, all, err := d.Gateway(t.Context(), id)
		if err != nil || !slices.Equal(all, []string{want}) || c.Owner() != id || !c.MayFetch("pictures") ||
			c.MayFetch("films") || c.Key.Rate != 7 || c.Open || !slices.Equal(c.FetchTiers(), []job.Tier{job.Paid}) {
			t.Errorf("%+v, %q, %v", c, all, err)
		}
		for _, shown := range []string{must(d.GatewayPassword(t.Context(), id)), must(d.OwnGatewayPassword(header))} {
			if shown != want {
				t.Errorf("shown %q, want %q", shown, want)
			}
		}
		other, _ := aKnown(t, made, job.Key{Name: "ci", Role: job.RoleSubmit})
		if c, all, err := d.Gateway(t.Context(), other); err != nil || len(all) != 1 || all[0] == want ||
			c.Key.InFlight != 50 {
			t.Errorf("another key: %+v, %q, %v", c, all, err)
		}
		o := d.opts
		o.GatewaySecret = aGatewaySecret + "!"
		if all := passwords(t, NewDoors(o), id); all[0] == want {
			t.Error("the password does not depend on the server's secret")
		}
		wantNoGateway(t, d, "an unknown key", "zzzzzzzzzzzzzzzz")
		wantNoGateway(t, d, "no key", "")
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A rotation makes another password. The old secret's password opens as long as the old secret, and its holder is
// shown no other.
func TestGateway_Rotation(t *testing.T) {
	inDoors(t, DoorsOptions{GatewaySecret: aGatewaySecret}, func(t *testing.T, d *Doors, made *desk) {
		id, oldHeader := aKnown(t, made, job.Key{})
		old := passwords(t, d, id)[0]
		_, text, err := made.keys.RotateKey(t.Context(), id, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := passwords(t, d, id)
		if len(all) != 2 || all[0] == old || all[1] != old {
			t.Errorf("in the grace: %q, before it was %q", all, old)
		}
		if shown := must(d.GatewayPassword(t.Context(), id)); shown != all[0] {
			t.Errorf("an admin is shown %q of %q", shown, all)
		}
		newHeader := []string{"Bearer " + text}
		if now, was := must(d.OwnGatewayPassword(newHeader)), must(d.OwnGatewayPassword(oldHeader)); now != all[0] ||
			was != old {
			t.Errorf("the new secret shows %q, the old one %q, of %q", now, was, all)
		}
		within(time.Hour)
		if left := passwords(t, d, id); !slices.Equal(left, all[:1]) {
			t.Errorf("after the grace: %q", left)
		}
		if _, err := d.OwnGatewayPassword(oldHeader); !errors.Is(err, job.ErrUnauthorized) {
			t.Errorf("after the grace the old secret is shown a password: %v", err)
		}
	})
}

// The password of a revoked key opens nothing, and neither does that of an expired one.
func TestGateway_Ends(t *testing.T) {
	inDoors(t, DoorsOptions{GatewaySecret: aGatewaySecret}, func(t *testing.T, d *Doors, made *desk) {
		revoked, header := aKnown(t, made, job.Key{})
		expiring, _ := aKnown(t, made,
			job.Key{Name: "x", Role: job.RoleWorker, ExpiresAt: time.Now().Add(time.Minute)})
		bystander, _ := aKnown(t, made, job.Key{})
		passwords(t, d, revoked)
		passwords(t, d, expiring)
		if _, err := made.keys.RevokeKey(t.Context(), revoked); err != nil {
			t.Fatal(err)
		}
		if err := made.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		within(time.Minute)
		wantNoGateway(t, d, "a revoked key", revoked)
		wantNoGateway(t, d, "an expired key", expiring)
		if _, err := d.OwnGatewayPassword(header); !errors.Is(err, job.ErrUnauthorized) {
			t.Errorf("a revoked key is shown its password: %v", err)
		}
		passwords(t, d, bystander)
	})
}

// Without a secret for gateways no key has a password, and every call says so.
func TestGateway_WithoutSecret(t *testing.T) {
	inDoors(t, DoorsOptions{}, func(t *testing.T, d *Doors, made *desk) {
		id, header := aKnown(t, made, job.Key{})
		_, all, err := d.Gateway(t.Context(), id)
		if !errors.Is(err, job.ErrNoGateway) || all != nil {
			t.Errorf("%q, %v", all, err)
		}
		if _, err := d.GatewayPassword(t.Context(), id); !errors.Is(err, job.ErrNoGateway) {
			t.Error(err)
		}
		if _, err := d.OwnGatewayPassword(header); !errors.Is(err, job.ErrNoGateway) {
			t.Error(err)
		}
	})
}

// A gateway charges wrong passwords to their address, together with wrong keys, and reports the use of a key.
func TestGateway_WrongPasswordsAndUse(t *testing.T) {
	inDoors(t, DoorsOptions{GatewaySecret: aGatewaySecret}, func(t *testing.T, d *Doors, made *desk) {
		id, _ := aKnown(t, made, job.Key{})
		if _, err := enter(t, d, []string{"Bearer " + aText}, somewhere); !errors.Is(err, job.ErrUnauthorized) {
			t.Fatal(err)
		}
		for range wrongAtOnce - 1 {
			if err := d.CountWrong(t.Context(), somewhere); err != nil {
				t.Fatal(err)
			}
		}
		var rate *job.RateError
		if err := d.CountWrong(t.Context(), somewhere); !errors.As(err, &rate) || rate.In <= 0 {
			t.Errorf("one more: %v", err)
		}
		if err := d.CountWrong(t.Context(), elsewhere); err != nil {
			t.Errorf("another address: %v", err)
		}
		passwords(t, d, id)
		made.flush(t.Context())
		if !made.store.lastUse(id).IsZero() {
			t.Error("a question for the passwords counts as use")
		}
		d.NoteUse(id)
		d.NoteUse("zzzzzzzzzzzzzzzz")
		made.flush(t.Context())
		if !made.store.lastUse(id).Equal(time.Now()) || len(made.store.used) != 1 {
			t.Errorf("used: %v", made.store.used)
		}
	})
}
