package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	tierq "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// signing holds the keys with which an owner's messages are verified.
type signing struct{ Secret, PublicKey string }

// signingOf reads /api/me.
func (s *server) signingOf(key string) signing {
	s.t.Helper()
	var me struct{ Webhook *signing }
	a := s.asks(key, http.MethodGet, "/api/me", "")
	if err := json.Unmarshal(a.body, &me); err != nil || me.Webhook == nil {
		s.t.Fatalf("%v: %d %s", err, a.status, a.body)
	}
	return *me.Webhook
}

// signedBy returns the names of the secrets that signed a message, according to the standard's own library.
func signedBy(t *testing.T, c call, secrets map[string]string) (names []string) {
	t.Helper()
	for name, key := range secrets {
		v, err := webhooks.NewWebhook(key)
		if err != nil {
			t.Fatal(err)
		}
		if v.Verify(c.body, c.header) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Each key has its own secret: a receiver that knows one secret cannot forge messages of another key, and with the
// public key it can forge none. Receivers that share the server's one secret still work. They do not accept
// messages from jobs without an owner.
func TestWebhookSecretsOfKeys(t *testing.T) {
	t.Attr("proves", "A60")
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		if c.path == "/ada" && before == 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	dir := t.TempDir()
	old := filepath.Join(dir, "webhook-secret") // in the form of an earlier version
	if err := os.WriteFile(old, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"TIERQ_DATA_DIR=" + dir, "TIERQ_ANONYMOUS_RATE=1000", "TIERQ_ANONYMOUS_TYPES=SEND_WEBHOOK"}
	s := guarded(t, env...)
	keys, secrets := map[string]madeKey{}, map[string]string{"shared": secret}
	verifiers := map[string]*tierq.WebhookVerifier{}
	for _, name := range []string{"ada", "bob"} {
		a := s.asks(theAdmin, http.MethodPost, "/admin/keys", `{"name":"`+name+`","role":"submit"}`)
		var made struct {
			madeKey
			Webhook signing
		}
		if err := json.Unmarshal(a.body, &made); err != nil || made.Key == "" || made.Webhook.Secret == "" {
			t.Fatalf("%v: %s", err, a.body)
		}
		me := s.signingOf(made.Key)
		if me != made.Webhook {
			t.Errorf("%s is told %+v, and then %+v", name, made.Webhook, me)
		}
		keys[name], secrets[name] = made.madeKey, me.Secret
		v, err := tierq.NewWebhookVerifier(me.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		verifiers[name] = v
	}
	send := func(name, more string) string {
		body := fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}%s}`, r.URL+"/"+name, more)
		return accepted(t, s.asks(keys[name].Key, http.MethodPost, "/public/submit", body))
	}
	ids := map[string]string{"ada": send("ada", ""), "bob": send("bob", fmt.Sprintf(`,"callbackUrl":%q`,
		r.URL+"/bobs-callback")), "": send("", "")}
	wanted := map[string]int{"/ada": 2, "/bob": 1, "/bobs-callback": 1, "/": 1}
	testkit.Eventually(t, 20*time.Second, "all calls", func() (bool, string) {
		n := 0
		for path, want := range wanted {
			n += min(len(r.of(http.MethodPost, path)), want)
		}
		return n == 5, fmt.Sprint(n)
	})
	for path, want := range map[string]string{"/ada": "[ada shared]", "/bob": "[bob shared]",
		"/bobs-callback": "[bob shared]", "/": "[]"} {
		for i, c := range r.of(http.MethodPost, path) {
			if got := fmt.Sprint(signedBy(t, c, secrets)); got != want {
				t.Errorf("call %d of %s is signed by %s, want %s: %v", i, path, got, want, c.header)
			}
			for name, v := range verifiers {
				_, err := v.Verify(c.header, c.body)
				if (err == nil) != strings.Contains(want, name) {
					t.Errorf("%s with %s's public key: %v", path, name, err)
				}
			}
		}
	}
	for _, c := range r.of(http.MethodPost, "/ada") {
		if c.header.Get("Webhook-Id") != ids["ada"] {
			t.Errorf("a repeat has another id: %v", c.header)
		}
	}
	callback := r.of(http.MethodPost, "/bobs-callback")[0]
	event, err := verifiers["bob"].JobEnded(callback.header, callback.body)
	if err != nil || event.Data.Owner != keys["bob"].ID || event.Data.JobID != ids["bob"] ||
		event.Type != "job.completed" {
		t.Errorf("%+v, %v", event, err)
	}

	// After the old secret is removed, the keys' own secrets are unchanged.
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	r.forget()
	s = guarded(t, env...)
	send("bob", "")
	testkit.Eventually(t, 20*time.Second, "bob's call", func() (bool, string) {
		return len(r.heard()) == 1,
			fmt.Sprint(len(r.heard()))
	})
	if got := fmt.Sprint(signedBy(t, r.heard()[0], secrets)); got != "[bob]" {
		t.Errorf("without the shared secret it is signed by %s", got)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the server made another shared secret")
	}
}
