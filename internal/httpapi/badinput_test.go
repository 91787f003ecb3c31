package httpapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func withContext(ctx context.Context, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r.WithContext(ctx)) })
}

// Each bad body gets its code and the names of the wrong fields, and no call to admission is made.
func TestErrors(t *testing.T) {
	t.Attr("proves", "S2-E7")
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
		fields []string
	}{
		"not JSON":             {`hello`, 400, "INVALID_REQUEST", nil},
		"cut off":              {`{"type":"PAIR"`, 400, "INVALID_REQUEST", nil},
		"cut off in a string":  {`{"type":"PA`, 400, "INVALID_REQUEST", nil},
		"an array":             {`[]`, 400, "INVALID_REQUEST", nil},
		"null":                 {`null`, 400, "INVALID_REQUEST", nil},
		"a comma too many":     {`{"type":"PAIR",}`, 400, "INVALID_REQUEST", nil},
		"single quotes":        {`{'type':'PAIR'}`, 400, "INVALID_REQUEST", nil},
		"a byte order mark":    {"\ufeff{}", 400, "INVALID_REQUEST", nil},
		"unknown field":        {`{"nope":1}`, 400, "INVALID_REQUEST", []string{"nope"}},
		"a field's other case": {`{"Type":"PAIR"}`, 400, "INVALID_REQUEST", []string{"Type"}},
		"delay and time": {`{"delaySeconds":30,"runAt":"2026-12-01T08:00:00Z"}`, 400, "INVALID_REQUEST",
			[]string{"delaySeconds", "runAt"}},
		"a key in the body":    {`{"idempotencyKey":"k"}`, 400, "INVALID_REQUEST", []string{"idempotencyKey"}},
		"runAt without offset": {`{"runAt":"2026-12-01T08:00:00"}`, 400, "INVALID_REQUEST", []string{"runAt"}},
		"runAt, a number":      {`{"runAt":1780000000}`, 400, "INVALID_REQUEST", []string{"runAt"}},
		"A22 runAt in a year":  {`{"runAt":"2027-05-02T11:31:58Z"}`, 400, "INVALID_REQUEST", []string{"runAt"}},
		"A22 runAt in 9999":    {`{"runAt":"9999-12-31T23:59:59Z"}`, 400, "INVALID_REQUEST", []string{"runAt"}},
		"A61 delay -1":         {`{"delaySeconds":-1}`, 400, "INVALID_REQUEST", []string{"delaySeconds"}},
		"A61 delay 1e18":       {`{"delaySeconds":1e18}`, 400, "INVALID_REQUEST", []string{"delaySeconds"}},
		"A61 delay 1e999":      {`{"delaySeconds":1e999}`, 400, "INVALID_REQUEST", []string{"delaySeconds"}},
		"A61 delay, a text":    {`{"delaySeconds":"30"}`, 400, "INVALID_REQUEST", []string{"delaySeconds"}},
		"callbackUrl refused": {`{"callbackUrl":"http://127.0.0.1/"}`, 400, "INVALID_REQUEST",
			[]string{"callbackUrl"}},
		"callbackUrl with a break": {`{"callbackUrl":"https://x\r\ny"}`, 400, "INVALID_REQUEST", []string{"callbackUrl"}},
		"callbackUrl too long": {`{"callbackUrl":"https://` + strings.Repeat("x", 2048) + `"}`, 400, "INVALID_REQUEST",
			[]string{"callbackUrl"}},
		"A09 what the server sets": {`{"tier":"PAID","priority":1,"status":"COMPLETED","attempts":0,"jobId":"x",` +
			`"owner":"me"}`, 400, "INVALID_REQUEST", []string{"tier", "priority", "status", "attempts", "jobId", "owner"}},
		"A13 depth": {`{"payload":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, 400,
			"INVALID_REQUEST", nil},
		"A13 great depth": {strings.Repeat(`{"payload":`, 1200) + "1" + strings.Repeat("}", 1200), 400,
			"INVALID_REQUEST", nil},
		"A13 keys":               {`{"payload":{` + numbered(1001) + `}}`, 400, "INVALID_REQUEST", nil},
		"A13 duplicate":          {`{"type":"PAIR","type":"PAIR"}`, 400, "INVALID_REQUEST", []string{"type"}},
		"A13 duplicate, escaped": {`{"type":"PAIR","t\u0079pe":"PAIR"}`, 400, "INVALID_REQUEST", []string{"type"}},
		"A13 duplicate inside":   {`{"payload":{"a":{"b":1,"b":2}}}`, 400, "INVALID_REQUEST", []string{"payload.a.b"}},
		"A13 invalid UTF-8":      {"{\"payload\":\"\xff\"}", 400, "INVALID_REQUEST", nil},
		"A13 lone surrogate":     {`{"payload":"\ud800"}`, 400, "INVALID_REQUEST", nil},
		"A13 NUL":                {"{\"payload\":\"\x00\"}", 400, "INVALID_REQUEST", nil},
		"A13 trailing garbage":   {`{} {}`, 400, "INVALID_REQUEST", nil},
		"A13 trailing bracket":   {`{}]`, 400, "INVALID_REQUEST", nil},
		"A13 big exponent": {`{"type":"PAIR","payload":{"A":1e999999}}`, 422, "INVALID_PAYLOAD",
			[]string{"payload.A"}},
		"A13 NaN":               {`{"payload":NaN}`, 400, "INVALID_REQUEST", nil},
		"A61 more retries":      {`{"maxRetries":6}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 a billion":         {`{"maxRetries":1000000000}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 1e9":               {`{"maxRetries":1e9}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 beyond 64 bits":    {`{"maxRetries":99999999999999999999}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 negative":          {`{"maxRetries":-1}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 a fraction":        {`{"maxRetries":1.5}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"A61 a string":          {`{"maxRetries":"3"}`, 400, "INVALID_REQUEST", []string{"maxRetries"}},
		"type is a number":      {`{"type":7}`, 400, "INVALID_REQUEST", []string{"type"}},
		"type in small letters": {`{"type":"simulation"}`, 400, "INVALID_REQUEST", []string{"type"}},
		"type too long": {`{"type":"` + strings.Repeat("A", 65) + `"}`, 400, "INVALID_REQUEST",
			[]string{"type"}},
		"type empty":                 {`{"type":""}`, 400, "INVALID_REQUEST", []string{"type"}},
		"A54 type with a line break": {`{"type":"A\r\nB"}`, 400, "INVALID_REQUEST", []string{"type"}},
		"two wrong": {`{"type":7,"maxRetries":"x","nope":{}}`, 400, "INVALID_REQUEST",
			[]string{"type", "maxRetries", "nope"}},
		"unknown type":            {`{"type":"NOPE"}`, 422, "UNKNOWN_JOB_TYPE", []string{"type"}},
		"payload of a wrong type": {`{"type":"PAIR","payload":{"A":"x"}}`, 422, "INVALID_PAYLOAD", []string{"payload.A"}},
		"payload, unknown field":  {`{"type":"PAIR","payload":{"C":1}}`, 422, "INVALID_PAYLOAD", []string{"payload"}},
		"payload, two fields": {`{"type":"PAIR","payload":{"A":1,"B":1}}`, 422, "INVALID_PAYLOAD",
			[]string{"payload.A", "payload.B"}},
		"A12 payload limit + 1": {`{"payload":"` + strings.Repeat("x", 999) + `"}`, 413, "PAYLOAD_TOO_LARGE", nil},
		"A12 body limit + 1":    {strings.Repeat(" ", 1000+bodyMargin-1) + `{}`, 413, "PAYLOAD_TOO_LARGE", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			rec := r.post(c.body)
			wantProblem(t, rec, c.status, c.code, c.fields...)
			if rec.Body.Len() > 4000 {
				t.Errorf("an answer of %d bytes", rec.Body.Len())
			}
			if len(r.submitted) != 0 {
				t.Errorf("submitted %+v", r.submitted)
			}
		})
	}
}

// numbered returns the members of an object with n different names.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()[1:]
}

func TestErrors_UnknownTypeListsTheKnown(t *testing.T) {
	r := newRooms(t)
	if rec := r.post(`{"type":"NOPE"}`); !strings.Contains(rec.Body.String(), "PAIR, SIMULATION") {
		t.Error(rec.Body)
	}
}

func TestErrors_Headers(t *testing.T) {
	t.Attr("proves", "A12 A63")
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    string
		fields  []string
	}{
		"no type": {`{}`, nil, 415, "UNSUPPORTED_MEDIA_TYPE", nil},
		"curl -d": {`{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "UNSUPPORTED_MEDIA_TYPE",
			nil},
		"text":      {`{}`, []string{"Content-Type", "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE", nil},
		"not +json": {`{}`, []string{"Content-Type", "image/svg+json"}, 415, "UNSUPPORTED_MEDIA_TYPE", nil},
		"malformed": {`{}`, []string{"Content-Type", "application/json;;=,"}, 415, "UNSUPPORTED_MEDIA_TYPE", nil},
		"two types": {`{}`, []string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 415,
			"UNSUPPORTED_MEDIA_TYPE", nil},
		"UTF-7": {`{}`, []string{"Content-Type", "application/json; charset=utf-7"}, 415, "UNSUPPORTED_MEDIA_TYPE",
			nil},
		"UTF-16": {`{}`, []string{"Content-Type", "application/json; charset=UTF-16"}, 415, "UNSUPPORTED_MEDIA_TYPE",
			nil},
		"gzip": {`{}`, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415,
			"UNSUPPORTED_MEDIA_TYPE", nil},
		"gzip, empty": {``, []string{"Content-Encoding", "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE", nil},
		"identity, gzip": {`{}`, []string{"Content-Type", "application/json", "Content-Encoding", "identity, gzip"}, 415,
			"UNSUPPORTED_MEDIA_TYPE", nil},
		"two keys": {`{}`, []string{"Content-Type", "application/json", "Idempotency-Key", "k", "Idempotency-Key", "k"},
			400, "INVALID_REQUEST", []string{"Idempotency-Key"}},
		"A59 1 MB key": {`{}`, []string{"Content-Type", "application/json", "Idempotency-Key", strings.Repeat("k", 1<<20)},
			400, "INVALID_REQUEST", []string{"Idempotency-Key"}},
		"A54 key": {`{}`, []string{"Content-Type", "application/json", "Idempotency-Key", "a\r\nb"}, 400,
			"INVALID_REQUEST", []string{"Idempotency-Key"}},
		"A62 key": {`{}`, []string{"Content-Type", "application/json", "Idempotency-Key", "clé"}, 400,
			"INVALID_REQUEST", []string{"Idempotency-Key"}},
		"an empty key": {``, []string{"Idempotency-Key", ""}, 400, "INVALID_REQUEST", []string{"Idempotency-Key"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			wantProblem(t, r.do("POST", "/paid/submit", c.body, c.headers...), c.status, c.code, c.fields...)
			if len(r.submitted) != 0 {
				t.Errorf("submitted %+v", r.submitted)
			}
		})
	}
	for _, ok := range [][]string{
		{"Content-Type", "application/json; charset=UTF-8"}, {"Content-Type", `APPLICATION/JSON;charset="utf-8"`},
		{"Content-Type", "application/vnd.x+json"},
		{"Content-Type", "application/json", "Content-Encoding", "identity"},
	} {
		if rec := newRooms(t).do("POST", "/paid/submit", `{}`, ok...); rec.Code != 202 {
			t.Errorf("%q: %d %s", ok, rec.Code, rec.Body)
		}
	}
	if rec := newRooms(t).do("POST", "/paid/submit", "", "Content-Type", "text/plain"); rec.Code != 202 {
		t.Errorf("an empty body is legal with any type: %d", rec.Code)
	}
}

func TestRoutes(t *testing.T) {
	t.Attr("proves", "A10 A25")
	for _, path := range []string{
		"/gold/submit", "/PAID/submit", "/Paid/submit", "/paid%20/submit", "/%20paid/submit", "/paid%00/submit",
		"/pa%C4%B0d/submit", "/pa%C4%B1d/submit", "/p%61id/submit",
		"/PUBLIC:x/submit", "/public:x/submit", "/{tierq:0}/submit", "/jobs/submit", "/jobs/submit/batch", "/api/submit",
		"/api/submit/batch", "/gold/submit/batch", "/PAID/submit/batch", "/admin/submit", "/result/submit",
		"/" + strings.Repeat("a", 5000) + "/submit", "/*/submit",
	} {
		r := newRooms(t)
		wantProblem(t, r.do("POST", path, ""), 404, "UNKNOWN_TIER")
		if len(r.submitted) != 0 {
			t.Errorf("%s: submitted %+v", path, r.submitted)
		}
	}
	for _, path := range []string{
		"/", "/paid", "/paid/submit/", "/paid//submit", "//paid/submit", "/paid%2Fsubmit", "/paid%2fsubmit",
		"/paid/submit%2f", "/paid/submit/x", "/paid/SUBMIT", "/x/../paid/submit/..",
		"/jobs/", "/api/jobs/", "/admin/jobs/" + string(knownID) + "/", "/admin/dead/requeue/", "/ADMIN/dead/requeue",
		"/admin%2Fdead/requeue", "/paid/submit/batch/",
		"/submit", "/%2e%2e/paid/submit", "/paid/submi%74",
	} {
		r := newRooms(t)
		wantProblem(t, r.do("POST", path, ""), 404, "NOT_FOUND")
		if len(r.submitted) != 0 {
			t.Errorf("%s: submitted %+v", path, r.submitted)
		}
	}
}

func TestMethods(t *testing.T) {
	t.Attr("proves", "A27")
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/paid/submit", "POST"}, {"PUT", "/paid/submit", "POST"}, {"OPTIONS", "/paid/submit", "POST"},
		{"TRACE", "/paid/submit", "POST"}, {"DELETE", "/paid/submit", "POST"},
		{"PUT", "/jobs/submit", "POST, GET, HEAD"}, {"PUT", "/jobs/dead", "GET, HEAD"}, {"GET", "/jobs", "POST"},
		{"POST", "/admin/jobs/" + string(knownID), "DELETE"}, {"PUT", "/api/jobs/" + string(knownID), "GET, HEAD, DELETE"},
		{"POST", "/admin/tiers/PAID", "GET, HEAD, PUT"}, {"GET", "/admin/dead/requeue", "POST"},
		{"HEAD", "/api/events", "GET"},
		{"PATCH", "/paid/submit", "POST"}, {"BREW", "/paid/submit", "POST"}, {"POST", "/result/poll", "GET, HEAD"},
		{"TRACE", "/livez", "GET, HEAD"}, {"OPTIONS", "/readyz", "GET, HEAD"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			r := newRooms(t)
			rec := r.do(c.method, c.path, "", "X-Secret", "mirror me", "X-HTTP-Method-Override", "DELETE")
			wantProblem(t, rec, 405, "METHOD_NOT_ALLOWED")
			wantHeader(t, rec, "Allow", c.allow)
			if strings.Contains(rec.Body.String(), "mirror") || len(r.submitted)+len(r.found) != 0 {
				t.Errorf("%s; %v", rec.Body, r.submitted)
			}
		})
	}
	if rec := newRooms(t).do("TRACE", "/nowhere", ""); rec.Code != http.StatusNotFound {
		t.Errorf("TRACE /nowhere: %d", rec.Code)
	}
}

func TestHeaders(t *testing.T) {
	t.Attr("proves", "A44")
	r := newRooms(t)
	all := []*httptest.ResponseRecorder{r.do("GET", "/nope", ""), r.do("POST", "/paid/submit", ""),
		r.do("GET", "/result/poll", ""), r.do("GET", "/livez", ""), r.do("PUT", "/livez", ""), r.post(`{`)}
	for _, status := range []int{401, 403, 404, 429, 503, 504} {
		rec := provoke(t, "POST", "/jobs", status)
		if rec.Code != status {
			t.Errorf("%d, want %d", rec.Code, status)
		}
		all = append(all, rec)
	}
	for _, rec := range all {
		wantHeader(t, rec, "X-Content-Type-Options", "nosniff")
		wantHeader(t, rec, "X-Frame-Options", "DENY")
		wantHeader(t, rec, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		wantHeader(t, rec, "Cache-Control", "no-store")
		if s := rec.Header().Get("Server"); s != "" {
			t.Errorf("Server: %s", s)
		}
	}
}

// Every answer to a request over TLS, to this server or to a trusted proxy, has Strict-Transport-Security, also
// errors and the answer after a panic. Answers to other requests do not have it.
func TestHeaders_OverTLS(t *testing.T) {
	t.Attr("proves", "A44")
	r := newRooms(t)
	r.deps.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	r.deps.Jobs = nil // makes the handler panic
	r.Handler = NewHandler(r.deps)
	for _, path := range []string{"/livez", "/nope", "/jobs/" + string(knownID)} {
		for name, c := range map[string]struct {
			peer, proto string
			tls         bool
			want        string
		}{
			"plain":                   {"203.0.113.9:1", "", false, ""},
			"anybody says so":         {"203.0.113.9:1", "https", false, ""},
			"a trusted proxy says so": {"10.0.0.1:1", "https", false, "max-age=31536000"},
			"a trusted proxy, plain":  {"10.0.0.1:1", "http", false, ""},
			"TLS":                     {"203.0.113.9:1", "", true, "max-age=31536000"},
		} {
			req := httptest.NewRequest("GET", path, nil)
			req.RemoteAddr = c.peer
			req.Header.Set("X-Forwarded-Proto", c.proto)
			if c.tls {
				req.TLS = &tls.ConnectionState{}
			}
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, req)
			if got := rec.Header().Get("Strict-Transport-Security"); got != c.want {
				t.Errorf("%s, %s: %d %q, want %q", path, name, rec.Code, got, c.want)
			}
		}
	}
}
