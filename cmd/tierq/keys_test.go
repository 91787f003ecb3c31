package main

import (
	"regexp"
	"strings"
	"testing"
)

var keyPattern = regexp.MustCompile(`^tq_[a-z2-7]{16}_[A-Za-z0-9_-]{43}$`)

// keys create sends the flags in the form that the server expects.
func TestKeysCreate(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{}, split("keys create --name 'web site' --role submit --tier public --tier unpaid --type "+
		"SEND_EMAIL --type REPORT --rate 2.5 --burst 7 "+
		"--in-flight 100 --expires 90d -o name")...)
	want := `{"name":"web site","role":"submit","tiers":["PUBLIC","UNPAID"],"types":["SEND_EMAIL","REPORT"],"rate":2.5,` +
		`"burst":7,"inFlight":100,` +
		`"expiresAt":"2026-07-30T12:00:00Z"}`
	if got := f.last(); end.code != 0 || got.path != "/admin/keys" || got.body != want ||
		!keyPattern.MatchString(strings.TrimSpace(end.stdout)) {
		t.Errorf("%v\n%s", end, got.body)
	}
	end = f.cli(t, world{}, split("keys create --name thumbs --role worker --queue pictures --queue a:b --tier paid")...)
	want = `{"name":"thumbs","role":"worker","tiers":["PAID"],"queues":["pictures","a:b"]}`
	if got := f.last(); end.code != 0 || got.body != want || !strings.Contains(end.stdout, "QUEUES") {
		t.Errorf("%v\n%s", end, got.body)
	}
	end = f.cli(t, world{}, split("keys create --name both --role worker --queue 'pictures*' --submits --leases 32")...)
	want = `{"name":"both","role":"worker","queues":["pictures*"],"submits":true,"leases":32}`
	if got := f.last(); end.code != 0 || got.body != want {
		t.Errorf("%v\n%s", end, got.body)
	}
	for _, args := range []string{
		"keys create", "keys create --name x", "keys create --name x --role worker --leases many", "keys create --role admin", "keys create --name x --role admin --expires soon",
		"keys create --name x --role admin --expires -1h",
		"keys create --name x --role admin --tier a/b", "keys rotate", "keys rotate " + keyID + " --grace 1y", "keys revoke",
		"keys nope",
	} {
		if end := f.cli(t, world{}, split(args)...); end.code != exitUsage || end.stdout != "" {
			t.Errorf("%s: %v", args, end)
		}
	}
	if n := len(f.requests("POST", "/")); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// Several keys are revoked one after the other. After an error the revoked ones are printed.
func TestKeysRevoke(t *testing.T) {
	f := newFake(t)
	end := f.cli(t, world{}, "keys", "revoke", keyID, "unknown", keyID)
	if end.code != exitNotFound || strings.Count(end.stdout, "revoked") != 1 ||
		len(f.requests("DELETE", "/admin/keys/")) != 2 {
		t.Errorf("%v", end)
	}
}

// keys create --store works without a server, and twice in a row. Its errors name the field, or the setting.
func TestKeysCreateInStore(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	w := world{environ: []string{"TIERQ_DATA_DIR=" + t.TempDir()}}
	seen := map[string]bool{}
	for range 2 {
		end := f.cli(t, w, split("keys create --name root --role admin --expires 1h --store -o name")...)
		key := strings.TrimSpace(end.stdout)
		if end.code != 0 || !keyPattern.MatchString(key) || seen[key] {
			t.Fatalf("%v", end)
		}
		seen[key] = true
	}
	end := f.cli(t, w, split("keys create --name root --role admin --store")...)
	if end.code != 0 || !strings.Contains(end.stdout, "KEY     tq_") || !strings.Contains(end.stderr, "not shown again") {
		t.Errorf("%v", end)
	}
	end = f.cli(t, w,
		split("keys create --name w --role worker --queue pictures --queue 'a:b*' --submits --leases 32 --store")...)
	if end.code != 0 || !strings.Contains(end.stdout, "QUEUES  pictures a:b*") ||
		!strings.Contains(end.stdout, "ROLE    worker+submit") || !strings.Contains(end.stdout, "LIMITS  32 leases") {
		t.Errorf("%v", end)
	}
	if end := f.cli(t, w, split("keys create --name ci --role submit --queue pictures --store")...); end.code != 1 ||
		!strings.Contains(end.stderr, "queues") || end.stdout != "" {
		t.Errorf("%v", end)
	}
	if end := f.cli(t, w, split("keys create --name root --role king --store")...); end.code != 1 ||
		!strings.Contains(end.stderr, "role") || end.stdout != "" {
		t.Errorf("%v", end)
	}
	if end := f.cli(t, world{environ: []string{"REDIS_URL=nonsense"}},
		split("keys create --name root --role admin --store")...); end.code != exitUsage ||
		!strings.Contains(end.stderr, "REDIS_URL") {
		t.Errorf("%v", end)
	}
	if n := len(f.requests("POST", "/")); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestKeysGenerate(t *testing.T) {
	t.Attr("proves", "A49")
	f := newFake(t)
	one, other := f.cli(t, world{}, "keys", "generate"), f.cli(t, world{}, "keys", "generate")
	for _, end := range []ended{one, other} {
		if end.code != 0 || end.stderr != "" || !keyPattern.MatchString(strings.TrimSpace(end.stdout)) {
			t.Errorf("%v", end)
		}
	}
	if one.stdout == other.stdout {
		t.Error("the same key twice")
	}
}

func TestReadSpan(t *testing.T) {
	for text, want := range map[string]string{"": "0s", "90d": "2160h0m0s", "0d": "0s", "12h": "12h0m0s",
		"1h30m": "1h30m0s"} {
		if d, err := readSpan("x", text); err != nil || d.String() != want {
			t.Errorf("%q: %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"d", "-1d", "1.5d", "99999999d", "-1s", "1y", "1", "soon"} {
		if d, err := readSpan("x", text); err == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
}
