package auth

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// desk is a keyring with its store and the Keys that make keys there, in one process.
type desk struct {
	*Keyring
	store *shelf
	keys  *Keys
}

func newDesk(t *testing.T, admin string) *desk {
	t.Helper()
	s := &shelf{now: time.Now}
	k, err := NewKeyring(KeyringOptions{Store: s, Admin: admin, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{Keyring: k, store: s, keys: NewKeys(KeysOptions{Desk: s, Now: time.Now})}
}

// make makes a key in the store; the keyring has not loaded it yet.
func (d *desk) make(t *testing.T, k job.Key) (id, header string) {
	t.Helper()
	if k.Name == "" {
		k.Name, k.Role = "ci", job.RoleSubmit
	}
	made, text, err := d.keys.CreateKey(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return made.ID, "Bearer " + text
}

func (d *desk) opens(header string) bool {
	_, ok := d.Authenticate([]string{header})
	return ok
}

// running runs a test in synthetic time with a desk whose keyring has started.
func running(t *testing.T, test func(t *testing.T, d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "")
		if err := d.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := errors.Join(d.Stop(context.Background()), d.Stop(context.Background())); err != nil {
				t.Error(err)
			}
		}()
		test(t, d)
	})
}

func within(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A key with any fault is refused, and only the exact key is accepted.
func TestNoKeyOpens(t *testing.T) {
	t.Attr("proves", "A04")
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "")
		_, live := d.make(t, job.Key{})
		_, expiring := d.make(t, job.Key{Name: "x", Role: job.RoleSubmit, ExpiresAt: time.Now().Add(time.Minute)})
		revokedID, revoked := d.make(t, job.Key{})
		if _, err := d.keys.RevokeKey(t.Context(), revokedID); err != nil {
			t.Fatal(err)
		}
		if err := d.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !d.opens(live) || !d.opens(expiring) || !d.opens(strings.Replace(live, "Bearer", "bearer", 1)) {
			t.Error("a live key does not open")
		}
		within(time.Minute)
		_, _, unknown := Mint()
		for what, header := range map[string][]string{
			"none": nil, "empty": {""}, "no scheme": {live[len("Bearer "):]},
			"another scheme": {"Basic " + live[len("Bearer "):]}, "malformed": {"Bearer x"},
			"unknown":          {"Bearer " + unknown},
			"another's secret": {live[:len("Bearer tq_")+idLen] + expiring[len("Bearer tq_")+idLen:]}, "expired": {expiring},
			"revoked": {revoked}, "twice": {live, live}, "with a space": {live + " "}, "two in one": {live + ", " + live},
			"no secret": {live[:len("Bearer tq_")+idLen+1]},
		} {
			if k, ok := d.Authenticate(header); ok || k.ID != "" {
				t.Errorf("%s: it opens as %+v", what, k)
			}
		}
	})
}

// Every key takes one SHA-256 and the same two comparisons, so that the time of the answer does not show where a
// wrong secret differs from a right one.
func TestOnePathForEveryKey(t *testing.T) {
	t.Attr("proves", "A07")
	source, err := os.ReadFile("keyring.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(source), "func (k *Keyring) Authenticate")
	body, _, _ := strings.Cut(rest, "\n}\n")
	if n := strings.Count(body, "ConstantTimeCompare("); n != 2 || strings.Count(body, "Hash(secret)") != 1 ||
		strings.Contains(body, "bytes.Equal") {
		t.Errorf("%d comparisons in\n%s", n, body)
	}
	if first := strings.Index(body, "return"); first < strings.LastIndex(body, "ConstantTimeCompare(") {
		t.Error("it returns before it has compared")
	}

	d := newDesk(t, "")
	d.store.now = time.Now
	_, header := d.make(t, job.Key{})
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	flip := func(at int) string {
		b := []byte(header)
		b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A']
		return string(b)
	}
	secret := len(header) - secretLen
	_, _, unknown := Mint()
	wrong := map[string]string{"first byte": flip(secret), "last byte": flip(len(header) - 2), "all": "Bearer " + unknown}
	took := map[string][]time.Duration{}
	for range 2000 { // in turns, so that a busy machine slows all of them alike
		for what, h := range wrong {
			began := time.Now()
			if d.opens(h) {
				t.Fatalf("%s wrong: it opens", what)
			}
			took[what] = append(took[what], time.Since(began))
		}
	}
	for what, all := range took {
		slices.Sort(all)
		t.Logf("%s wrong: median %v", what, all[len(all)/2])
	}
}

// A server is open until its first key is made. From then on it is never open again, whatever happens to the key,
// the rows and the store.
func TestOpenUntilTheFirstKey(t *testing.T) {
	t.Attr("proves", "A49")
	running(t, func(t *testing.T, d *desk) {
		if !d.Open() || d.Made() != 0 {
			t.Error("closed without a key")
		}
		id, header := d.make(t, job.Key{Name: "boss", Role: job.RoleAdmin})
		within(refreshEvery)
		if d.Open() || !d.opens(header) || d.Made() != 1 {
			t.Errorf("open %v, the key opens %v, %d made", d.Open(), d.opens(header), d.Made())
		}
		if _, err := d.keys.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		within(refreshEvery)
		if d.Open() || d.opens(header) {
			t.Error("the last key was revoked: it is open again")
		}
		d.store.mu.Lock()
		d.store.keys, d.store.version = nil, 0
		d.store.mu.Unlock()
		within(refreshEvery)
		if d.Open() {
			t.Error("somebody emptied the table: it is open again")
		}
	})
}

// The key of TIERQ_ADMIN_KEY needs no store, and has the role admin.
func TestAdminKey(t *testing.T) {
	t.Attr("proves", "A49")
	_, _, text := Mint()
	d := newDesk(t, text)
	k, ok := d.Authenticate([]string{"Bearer " + text})
	if !ok || k.Role != job.RoleAdmin || k.Name != AdminName || d.Open() {
		t.Errorf("%+v, %v, open %v", k, ok, d.Open())
	}
	for _, bad := range []string{"admin", text[1:], text + "\n"} {
		if _, err := NewKeyring(KeyringOptions{Store: d.store, Admin: bad, Now: time.Now}); err == nil ||
			strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Known callers are served while SQL is away. A change in the meantime takes effect when SQL is back.
func TestStoreAway(t *testing.T) {
	running(t, func(t *testing.T, d *desk) {
		id, header := d.make(t, job.Key{})
		within(refreshEvery)
		d.store.fail(errAway)
		within(time.Hour)
		if !d.opens(header) {
			t.Error("a known key no longer opens")
		}
		d.store.fail(nil)
		if _, err := d.keys.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		within(refreshEvery)
		if d.opens(header) {
			t.Error("a revoked key opens")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "")
		d.store.fail(errAway)
		if err := d.Start(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("it starts without knowing whether there are keys: %v", err)
		}
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The keyring checks the store once a second, and loads the keys only after a change.
func TestLooks(t *testing.T) {
	running(t, func(t *testing.T, d *desk) {
		within(time.Minute)
		d.make(t, job.Key{})
		within(time.Minute)
		if looks, loads := d.store.looks, d.store.loads; looks < 110 || looks > 125 || loads != 2 {
			t.Errorf("%d looks and %d loads in two minutes with one change", looks, loads)
		}
	})
}

func TestRotation(t *testing.T) {
	running(t, func(t *testing.T, d *desk) {
		id, first := d.make(t, job.Key{})
		rotate := func(grace time.Duration) string {
			t.Helper()
			k, text, err := d.keys.RotateKey(t.Context(), id, grace)
			if err != nil || k.ID != id || k.RotatedAt.IsZero() {
				t.Fatalf("%+v, %v", k, err)
			}
			within(refreshEvery)
			return "Bearer " + text
		}
		second := rotate(time.Hour)
		if !d.opens(first) || !d.opens(second) {
			t.Errorf("within the grace: the old opens %v, the new %v", d.opens(first), d.opens(second))
		}
		third := rotate(time.Hour)
		if d.opens(first) || !d.opens(second) || !d.opens(third) {
			t.Error("three secrets open, or the newest two do not")
		}
		within(time.Hour)
		if d.opens(second) || !d.opens(third) {
			t.Error("after the grace")
		}
		fourth := rotate(0)
		if d.opens(third) || !d.opens(fourth) {
			t.Error("without a grace")
		}
	})
}

// The used keys are recorded at most every ten seconds, and at the end.
func TestLastUse(t *testing.T) {
	running(t, func(t *testing.T, d *desk) {
		id, header := d.make(t, job.Key{})
		other, _ := d.make(t, job.Key{})
		within(refreshEvery)
		d.opens(header)
		d.opens("Bearer tq_" + other + "_" + header[len(header)-secretLen:]) // another key's secret is not a use of the key
		within(flushEvery)
		if d.store.lastUse(id).IsZero() || !d.store.lastUse(other).IsZero() {
			t.Errorf("used: %v", d.store.used)
		}
		was := d.store.lastUse(id)
		within(time.Minute)
		if d.store.lastUse(id) != was {
			t.Error("noted again without use")
		}
		d.make(t, job.Key{}) // the keys are loaded again: the use before is not forgotten
		d.opens(header)
		within(refreshEvery)
		if err := d.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !d.store.lastUse(id).After(was) {
			t.Error("not noted at the end")
		}
	})
}
