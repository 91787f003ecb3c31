package httpapi

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// For any query, on every address that takes one, the accepted filters and pages are bounded, and are those that
// were sent.
func FuzzQuery(f *testing.F) {
	f.Attr("proves", "A21 A57 A61")
	r := fuzzedRooms(f)
	r.ready, r.health = Report{Ready: true, Status: "UP"}, Health{Status: "UP"}
	r.deps.Metrics = figures // the profiles are served only along with the metrics
	r.Handler = NewHandler(r.deps)
	var filters []job.Filter
	most := 0
	heard := func(f job.Filter, cursor string, limit int) {
		filters, most = append(filters, f), max(most, limit)
		if len(cursor) > 512 {
			most = len(cursor)
		}
	}
	r.list = func(f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
		heard(f, cursor, limit)
		return nil, "", nil
	}
	r.dead = func(f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error) {
		heard(f, cursor, limit)
		return nil, "", nil
	}
	fuzz.Text(f, func(t *testing.T, query string) {
		filters, most = nil, 0
		r.told.limit, r.told.cursor = 0, ""
		values, _ := url.ParseQuery(query)
		_, tooLong := whole(values.Get("seconds"), 1, profileMost)
		for _, path := range []string{"/admin/jobs", "/api/jobs", "/jobs/dead", "/admin/dead", "/admin/dead/export",
			"/result/poll",
			"/admin/tiers", "/api/stats", "/api/stats/series", "/api/me", "/admin/audit", "/readyz", "/actuator/health",
			profilePath + "goroutine"} {
			if path == profilePath+"goroutine" && tooLong == nil {
				continue // the profile would really be taken
			}
			target := path + "?" + query
			rec := r.ask(t, "GET", target, "")
			if rec != nil && rec.Code != 200 && rec.Code != 400 && rec.Code != 404 {
				t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
			}
		}
		for _, f := range filters {
			if f.Tier != "" && tierNamed(string(f.Tier)) != f.Tier || f.Type != "" && !job.IsForeignTypeName(f.Type) ||
				f.Cause != "" && causes[string(f.Cause)] == "" || f.Owner != nil {
				t.Errorf("filtered by %+v", f)
			}
		}
		if most = max(most, r.told.limit); most > pageMost || len(r.told.cursor) > 512 {
			t.Errorf("%d asked for", most)
		}
	}, "", "status=PENDING&tier=PAID&type=PAIR&cause=HANDLER_ERROR&limit=20&cursor=abc", "limit=1e9", "limit=-1",
		"limit=1000000000",
		"page=1000000000&size=100", "cursor=%00", "status=DEAD&status=DONE",
		"type=id;sleep(5)", "cause=(select%201)", "from=2026-05-01T00:00:00+02:00&to=9999-12-31T23:59:59Z",
		"jobId=019de340-01fe-7a58-be69-567cd7d6b7d4&wait=20s", "jobId=x&wait=-1", "wait=1e9", "%zz", "a=b;c=d", "tier=%60",
		"size=0",
		"verbose", "verbose=1&verbose=2", "debug=1", "debug=3", "seconds=-1", "seconds=121", "seconds=1&seconds=1",
		"gc=0&debug=2", "limit=100&cursor=a.b", "window=5m&tier=PAID")
}

var hex32 = regexp.MustCompile(`^[0-9a-f]{32}$`)

// For any headers, an answer has a valid trace id, an Idempotency-Key is hashed, a wait is bounded, and no other
// header has an effect.
func FuzzHeaders(f *testing.F) {
	f.Attr("proves", "A42 A54 A59")
	r := fuzzedRooms(f)
	known := map[string]bool{
		"Traceparent": true, "X-Trace-Id": true, "Idempotency-Key": true, "Prefer": true, "If-None-Match": true,
		"If-Match":      true,
		"Last-Event-Id": true, "Content-Type": true,
		"Content-Encoding": true, "Accept": true, "X-Http-Method-Override": true, "Forwarded": true, "X-Real-Ip": true,
		"User-Agent": true,
		"Tracestate": true,
	}
	fuzz.Text(f, func(t *testing.T, lines string) {
		var headers []string
		for line := range strings.SplitSeq(lines, "\n") {
			name, value, _ := strings.Cut(line, ":")
			if name = http.CanonicalHeaderKey(name); known[name] {
				headers = append(headers, name, strings.TrimSpace(value))
			}
		}
		rec := r.ask(t, "POST", "/paid/submit", "{}", headers...)
		trace := rec.Header().Get("X-Trace-Id")
		if rec.Code == http.StatusAccepted {
			s := r.submitted[0]
			if s.TraceID != trace || s.Idempotency.Key != "" && (!hex32.MatchString(s.Idempotency.Key) ||
				!hex32.MatchString(s.Idempotency.Body)) || s.Tier != job.Paid {
				t.Errorf("submitted %+v under the trace %s", s, trace)
			}
		}
		rec = r.ask(t, "GET", "/result/poll?jobId="+string(knownID), "", headers...)
		if rec.Code != 200 && rec.Code != 304 {
			t.Errorf("a poll: %d %s", rec.Code, rec.Body)
		}
		if applied := rec.Header().Get("Preference-Applied"); applied != "" &&
			!regexp.MustCompile(`^wait=([1-9]|[1-5][0-9]|60)$`).MatchString(applied) {
			t.Errorf("Preference-Applied: %s", applied)
		}
		r.ask(t, "PUT", "/admin/tiers/PAID", "{}", headers...)
	}, "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"traceparent: 00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"traceparent: ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"traceparent: 01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", "X-Trace-Id: mine.1_2-3",
		"X-Trace-Id: a\x1b[31m",
		"Idempotency-Key: k\nContent-Type: application/json", "Idempotency-Key: \nIdempotency-Key: k",
		"Prefer: wait=20", "Prefer: respond-async, wait=\"5\";x=y", "Prefer: wait=99999999999",
		"If-None-Match: W/\"COMPLETED-1-0-1\", *",
		"If-Match: W/\"1\"", "If-Match: \"9223372036854775808\"",
		"Content-Type: application/json; charset=utf-7", "Content-Encoding: gzip", "X-HTTP-Method-Override: DELETE",
		"Content-Type: application/json;;=,")
}

// submitPath matches the addresses that answer a POST with 202, exactly as they are written.
var submitPath = regexp.MustCompile(`^/(paid|unpaid|public)/submit(/batch)?$|^/jobs$|^/api/jobs$|^/jobs/[0-9a-fA-F-]{36}/retry$|^/admin/jobs/[0-9a-fA-F-]{36}/resubmit$`)

// A path matches an address of the contract exactly, or gets a 404. No other spelling submits a job or names a
// tier.
func FuzzPath(f *testing.F) {
	f.Attr("proves", "A10 A25 A51")
	r := fuzzedRooms(f)
	fuzz.Text(f, func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		for _, method := range []string{"GET", "POST", "DELETE"} {
			rec := r.ask(t, method, path, "", asJSON...)
			if rec == nil {
				return
			}
			plainPath, _, _ := strings.Cut(path, "?")
			if method == "POST" && rec.Code == http.StatusAccepted && !submitPath.MatchString(plainPath) &&
				!strings.HasSuffix(plainPath, "/cancel") {
				t.Errorf("%s %s: %d", method, path, rec.Code)
			}
			for _, s := range r.submitted {
				if !strings.HasPrefix(plainPath, "/"+strings.ToLower(string(s.Tier))+"/") &&
					!strings.HasSuffix(plainPath, "/jobs") {
					t.Errorf("%s submits to %s", path, s.Tier)
				}
			}
		}
	}, "/paid/submit", "/public/submit/batch", "/jobs", "/jobs/019de340-01fe-7a58-be69-567cd7d6b7d4",
		"/api/jobs/019de340-01fe-7a58-be69-567cd7d6b7d4/why", "/admin/tiers/PAID", "/paid%2fsubmit", "/PAID/submit",
		"/paid%00/submit",
		"/../paid/submit", "//paid/submit", "/.git/config", "/..%2f..%2fetc/passwd", "/.env", "/paid/submit/",
		"/PUBLIC:x/submit",
		"/pa\u0131d/submit", "/jobs/submit", "/livez;x", "/admin/jobs/019de340-01fe-7a58-be69-567cd7d6b7d4?x=y",
		"/jobs/019DE340-01FE-7A58-BE69-567CD7D6B7D4/retry", "/admin//dead", "/%61dmin/tiers")
}

// For any id and text of an event, the frames of the stream stay intact.
func FuzzStream(f *testing.F) {
	f.Attr("proves", "A46")
	r := fuzzedRooms(f)
	fuzz.Text(f, func(t *testing.T, text string) {
		r.messages = make(chan job.Message, 1)
		r.messages <- job.Message{ID: text, Event: job.Event{ID: knownID, Tier: job.Tier(text), Status: job.Status(text),
			Cause: job.Cause(text), At: aMoment}}
		close(r.messages)
		rec := r.ask(t, "GET", "/api/events", "", "Last-Event-ID", strings.Map(func(c rune) rune {
			if c < ' ' || c == 0x7f {
				return -1
			}
			return c
		}, text))
		if len(r.lastID) > 128 || !visible(r.lastID) {
			t.Errorf("it goes on behind %q", r.lastID)
		}
		if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", rec.Code, rec.Header())
		}
		events := sentences(rec.Body.String())
		if len(events) != 3 || !strings.HasPrefix(events[1], "event: job\n") || events[2] != "event: bye\ndata: {}" {
			t.Errorf("said %q", events)
		}
		for i, line := range strings.Split(events[min(1, len(events)-1)], "\n") {
			name, _, _ := strings.Cut(line, ": ")
			if i > 2 || name != "event" && name != "id" && name != "data" || strings.ContainsAny(line, "\r\x00") {
				t.Errorf("the line %q", line)
			}
		}
	}, "1777635117961-0", "PAID", "a\nevent: bye\ndata: {}\n\n", "\r\r", "\x00", "</script><script>alert(1)</script>",
		"漢字\u2028", "", "\xff")
}

// For any Host that loopbackName accepts, a browser also connects to this machine.
func FuzzHost(f *testing.F) {
	f.Attr("proves", "A20")
	fuzz.Text(f, func(t *testing.T, host string) {
		if !loopbackName(host) {
			return
		}
		u, err := url.Parse("http://" + host + "/")
		if err != nil {
			return
		}
		if u.User != nil || u.Host != host { // a browser parses it differently, and sends another Host
			return
		}
		name := strings.ToLower(u.Hostname())
		ip, err := netip.ParseAddr(name)
		if name != "localhost" && !strings.HasSuffix(name, ".localhost") && (err != nil || !ip.Unmap().IsLoopback()) {
			t.Errorf("it is %q to a browser", name)
		}
	}, "localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:80", "[::ffff:127.0.0.1]", "evil.example",
		"localhost.evil.example",
		"a.localhost:1", "evil@localhost", "[localhost]", "localhost:80:80", "0.0.0.0", "2130706433", "")
}

// The header of a peer that is not trusted is ignored. Behind a trusted peer, the client's address is the last one
// that is not trusted.
func FuzzClientAddress(f *testing.F) {
	f.Attr("proves", "A42")
	network := netip.MustParsePrefix("10.0.0.0/8")
	trusting := &api{Deps: Deps{TrustedProxies: []netip.Prefix{network}}}
	fuzz.Text(f, func(t *testing.T, text string) {
		peer, lines, _ := strings.Cut(text, "\n")
		r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": strings.Split(lines, "\n"),
			"Forwarded": {"for=203.0.113.9"}, "X-Real-Ip": {"203.0.113.9"}}}
		own := trusting.address(&http.Request{RemoteAddr: peer})
		if got := (&api{}).address(r); got != own {
			t.Errorf("%s, to a server that trusts nobody", got)
		}
		got := trusting.address(r)
		if got.Zone() != "" || got.Is4In6() {
			t.Errorf("%s", got)
		}
		if !network.Contains(own) && got != own {
			t.Errorf("%s, from a peer that is not trusted", got)
		}
		if got.IsValid() && got != own && !strings.Contains(lines, ":") && !strings.Contains(lines, got.String()) {
			t.Errorf("%s, which nobody named", got)
		}
		entries := strings.Split(strings.ReplaceAll(lines, "\n", ","), ",")
		last := strings.Trim(entries[len(entries)-1], " \t")
		if ip, err := netip.ParseAddr(last); err == nil && network.Contains(own) &&
			!network.Contains(ip.Unmap().WithZone("")) &&
			got != ip.Unmap().WithZone("") {
			t.Errorf("%s, not the last one that is not ours", got)
		}
	}, "10.0.0.1:1234\n203.0.113.7", "10.0.0.1:1234\n1.2.3.4, 203.0.113.7, 10.0.0.2", "192.0.2.1:5\n203.0.113.7",
		"[::ffff:10.0.0.1]:1\n[2001:db8::1]:80, ::ffff:10.1.1.1", "@\n1.2.3.4", "10.0.0.1:1\nunknown, 1.2.3.4\n5.6.7.8",
		"10.0.0.1:1\n1.2.3.4,,", "10.0.0.1:1\nfe80::1%lo", "10.0.0.1:1\n", "10.0.0.1:1\n10.0.0.3")
}
