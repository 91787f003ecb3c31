package httpapi

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// gatewayOf is the answer that shows a key's password.
func gatewayOf(id, host string) string {
	return `{"keyId":"` + id + `","password":"` + gatewayPassword + `","faktoryUrl":"tcp://` + id + `:` +
		gatewayPassword + `@` + host + `"}`
}

// An admin is shown the password of any key, and each key its own. The log of changes names the key and who was shown
// its password, and has no password.
func TestGateway(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["admin"])
	rec := r.do("POST", "/admin/keys/"+knownKey+"/gateway", "")
	wantJSON(t, rec, 200, gatewayOf(knownKey, "example.com:7419"))
	wantHeader(t, rec, "Cache-Control", "no-store")
	wantJSON(t, r.json("POST", "/api/me/gateway", "{}", "Authorization", "Bearer x"), 200,
		gatewayOf(mine, "example.com:7419"))
	if got := fmt.Sprint(r.gateways.asked); got != "["+knownKey+" Bearer x]" {
		t.Errorf("asked %s", got)
	}
	r.gateways.err = job.ErrNoKey
	wantProblem(t, r.do("POST", "/admin/keys/"+knownKey+"/gateway", ""), 404, "NOT_FOUND")
	var log []string
	for _, c := range r.told.changes {
		log = append(log, strings.Join([]string{c.Action, c.Target, c.Actor, c.Outcome}, " "))
		if c.Before != nil || c.After != nil {
			t.Errorf("the log of changes has %s %s", c.Before, c.After)
		}
	}
	want := "key.gateway " + knownKey + " " + mine + " done|key.gateway " + mine + " " + mine + " done|key.gateway " +
		knownKey + " " + mine + " refused"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("the log of changes has %s, want %s", got, want)
	}
	if strings.Contains(r.log.String(), gatewayPassword) {
		t.Errorf("the password is in the log: %s", r.log.String())
	}
}

// A text that is no id, a body with members and a query are refused before anything is derived.
func TestGateway_BadInput(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["admin"])
	for _, id := range []string{"x", strings.ToUpper(knownKey), knownKey + "a", "%27%20OR%201=1"} {
		wantProblem(t, r.do("POST", "/admin/keys/"+id+"/gateway", ""), 404, "NOT_FOUND")
	}
	for _, path := range []string{"/admin/keys/" + knownKey + "/gateway", "/api/me/gateway"} {
		wantProblem(t, r.json("POST", path, `{"host":"x"}`), 400, "INVALID_REQUEST", "host")
		wantProblem(t, r.json("POST", path, `[]`), 400, "INVALID_REQUEST")
		wantProblem(t, r.json("POST", path+"?a=1", ""), 400, "INVALID_REQUEST", "a")
	}
	if len(r.gateways.asked)+len(r.told.changes) > 0 {
		t.Errorf("asked %q", r.gateways.asked)
	}
}

// A browser's session is shown no password: the session ends, and the password would go on.
func TestGateway_NotForSessions(t *testing.T) {
	r := newRooms(t)
	r.behind(callers["submit"])
	cookie := cookieName(false) + "=" + mine + ".abc"
	wantProblem(t, r.do("POST", "/api/me/gateway", "", "Cookie", cookie), 403, "FORBIDDEN")
	if len(r.gateways.asked) > 0 {
		t.Errorf("asked %q", r.gateways.asked)
	}
}

// Without a secret for gateways the answer names the setting. On an open server it is an address without a password.
func TestGateway_None(t *testing.T) {
	r := newRooms(t)
	wantJSON(t, r.do("POST", "/api/me/gateway", ""), 200, `{"faktoryUrl":"tcp://example.com:7419"}`)
	for _, unset := range []bool{false, true} {
		r.gateways.err = job.ErrNoGateway
		if unset {
			r.deps.Gateways = nil
		}
		r.behind(callers["admin"])
		for _, path := range []string{"/admin/keys/" + knownKey + "/gateway", "/api/me/gateway"} {
			body := wantProblem(t, r.do("POST", path, "", "Authorization", "Bearer x"), 409, "INVALID_STATE_TRANSITION")
			if detail, _ := body["detail"].(string); !strings.Contains(detail, "TIERQ_GATEWAY_SECRET is not set") {
				t.Errorf("%s: %q", path, detail)
			}
		}
	}
}

// The address is that of the setting, or the host by which the caller reached this server.
func TestGateway_Address(t *testing.T) {
	for _, c := range []struct{ setting, host, want string }{
		{"", "jobs.example.com", "jobs.example.com:7419"},
		{"", "jobs.example.com:8080", "jobs.example.com:7419"},
		{"", "[2001:db8::1]:8080", "[2001:db8::1]:7419"},
		{"", "[2001:db8::1]", "[2001:db8::1]:7419"},
		{":7420", "jobs.example.com:8080", "jobs.example.com:7420"},
		{"0.0.0.0:7420", "jobs.example.com", "jobs.example.com:7420"},
		{"[::]:7420", "jobs.example.com", "jobs.example.com:7420"},
		{"10.0.0.7:7420", "jobs.example.com", "10.0.0.7:7420"},
		{"faktory.example.com:7419", "127.0.0.1:8080", "faktory.example.com:7419"},
	} {
		r := newRooms(t)
		if c.setting != "" {
			r.deps.FaktoryURL = func() string { return "tcp://" + c.setting }
		}
		r.behind(callers["worker"])
		req := httptest.NewRequest("POST", "/api/me/gateway", nil)
		req.Host = c.host
		req.Header.Set("Authorization", "Bearer x")
		wantJSON(t, r.hold(req, ""), 200, gatewayOf(mine, c.want))
	}
}
