package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// reachesOut returns the submits that make the server write to addresses that the caller chooses.
func reachesOut(to string) map[string]string {
	return map[string]string{
		"SEND_EMAIL":   `{"type":"SEND_EMAIL","payload":{"to":"ada@example.org","subject":"hi"}}`,
		"EMAIL":        `{"type":"EMAIL","payload":{"to":"ada@example.org","subject":"hi"}}`,
		"SEND_WEBHOOK": fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, to),
		"FORWARD_DOCUMENT": fmt.Sprintf(
			`{"type":"FORWARD_DOCUMENT","payload":{"documentId":"1","contentType":"text/plain","body":"","endpoints":[%q]}}`,
			to,
		),
		"callbackUrl": fmt.Sprintf(`{"callbackUrl":%q}`, to),
	}
}

// guarded starts an embedded server with an admin's key that callers without a key may use too.
func guarded(t *testing.T, env ...string) *server {
	t.Helper()
	return startServer(t, testkit.BuildTierq(t), append([]string{
		"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(), "TIERQ_ADMIN_KEY=" + theAdmin,
		"TIERQ_EGRESS_ALLOW=127.0.0.0/8",
	}, env...)...)
}

// The job of a caller without a key sends nothing to other machines, unless the operator allows its type. By
// default the server neither relays such callers' mail nor signs their messages.
func TestStrangers_ReachNobody(t *testing.T) {
	t.Attr("proves", "A26")
	t.Parallel()
	r := newReceiver(t, nil)
	s := guarded(t, "TIERQ_ANONYMOUS_RATE=1000")
	for what, body := range reachesOut(r.URL) {
		wants(t, s.ask("public", body), http.StatusForbidden, "FORBIDDEN")
		if a := s.asks("", http.MethodPost, "/public/submit/batch", "["+body+"]"); a.status == http.StatusAccepted &&
			!strings.Contains(string(a.body), `"FORBIDDEN"`) {
			t.Errorf("%s in a batch: %d %s", what, a.status, a.body)
		}
	}
	id := accepted(t, s.ask("public", `{"payload":null}`))
	s.await(id, "COMPLETED", 20*time.Second)
	if n := len(r.heard()); n > 0 {
		t.Errorf("%d calls", n)
	}
	if a := s.asks(theAdmin, http.MethodGet, "/admin/jobs", ""); strings.Count(string(a.body), `"jobId"`) != 1 {
		t.Errorf("jobs: %s", a.body)
	}
}

// Callers without a key may submit the types that the operator allows. A callback counts as a type of its own.
func TestStrangers_NamedTypes(t *testing.T) {
	t.Attr("proves", "A26")
	t.Parallel()
	r := newReceiver(t, nil)
	s := guarded(t, "TIERQ_ANONYMOUS_RATE=1000", "TIERQ_ANONYMOUS_TYPES=SIMULATION, CALLBACK")
	for what, body := range reachesOut(r.URL) {
		if what != "callbackUrl" {
			wants(t, s.ask("public", body), http.StatusForbidden, "FORBIDDEN")
		}
	}
	id := accepted(t, s.ask("public", fmt.Sprintf(`{"callbackUrl":%q}`, r.URL)))
	testkit.Eventually(t, 20*time.Second, "the callback arrives", func() (bool, string) {
		calls := r.heard()
		return len(calls) == 1 && calls[0].header.Get("Webhook-Id") == id+"_1", fmt.Sprint(len(calls))
	})
}

// All callers without a key share one rate, in addition to the rate of each address. A key's rate is separate.
func TestStrangers_RateOfAll(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	s := guarded(t, "TIERQ_ANONYMOUS_RATE=5", "TIERQ_ANONYMOUS_TOTAL=1", "TIERQ_TRUSTED_PROXIES=127.0.0.1/32")
	from := func(i int) []string { return []string{"X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", i/250, i%250+1)} }
	tries := 0
	for polls(t, 1, func(int) []string { return from(tries) }, s) == 1 {
		if tries++; tries > 1000 {
			t.Fatal("1000 requests of as many addresses passed at one a second over all of them")
		}
	}
	key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", submitKey)
	keyed := func(i int) []string { return append(from(i), "Authorization", "Bearer "+key.Key) }
	if n := polls(t, 20, keyed, s); n != 20 {
		t.Errorf("of a key's 20 requests %d passed", n)
	}
}
