package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// keyForm matches every key that tierq uses in Redis. A hash tag of tierq comes first, so that no caller's text
// chooses a key's slot.
var keyForm = regexp.MustCompile(`^\{tierq(:\d+)?\}:`)

// passing matches the keys that come with time and load: the statistics of each period, a gate's probe, and the
// register of live processes, which a process enters some time after it answers.
var passing = regexp.MustCompile(`^\{tierq\}:(probe|workers|stats:\w+:\d+)$`)

// keys returns the keys in Redis without those that passing matches.
func (c *cluster) keys() []string {
	c.t.Helper()
	keys, err := c.rdb.Keys(context.WithoutCancel(c.t.Context()), "*").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.DeleteFunc(keys, passing.MatchString)
}

// A tier in another spelling makes neither a key in Redis nor a tier. An Idempotency-Key that looks like a pattern
// of keys matches no other key.
func TestNamesOfKeys(t *testing.T) {
	t.Attr("proves", "A10 A58")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api")
	// The first submit makes the keys that every submit uses.
	wants(t, do(t, http.MethodPost, s.base+"/paid/submit", `{"delaySeconds":600}`), http.StatusAccepted, "")
	tiers := func() string {
		var body map[string]any
		if err := json.Unmarshal(do(t, http.MethodGet, s.base+"/admin/tiers", "").body, &body); err != nil {
			t.Fatal(err)
		}
		delete(body, "timestamp")
		text, _ := json.Marshal(body)
		return string(text)
	}
	before, named := c.keys(), tiers()
	if len(before) == 0 || !strings.Contains(named, "PAID") {
		t.Fatalf("%q %s", before, named)
	}
	for _, path := range []string{
		"/PAID/submit", "/paid%20/submit", "/%20paid/submit", "/paid%00/submit", "/pa%C4%B0d/submit", "/p%61id/submit",
		"/PUBLIC:x/submit", "/{tierq:0}/submit", "/..%2fpaid/submit",
		"/paid%2fsubmit", "/gold/submit", "/*/submit", "/" + strings.Repeat("a", 5000) + "/submit", "/gold/submit/batch",
	} {
		if a := do(t, http.MethodPost, s.base+path, ""); a.status != http.StatusNotFound {
			t.Errorf("%.30s: %d %s", path, a.status, a.body)
		}
	}
	for _, tier := range []string{"PAID ", `paid\u0000`, "PAİD", "../paid", "PUBLIC:x", "Gold", "", "{tierq:0}"} {
		if a := do(t, http.MethodPost, s.base+"/jobs",
			`{"type":"SIMULATION","tier":"`+tier+`"}`); a.status != http.StatusNotFound && a.status != http.StatusBadRequest {
			t.Errorf("the tier %q: %d %s", tier, a.status, a.body)
		}
	}
	if after := c.keys(); !slices.Equal(before, after) {
		t.Errorf("Redis had the keys %q and has %q", before, after)
	}
	if now := tiers(); now != named {
		t.Errorf("the tiers were %s and are %s", named, now)
	}

	const text = "{tierq:0}:outbox*"
	wants(t, do(t, http.MethodPost, s.base+"/paid/submit", `{"delaySeconds":600}`, "Idempotency-Key", text),
		http.StatusAccepted, "")
	batch := do(t, http.MethodPost, s.base+"/paid/submit/batch",
		`[{"delaySeconds":600,"idempotencyKey":"`+text+`b"},{"delaySeconds":600,"idempotencyKey":"{tierq:0}"}]`)
	if batch.status != http.StatusAccepted || strings.Count(string(batch.body), "SCHEDULED") != 2 {
		t.Fatalf("%d %s", batch.status, batch.body)
	}
	after := c.keys()
	if len(after) <= len(before) {
		t.Errorf("three more submits made no key: %q", after)
	}
	for _, key := range after {
		if !keyForm.MatchString(key) || strings.Contains(key, "outbox*") || strings.Count(key, "{") != 1 {
			t.Errorf("Redis has the key %q", key)
		}
	}
}
