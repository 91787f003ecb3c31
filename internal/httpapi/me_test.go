package httpapi

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// Every caller can read how the server sees him.
func TestMe(t *testing.T) {
	const none = `"tiers":[],"types":[]}`
	const paid, unpaid = `{"tier":"PAID","maxRetries":5,"maxProcessingTimeMs":50000}`,
		`{"tier":"UNPAID","maxRetries":2,"maxProcessingTimeMs":20000}`
	const public = `{"tier":"PUBLIC","maxRetries":1,"maxProcessingTimeMs":10000}`
	const all = `"tiers":[` + paid + `,` + unpaid + `,` + public + `],"types":["PAIR","REPORT","SIMULATION"]}`
	callers := maps.Clone(callers)
	callers["two tiers, one type"] = job.Caller{Key: job.Key{ID: mine, Role: job.RoleSubmit,
		Tiers: []job.Tier{job.Unpaid, job.Paid, "GONE"}, Types: []string{"PAIR", "GONE"}}}
	callers["bound worker"] = job.Caller{Key: job.Key{ID: mine, Role: job.RoleWorker, Tiers: []job.Tier{job.Paid},
		Queues: []string{"pictures"}, Leases: 9}}
	callers["submitting worker"] = job.Caller{Key: job.Key{ID: mine, Role: job.RoleWorker, Tiers: []job.Tier{job.Paid},
		Queues: []string{"pictures*"}, Submits: true}}
	for kind, want := range map[string]string{
		"bound worker": `{"open":false,"name":"ada","role":"worker","admin":false,"operator":false,"submits":false,` +
			`"secure":false,"tiers":[],"types":[],"queues":["pictures"],"leases":9}`,
		"submitting worker": `{"open":false,"name":"ada","role":"worker","admin":false,"operator":false,"submits":true,` +
			`"secure":false,"tiers":[` + paid + `],"types":["PAIR","REPORT","SIMULATION"],"queues":["pictures*"]}`,
		"two tiers, one type": `{"open":false,"name":"ada","role":"submit","admin":false,"operator":false,"submits":true,` +
			`"secure":false,"tiers":[` + paid + `,` + unpaid + `],"types":["PAIR"]}`,
		"stranger": `{"open":false,"name":null,"role":null,"admin":false,"operator":false,"submits":false,` +
			`"secure":false,` + none,
		"anonymous": `{"open":false,"name":null,"role":null,"admin":false,"operator":false,"submits":true,` +
			`"secure":false,` + `"tiers":[` + public + `],"types":["PAIR","SIMULATION"]}`,
		"submit": `{"open":false,"name":"ada","role":"submit","admin":false,"operator":false,"submits":true,` +
			`"secure":false,` + all,
		"read-only": `{"open":false,"name":"ada","role":"read-only","admin":false,"operator":true,"submits":false,` +
			`"secure":false,` + none,
		"admin": `{"open":false,"name":"ada","role":"admin","admin":true,"operator":true,"submits":true,` +
			`"secure":false,` + all,
		"worker": `{"open":false,"name":"ada","role":"worker","admin":false,"operator":false,"submits":false,` +
			`"secure":false,` + none,
		"open": `{"open":true,"name":null,"role":null,"admin":true,"operator":true,"submits":true,"secure":false,` + all,
	} {
		r := newRooms(t)
		handler.Register(r.types, "REPORT", func(context.Context, any) (any, error) { return nil, nil })
		handler.Register(r.types, "CALLBACK", func(context.Context, any) (any, error) { return nil, nil }, handler.Internal())
		caller := callers[kind]
		if caller.Key.ID != "" {
			caller.Key.Name = "ada"
		}
		d := r.behind(caller)
		d.left = job.Allowance{Limited: true, Rate: 1, Burst: 1, RetryIn: 1}
		wantJSON(t, r.do("GET", "/api/me", ""), 200, want)
		if d.spent != 0 {
			t.Errorf("%s: it was counted", kind)
		}
	}
	r := newRooms(t)
	handler.Register(r.types, "REPORT", func(context.Context, any) (any, error) { return nil, nil })
	wantJSON(t, r.do("GET", "/api/me", ""), 200,
		`{"open":true,"name":null,"role":null,"admin":true,"operator":true,"submits":true,"secure":false,`+all)
	r.behind(callers["stranger"]).err = job.ErrUnauthorized
	wantProblem(t, r.do("GET", "/api/me", "", "Authorization", "Bearer x"), 401, "UNAUTHORIZED")
	wantProblem(t, r.do("GET", "/api/me?key=x", ""), 400, "INVALID_REQUEST", "key")
}

// A caller who submits with a key is shown the keys that his receivers verify with, and so is every caller of an
// open server. Strangers are not.
func TestMe_Webhook(t *testing.T) {
	t.Attr("proves", "A60")
	for kind, owner := range map[string]string{
		"stranger": "none", "anonymous": "none", "submit": mine, "read-only": "none", "admin": mine, "worker": "none",
		"open": "",
	} {
		r := newRooms(t)
		r.deps.WebhookKeys = webhookKeysOf
		r.behind(callers[kind])
		secret, public := webhookKeysOf(owner)
		got, want := r.do("GET", "/api/me", "").Body.String(),
			`"webhook":{"secret":"`+secret+`","publicKey":"`+public+`"}`
		if strings.Contains(got, want) != (owner != "none") || strings.Contains(got, `"webhook"`) != (owner != "none") {
			t.Errorf("%s: %s", kind, got)
		}
	}
	r := newRooms(t)
	r.deps.WebhookKeys = func(string) (string, string) { return "", "" }
	r.behind(callers["submit"])
	if got := r.do("GET", "/api/me", "").Body.String(); strings.Contains(got, "webhook") {
		t.Errorf("without a master: %s", got)
	}
}

// webhookKeysOf returns values in the form of a key's secret and public key.
func webhookKeysOf(owner string) (secret, public string) {
	text := owner + strings.Repeat("A", 43-len(owner)) + "="
	return "whsec_" + text, "whpk_" + text
}

// A request came over TLS if this server saw TLS, or if a trusted proxy says so.
func TestMe_Secure(t *testing.T) {
	t.Attr("proves", "A42")
	for name, c := range map[string]struct {
		peer   string
		tls    bool
		proto  []string
		secure bool
	}{
		"plain":                      {"203.0.113.9:1", false, nil, false},
		"TLS":                        {"203.0.113.9:1", true, nil, true},
		"anybody says so":            {"203.0.113.9:1", false, []string{"https"}, false},
		"a trusted proxy says so":    {"10.0.0.1:1", false, []string{"HTTPS"}, true},
		"a trusted proxy says no":    {"10.0.0.1:1", false, []string{"http"}, false},
		"it says nothing":            {"10.0.0.1:1", false, nil, false},
		"the first of two":           {"10.0.0.1:1", false, []string{"https, http"}, true},
		"behind a proxy without TLS": {"10.0.0.1:1", false, []string{"http, https"}, false},
		"nonsense":                   {"10.0.0.1:1", false, []string{"httpsx"}, false},
		"a socket":                   {"@", false, []string{"https"}, false},
	} {
		r := newRooms(t)
		r.deps.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		r.Handler = NewHandler(r.deps)
		req := httptest.NewRequest("GET", "/api/me", nil)
		req.RemoteAddr = c.peer
		if c.tls {
			req.TLS = &tls.ConnectionState{}
		}
		for _, value := range c.proto {
			req.Header.Add("X-Forwarded-Proto", value)
		}
		if got := strings.Contains(r.hold(req, "").Body.String(), `"secure":true`); got != c.secure {
			t.Errorf("%s: %v", name, got)
		}
	}
}
