package contract

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// made returns the id and the text of a key from the answer that made it.
func (s *server) made(a answer) (id, key string) {
	s.t.Helper()
	var body struct{ ID, Key string }
	if err := json.Unmarshal(a.body, &body); err != nil || body.Key == "" {
		s.t.Fatalf("%d %s", a.status, a.body)
	}
	return body.ID, body.Key
}

// session returns the cookie of a browser that logs in with a key. The description does not have that page.
func (s *server) session(key string) string {
	s.t.Helper()
	form := strings.NewReader(url.Values{"key": {key}}.Encode())
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.base+"/login", form)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req) // without following the redirect
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	given := res.Cookies()
	if len(given) != 1 {
		s.t.Fatalf("the login: %s, %v", res.Status, res.Header)
	}
	return given[0].Name + "=" + given[0].Value
}

// callers makes the server's first key, and then calls it with and without permission. Afterwards all calls have an
// admin's key.
func (s *server) callers(job string) {
	s.t.Helper()
	s.want(403, "POST", "/paid/submit", "", "Origin", "https://elsewhere.example")
	s.want(403, "POST", "/paid/submit", "", "Sec-Fetch-Site", "cross-site")
	s.want(401, "GET", "/admin/jobs", "", "Authorization", "Bearer tq_of_nobody")
	s.want(200, "POST", "/api/me/gateway", "")
	s.want(409, "POST", "/admin/keys", `{"name":"too early","role":"submit"}`)
	_, admin := s.made(s.want(201, "POST", "/admin/keys", `{"name":"an admin","role":"admin"}`))
	for _, path := range []string{"/admin/keys", "/result/poll?jobId=" + job, "/api/events", "/metrics"} {
		s.want(401, "GET", path, "")
	}
	for _, path := range []string{"/livez", "/readyz?verbose", "/actuator/health", "/docs", "/openapi.yaml", "/api/me"} {
		s.want(200, "GET", path, "")
	}
	session := []string{"Cookie", s.session(admin)}
	s.want(200, "GET", "/admin/keys", "", session...)
	s.want(401, "GET", "/admin/keys", "", append(session, "Sec-Fetch-Site", "cross-site")...)
	s.want(403, "POST", "/paid/submit", "", append(session, "Sec-Fetch-Site", "cross-site")...)
	s.want(403, "POST", "/api/me/gateway", "", session...)
	name, _, _ := strings.Cut(session[1], "=")
	s.want(401, "GET", "/api/me", "", "Cookie", name+"=of_nobody")
	s.want(401, "GET", "/admin/keys", "", "Cookie", "tierq_key="+admin) // the cookie of earlier versions
	s.key = admin
	s.want(400, "POST", "/admin/keys", `{"name":"x","role":"king"}`)
	id, public := s.made(s.want(201, "POST", "/admin/keys",
		`{"name":"a site","role":"submit","tiers":["PUBLIC"],"rate":0.01,"burst":8}`))
	s.want(200, "GET", "/admin/keys", "")

	s.key = public
	s.want(403, "POST", "/paid/submit", "")
	s.want(403, "GET", "/admin/keys", "")
	s.want(404, "GET", "/jobs/"+job, "")
	mine := s.id(s.want(202, "POST", "/public/submit", ""))
	s.want(200, "GET", "/jobs/"+mine, "")
	s.want(413, "POST", "/public/submit/batch", "["+zeros(9)+"]")
	s.want(429, "POST", "/public/submit/batch", "["+zeros(8)+"]")

	s.key = admin
	_, rotated := s.made(s.want(200, "POST", "/admin/keys/"+id+"/rotate", `{"graceSeconds":0}`))
	s.key = rotated
	for a := s.do("GET", "/api/jobs", ""); a.status != 429; a = s.do("GET", "/api/jobs", "") {
		if a.status != 200 || a.header.Get("RateLimit") == "" {
			s.t.Fatalf("%d %s %v", a.status, a.body, a.header)
		}
	}
	s.key = admin
	s.gateways()
	s.want(204, "DELETE", "/admin/keys/"+id, "")
	s.want(200, "GET", "/admin/audit?limit=2", "")
}

// gateways reads the gateway password of a key, as an admin and as the key, before and after a rotation.
func (s *server) gateways() {
	s.t.Helper()
	admin := s.key
	shown := func(key, path string) (password string) {
		s.t.Helper()
		s.key = key
		var body struct{ Password string }
		a := s.want(200, "POST", path, "")
		if err := json.Unmarshal(a.body, &body); err != nil || body.Password == "" {
			s.t.Fatalf("%d %s", a.status, a.body)
		}
		s.key = admin
		return body.Password
	}
	id, first := s.made(s.want(201, "POST", "/admin/keys", `{"name":"thumbs","role":"worker"}`))
	ofAdmin := "/admin/keys/" + id + "/gateway"
	was := shown(admin, ofAdmin)
	if own := shown(first, "/api/me/gateway"); own != was {
		s.t.Errorf("an admin is shown %q, the key itself %q", was, own)
	}
	_, second := s.made(s.want(200, "POST", "/admin/keys/"+id+"/rotate", `{"graceSeconds":60}`))
	now := shown(second, "/api/me/gateway")
	if again, old := shown(admin, ofAdmin), shown(first, "/api/me/gateway"); now == was || again != now || old != was {
		s.t.Errorf("before the rotation %q; after it the new secret is shown %q, an admin %q, the old secret %q", was, now,
			again, old)
	}
	s.key = first
	s.want(403, "POST", ofAdmin, "")
	s.key = admin
	s.want(204, "DELETE", "/admin/keys/"+id, "")
	s.want(404, "POST", ofAdmin, "")
}

// zeros returns n empty entries of a batch.
func zeros(n int) string {
	text := "{}"
	for range n - 1 {
		text += ",{}"
	}
	return text
}

// Roles returns the roles of an operation. If the operation names none, they are those of the whole description.
func TestRoles(t *testing.T) {
	c := load(t)
	for _, o := range c.Operations() {
		switch roles := c.Roles(o); {
		case o.Path == "/livez" && len(roles) > 0, o.Path == "/api/stats" && len(roles) != 2, o.Path == "/jobs" &&
			roles[0] != "submit":
			t.Errorf("%s %s: %q", o.Method, o.Path, roles)
		}
	}
}
