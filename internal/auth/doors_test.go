package auth

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

var somewhere, elsewhere = netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("192.0.2.8")

// inDoors runs a test in synthetic time, with doors whose keyring has no key yet.
func inDoors(t *testing.T, o DoorsOptions, test func(t *testing.T, d *Doors, made *desk)) {
	synctest.Test(t, func(t *testing.T) {
		made := newDesk(t, "")
		o.Keyring, o.Limiter = made.Keyring, NewLimiter(newStore(), nil)
		defer o.Limiter.Stop()
		if err := made.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		test(t, NewDoors(o), made)
	})
}

// aKnown makes a key that the doors know.
func aKnown(t *testing.T, made *desk, k job.Key) (id string, header []string) {
	t.Helper()
	id, text := made.make(t, k)
	if err := made.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id, []string{text}
}

func enter(t *testing.T, d *Doors, header []string, from netip.Addr) (job.Caller, error) {
	t.Helper()
	return d.Enter(t.Context(), header, "", from)
}

func TestEnter(t *testing.T) {
	t.Attr("proves", "A04")
	inDoors(t, DoorsOptions{}, func(t *testing.T, d *Doors, made *desk) {
		c, err := enter(t, d, nil, somewhere)
		if err != nil || !c.Open || !c.Admin() || c.Address != somewhere || !d.Open() {
			t.Errorf("an open server: %+v, %v", c, err)
		}
		if _, err := enter(t, d, []string{"Bearer " + aText}, somewhere); !errors.Is(err, job.ErrUnauthorized) {
			t.Errorf("a key on a server that has none: %v", err)
		}
		id, header := aKnown(t, made, job.Key{Name: "ci", Role: job.RoleSubmit, Tiers: []job.Tier{job.Paid}, InFlight: 7})
		c, err = enter(t, d, header, somewhere)
		if err != nil || c.Owner() != id || c.Key.InFlight != 7 || c.Open || !c.MayTier(job.Paid) || c.MayTier(job.Public) ||
			d.Open() {
			t.Errorf("a key: %+v, %v", c, err)
		}
		c, err = enter(t, d, nil, somewhere)
		if err != nil || c.Open || c.Submits() || c.Operator() || c.Sees("") {
			t.Errorf("a stranger: %+v, %v", c, err)
		}
		for _, wrong := range [][]string{{""}, {"Bearer " + aText}, {"Basic x"}, {header[0], header[0]}} {
			c, err := enter(t, d, wrong, somewhere)
			bare := err == job.ErrUnauthorized //nolint:errorlint // the same error for every fault, not wrapped
			if !bare || c.Key.ID != "" {
				t.Errorf("%q: %+v, %v", wrong, c, err)
			}
		}
	})
}

// A submit key without a quota gets the quota of the settings. A stranger gets a quota too, and his jobs count for
// his network.
func TestEnter_Quotas(t *testing.T) {
	t.Attr("proves", "A29")
	inDoors(t, DoorsOptions{AnonymousRate: 10, KeyQuota: 50, AnonymousQuota: 5}, func(t *testing.T, d *Doors, made *desk) {
		quota := func(header []string, from string) (int, string) {
			t.Helper()
			c, err := enter(t, d, header, netip.MustParseAddr(from))
			if err != nil {
				t.Fatal(err)
			}
			return c.Key.InFlight, c.From
		}
		if n, from := quota(nil, "192.0.2.1"); n != 0 || from != "" {
			t.Errorf("an open server: %d jobs of %q", n, from)
		}
		_, both := aKnown(t, made, job.Key{Name: "thumbs", Role: job.RoleWorker, Submits: true})
		if n, _ := quota(both, "192.0.2.1"); n != 50 {
			t.Errorf("a worker's key that submits: %d jobs", n)
		}
		for name, want := range map[string]struct {
			key   job.Key
			quota int
		}{
			"none of its own": {job.Key{Name: "none", Role: job.RoleSubmit}, 50},
			"its own":         {job.Key{Name: "own", Role: job.RoleSubmit, InFlight: 7000}, 7000},
			"an admin's":      {job.Key{Name: "admin", Role: job.RoleAdmin}, 0},
		} {
			_, header := aKnown(t, made, want.key)
			if n, from := quota(header, "192.0.2.1"); n != want.quota || from != "" {
				t.Errorf("%s: %d jobs of %q", name, n, from)
			}
		}
		n, one := quota(nil, "192.0.2.1")
		_, again := quota(nil, "192.0.2.1")
		_, other := quota(nil, "192.0.2.2")
		if n != 5 || one != again || one == other || !regexp.MustCompile(`^~[0-9a-f]{16}$`).MatchString(one) {
			t.Errorf("strangers: %d jobs of %q, %q and %q", n, one, again, other)
		}
		_, six := quota(nil, "2001:db8::1")
		if _, same := quota(nil, "2001:db8::2"); same != six {
			t.Errorf("a /64 is two: %q, %q", six, same)
		}
	})
}

// Wrong keys are slowed by address. A right key from the same address always passes.
func TestBruteForce(t *testing.T) {
	t.Attr("proves", "A06")
	inDoors(t, DoorsOptions{}, func(t *testing.T, d *Doors, made *desk) {
		_, right := aKnown(t, made, job.Key{})
		wrong := []string{"Bearer " + aText}
		refused := func(n int, from netip.Addr) (unauthorized, limited int) {
			for range n {
				_, err := enter(t, d, wrong, from)
				var rate *job.RateError
				switch {
				case errors.As(err, &rate):
					if rate.RetryIn() <= 0 || !errors.Is(err, job.ErrRateLimited) {
						t.Errorf("%v says to come again in %v", err, rate.RetryIn())
					}
					limited++
				case errors.Is(err, job.ErrUnauthorized):
					unauthorized++
				default:
					t.Errorf("%v", err)
				}
			}
			return unauthorized, limited
		}
		if u, l := refused(1000, somewhere); u != wrongAtOnce || l != 1000-wrongAtOnce {
			t.Errorf("of 1000 wrong keys %d were 401 and %d were 429", u, l)
		}
		if _, err := enter(t, d, right, somewhere); err != nil {
			t.Errorf("a right key from there: %v", err)
		}
		if u, _ := refused(5, elsewhere); u != 5 {
			t.Error("another address pays for it")
		}
		within(10 * time.Second)
		if u, _ := refused(100, somewhere); u < 9 || u > 11 {
			t.Errorf("ten seconds later %d more were looked at", u)
		}
	})
}

// An address has its own rate. IPv6 addresses share the rate of their /64, because one client has 2^64 of them.
func TestAddressRate(t *testing.T) {
	t.Attr("proves", "A31")
	inDoors(t, DoorsOptions{AddressRate: 10}, func(t *testing.T, d *Doors, made *desk) {
		_, one := aKnown(t, made, job.Key{})
		_, two := aKnown(t, made, job.Key{})
		passed := 0
		for i := range 40 {
			header := one
			if i%2 == 0 {
				header = two
			}
			from := netip.MustParseAddr("2001:db8:1:2::").As16()
			from[15] = byte(i)
			switch _, err := enter(t, d, header, netip.AddrFrom16(from)); {
			case err == nil:
				passed++
			case !errors.Is(err, job.ErrRateLimited):
				t.Error(err)
			}
		}
		if passed != 10 {
			t.Errorf("%d of 40 passed", passed)
		}
		next := netip.MustParseAddr("2001:db8:1:3::1")
		if _, err := enter(t, d, one, next); err != nil {
			t.Errorf("the next /64: %v", err)
		}
		// A request that needs no key is charged and refused like one that needs a key.
		third, refused := netip.MustParseAddr("2001:db8:1:4::1"), 0
		for range 20 {
			if err := d.CountAddress(t.Context(), third); errors.Is(err, job.ErrRateLimited) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if _, err := enter(t, d, one, third); refused != 10 || !errors.Is(err, job.ErrRateLimited) {
			t.Errorf("of 20 requests without a key %d were refused, then one with a key: %v", refused, err)
		}
		// The entries of a batch are charged to this rate as they are to a key's rate.
		key := job.Caller{Address: next}
		if a := d.SpendMore(t.Context(), &key, 8); a.RetryIn > 0 {
			t.Errorf("eight entries more: %+v", a)
		}
		if a := d.SpendMore(t.Context(), &key, 8); a.RetryIn <= 0 {
			t.Errorf("and eight more: %+v", a)
		}
	})
}

// All strangers together have a common rate. Requests that the rate of an address refuses are not charged to it,
// and requests with a key are not either.
func TestStrangersRate(t *testing.T) {
	t.Attr("proves", "A31")
	o := DoorsOptions{AnonymousRate: 5, AnonymousTotal: 12, AnonymousTypes: []string{"SIMULATION"}}
	inDoors(t, o, func(t *testing.T, d *Doors, made *desk) {
		_, key := aKnown(t, made, job.Key{Role: job.RoleSubmit, Rate: 50, Burst: 50})
		spend := func(header []string, from netip.Addr, n int) (passed int) {
			for range n {
				c, err := enter(t, d, header, from)
				if err != nil {
					t.Fatal(err)
				}
				if a := d.Spend(t.Context(), &c, 1); a.RetryIn <= 0 {
					passed++
				}
			}
			return passed
		}
		third := netip.MustParseAddr("192.0.2.9")
		if n := spend(nil, somewhere, 100); n != 5 {
			t.Errorf("of one address' 100 requests %d passed", n)
		}
		if n := spend(nil, elsewhere, 5); n != 5 {
			t.Errorf("of another's 5 requests %d passed", n)
		}
		if n := spend(nil, third, 5); n != 2 {
			t.Errorf("of a third one's 5 requests %d passed, and 12 may of all", n)
		}
		if n := spend(key, third, 50); n != 50 {
			t.Errorf("of a key's 50 requests %d passed", n)
		}
		c, _ := enter(t, d, nil, third)
		if !c.MayType("SIMULATION") || c.MayType("SEND_EMAIL") || c.MayType("CALLBACK") {
			t.Errorf("a stranger submits %v", c.Key.Types)
		}
	})
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := network(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if got := network(netip.Addr{}); got != "none" {
		t.Errorf("no address: %s", got)
	}
}

func TestSpend(t *testing.T) {
	inDoors(t, DoorsOptions{AnonymousRate: 3}, func(t *testing.T, d *Doors, made *desk) {
		spend := func(c job.Caller, n int) job.Allowance {
			t.Helper()
			return d.Spend(context.Background(), &c, n)
		}
		if a := spend(job.Caller{Open: true}, 1000); a.Limited || a.RetryIn != 0 {
			t.Errorf("an open server: %+v", a)
		}
		_, header := aKnown(t, made, job.Key{})
		free, _ := enter(t, d, header, somewhere)
		if a := spend(free, 1000); a.Limited || a.RetryIn != 0 {
			t.Errorf("a key without a rate: %+v", a)
		}
		_, header = aKnown(t, made, job.Key{Name: "slow", Role: job.RoleSubmit, Rate: 2.5})
		slow, _ := enter(t, d, header, somewhere)
		if a := spend(slow, 2); !a.Limited || a.Rate != 2.5 || a.Burst != 3 || a.Remaining != 1 || a.RetryIn != 0 {
			t.Errorf("the first two of 2.5 a second: %+v", a)
		}
		if a := spend(slow, 2); a.RetryIn <= 0 {
			t.Errorf("two more: %+v", a)
		}
		slow.Address = elsewhere // the rate is the key's, from any address
		if a := spend(slow, 2); a.RetryIn <= 0 {
			t.Errorf("two more from elsewhere: %+v", a)
		}
		_, header = aKnown(t, made, job.Key{Name: "bursts", Role: job.RoleSubmit, Rate: 0.5, Burst: 100})
		bursts, _ := enter(t, d, header, somewhere)
		if a := spend(bursts, 100); a.RetryIn != 0 || a.Burst != 100 {
			t.Errorf("a burst: %+v", a)
		}

		stranger, err := enter(t, d, nil, somewhere)
		if err != nil || !stranger.MayTier(job.Public) || stranger.MayTier(job.Paid) || !stranger.Sees("") ||
			stranger.Sees("x") || stranger.Operator() {
			t.Errorf("somebody without a key: %+v, %v", stranger, err)
		}
		if a := spend(stranger, 3); a.RetryIn != 0 || a.Rate != 3 {
			t.Errorf("three of his requests: %+v", a)
		}
		if a := spend(stranger, 1); a.RetryIn <= 0 {
			t.Errorf("one more: %+v", a)
		}
		other, _ := enter(t, d, nil, elsewhere)
		if a := spend(other, 1); a.RetryIn != 0 {
			t.Errorf("another address: %+v", a)
		}
	})
}

// A costly request is charged at most half of each rate's burst, including the request itself.
func TestSpendCostly(t *testing.T) {
	t.Attr("proves", "A29")
	for name, c := range map[string]struct {
		options DoorsOptions
		key     job.Key
	}{
		"a key's rate":      {DoorsOptions{}, job.Key{Rate: 1, Burst: 20}},
		"an address' rate":  {DoorsOptions{AddressRate: 100}, job.Key{}},
		"fewer than half":   {DoorsOptions{}, job.Key{Rate: 36, Burst: 400}},
		"one at once is so": {DoorsOptions{}, job.Key{Rate: 0.1, Burst: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			inDoors(t, c.options, func(t *testing.T, d *Doors, made *desk) {
				c.key.Name, c.key.Role = "lists", job.RoleSubmit
				_, header := aKnown(t, made, c.key)
				lists := func() bool {
					caller, err := enter(t, d, header, somewhere)
					return err == nil && d.Spend(t.Context(), &caller, 1).RetryIn <= 0 &&
						d.SpendCostly(t.Context(), &caller, 180).RetryIn <= 0
				}
				first, second, third := lists(), lists(), lists()
				if !first || !second || third {
					t.Error("not just two lists pass at once")
				}
				within(11 * time.Second) // including the charge of the refused request
				if !lists() {
					t.Error("eleven seconds later none passes")
				}
			})
		})
	}
}
