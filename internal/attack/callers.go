package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// callers returns the attacks on permissions.
func callers() []Attack {
	return []Attack{
		{ID: "A01", What: "see another key's job (S17)", try: seeAnothers},
		{ID: "A02", What: "change another key's job", try: changeAnothers},
		{ID: "A03", What: "guess ids near one's own", try: guessIDs},
		{ID: "A04", What: "no key, a wrong one, an expired one, a revoked one", try: wrongKeys},
		{ID: "A05", What: "a key in the query, in a cookie, in other headers", try: misplacedKeys},
		{ID: "A25", What: "admin routes with a user's key, and in other spellings", try: adminRoutes},
		{ID: "A26", What: "a key for PUBLIC on other tiers", try: otherTiers},
		{ID: "A50", What: "metrics and profiles without the role", try: profiles},
		{ID: "A59", What: "an Idempotency-Key of somebody else; another body; a huge one", try: foreignIdempotency},
		{ID: "A60", What: "cursors that were tampered with", try: tamperedCursors},
	}
}

const nobodys = "019de340-01fe-7a58-be69-567cd7d6b7d4"

// sights returns the routes that show a job.
func sights(id string) []string {
	return []string{
		"/result/poll?jobId=" + id, "/result/poll?jobId=" + id + "&wait=5s", "/jobs/" + id, "/api/jobs/" + id,
		"/jobs/" + id + "/artifact",
		"/api/jobs/" + id + "/why",
		"/api/jobs/" + id + "/events",
	}
}

// same compares two answers without what differs from request to request.
func same(a, b answer) bool {
	plain := func(a answer) []byte {
		var m map[string]any
		if json.Unmarshal(a.body, &m) != nil {
			return a.body
		}
		delete(m, "timestamp")
		delete(m, "traceId")
		delete(m, "jobId")
		text, _ := json.Marshal(m)
		return text
	}
	return a.status == b.status && bytes.Equal(plain(a), plain(b)) &&
		a.header.Get("WWW-Authenticate") == b.header.Get("WWW-Authenticate")
}

func seeAnothers(ctx context.Context, t *Target, x *trial) {
	id := t.submit(ctx, t.alice, `{"payload":{"steps":[{"type":"LOG","message":"alice's secret"}]}}`)
	if id == "" {
		x.fail("alice's own submit was not accepted")
		return
	}
	theirs, unknown := sights(id), sights(nobodys)
	for i, path := range theirs {
		for who, key := range map[string]string{"bob": t.bob, "public": t.public} {
			a := t.send(ctx, key, "GET", path, "")
			x.want("GET "+who+" "+strings.Replace(path, id, "<alice's>", 1), a, "404 JOB_NOT_FOUND")
			if !same(a, t.send(ctx, key, "GET", unknown[i], "")) || bytes.Contains(a.body, []byte("secret")) {
				x.fail("%s: another's job is told from an unknown one", path)
			}
		}
	}
	for _, list := range []string{"/api/jobs?limit=100", "/jobs/dead?size=100"} {
		a := t.send(ctx, t.bob, "GET", list, "")
		x.want("GET bob "+list, a, "200")
		if bytes.Contains(a.body, []byte(id)) {
			x.fail("%s: bob's list has alice's job", list)
		}
	}
}

func changeAnothers(ctx context.Context, t *Target, x *trial) {
	id := t.submit(ctx, t.alice, `{"delaySeconds":3600}`)
	for _, c := range []struct{ method, path string }{
		{"POST", "/api/jobs/" + id + "/cancel"}, {"DELETE", "/api/jobs/" + id}, {"POST", "/jobs/" + id + "/retry"},
	} {
		x.want(c.method+" bob "+strings.Replace(c.path, id, "<alice's>", 1), t.send(ctx, t.bob, c.method, c.path, ""),
			"404 JOB_NOT_FOUND")
	}
	x.want("DELETE bob /admin/jobs/<alice's>", t.send(ctx, t.bob, "DELETE", "/admin/jobs/"+id, ""), "403 FORBIDDEN")
	x.want("POST bob /admin/jobs/<alice's>/resubmit", t.send(ctx, t.bob, "POST", "/admin/jobs/"+id+"/resubmit", ""),
		"403 FORBIDDEN")
	x.want("DELETE reader /api/jobs/<alice's>", t.send(ctx, t.reader, "DELETE", "/api/jobs/"+id, ""), "403 FORBIDDEN")
	if a := t.send(ctx, t.alice, "GET", "/jobs/"+id, ""); !bytes.Contains(a.body, []byte("SCHEDULED")) {
		x.fail("alice's job was changed: %s", a.body)
	}
	if a := t.send(ctx, t.alice, "DELETE", "/api/jobs/"+id, ""); a.status != 200 {
		x.fail("alice cannot cancel her own job: %s", a)
	}
}

func guessIDs(ctx context.Context, t *Target, x *trial) {
	id := t.submit(ctx, t.alice, "")
	for n := range 100 {
		guess := []byte(id)
		for range 1 + n%4 { // the guess keeps the id's time and changes random digits
			at := []int{15, 16, 17, 20, 21, 22, 24, 26, 28, 30, 32, 34}[rand.IntN(12)]
			guess[at] = "0123456789abcdef"[rand.IntN(16)]
		}
		if string(guess) != id {
			x.want("a neighbour of one's own id", t.send(ctx, t.bob, "GET", "/jobs/"+string(guess), ""), "404 JOB_NOT_FOUND",
				"429 RATE_LIMITED")
		}
	}
}

func wrongKeys(ctx context.Context, t *Target, x *trial) {
	id := idOf(t.alice)
	expired, err := t.newKey(ctx, `{"name":"attack expired","role":"submit","expiresInSeconds":1}`)
	if err != nil {
		x.fail("%v", err)
	}
	// The key is tried until it has expired. Too many tries with an expired key would be answered 429.
	for end := time.Now().Add(busy); t.send(ctx, expired, "GET", "/api/jobs", "").status == 200 &&
		time.Now().Before(end); {
		<-time.After(250 * time.Millisecond)
	}
	var first *answer
	for what, header := range map[string]string{
		"no key": "", "another secret": "Bearer tq_" + id + "_" + strings.Repeat("A", 43),
		"an unknown id": "Bearer tq_" + strings.Repeat("a",
			16) + "_" + strings.Repeat("A", 43),
		"a revoked key": "Bearer " + t.gone, "an expired key": "Bearer " + expired, "not a key": "Bearer x",
		"another scheme": "Basic YWRtaW46YWRtaW4=", "no scheme": t.alice,
		"a cut key": "Bearer " + t.alice[:len(t.alice)-1],
	} {
		var headers []string
		if header != "" {
			headers = []string{"Authorization", header}
		}
		a := t.send(ctx, "", "POST", "/paid/submit", "{}", headers...)
		x.want(what, a, "401 UNAUTHORIZED")
		if first == nil {
			first = &a
		}
		if !same(a, *first) || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			x.fail("%s is told from other wrong keys: %s", what, a.body)
		}
	}
}

func misplacedKeys(ctx context.Context, t *Target, x *trial) {
	for _, name := range []string{"key", "api_key", "access_token", "token", "Authorization"} {
		x.want("?"+name+"=<a key>", t.send(ctx, "", "GET", "/api/stats?"+name+"="+t.admin, ""), "401 UNAUTHORIZED")
	}
	for _, h := range []string{"X-API-Key", "X-Auth-Token", "Proxy-Authorization", "Cookie"} {
		x.want(h+": <a key>", t.send(ctx, "", "GET", "/api/stats", "", h, "Bearer "+t.admin), "401 UNAUTHORIZED")
	}
}

func adminRoutes(ctx context.Context, t *Target, x *trial) {
	routes := []struct{ method, path string }{
		{"GET", "/admin/jobs"}, {"GET", "/admin/dead"}, {"GET", "/admin/dead/export"}, {"POST", "/admin/dead/requeue"},
		{"GET",
			"/admin/tiers"}, {"PUT", "/admin/tiers/PAID"},
		{"GET", "/admin/keys"}, {"POST", "/admin/keys"}, {"DELETE", "/admin/keys/" + idOf(t.admin)}, {"POST",
			"/admin/keys/" + idOf(t.alice) + "/rotate"}, {"GET", "/admin/audit"},
		{"GET", "/admin/consistency"}, {"POST", "/admin/consistency"}, {"GET", "/api/stats"}, {"GET", "/api/events"},
	}
	for _, r := range routes {
		x.want("a user's key: "+r.method+" "+r.path, t.send(ctx, t.alice, r.method, r.path, ""), "403 FORBIDDEN")
		x.want("a worker's key: "+r.method+" "+r.path, t.send(ctx, t.worker, r.method, r.path, ""), "403 FORBIDDEN")
		x.want("no key: "+r.method+" "+r.path, t.send(ctx, "", r.method, r.path, ""), "401 UNAUTHORIZED")
		if r.method != "GET" {
			x.want("a reader's key: "+r.method+" "+r.path, t.send(ctx, t.reader, r.method, r.path, "{}"), "403 FORBIDDEN")
		}
	}
	for _, path := range []string{"/admin/keys/", "/ADMIN/keys", "/Admin/keys", "//admin/keys", "/admin//keys",
		"/admin%2fkeys",
		"/%61dmin/keys", "/admin/./keys", "/x/../admin/keys", "/admin/keys%00", "/admin/keys;x"} {
		x.want("GET "+path, t.send(ctx, t.alice, "GET", path, ""), "404", "403 FORBIDDEN", "400")
	}
	for _, h := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		x.want("GET with "+h+": DELETE", t.send(ctx, t.reader, "GET", "/admin/keys", "", h, "DELETE"), "200")
	}
	x.want("X-Original-URL: /admin/keys",
		t.send(ctx, t.alice, "GET", "/livez", "", "X-Original-URL", "/admin/keys", "X-Rewrite-URL",
			"/admin/keys"), "200")
	if a := t.send(ctx, t.admin, "GET", "/admin/keys", ""); a.status != 200 {
		x.fail("the administrator's key no longer opens: %s", a)
	}
}

func otherTiers(ctx context.Context, t *Target, x *trial) {
	before := t.send(ctx, t.public, "GET", "/api/jobs?limit=100", "").body
	headers := []string{"Idempotency-Key", fmt.Sprint("a26-", rand.Uint64())}
	x.want("POST /paid/submit", t.send(ctx, t.public, "POST", "/paid/submit", `{"type":"SIMULATION"}`, headers...),
		"403 FORBIDDEN")
	x.want("POST /unpaid/submit", t.send(ctx, t.public, "POST", "/unpaid/submit", "{}", headers...), "403 FORBIDDEN")
	x.want(`POST /jobs {"tier":"PAID"}`,
		t.send(ctx, t.public, "POST", "/jobs", `{"type":"SIMULATION","tier":"PAID"}`, headers...), "403 FORBIDDEN")
	x.want(`POST /api/jobs {"tier":"paid"}`,
		t.send(ctx, t.public, "POST", "/api/jobs", `{"jobType":"SIMULATION","tier":"paid"}`, headers...),
		"403 FORBIDDEN")
	batch := t.send(ctx, t.public, "POST", "/paid/submit/batch", "[{},{}]")
	x.want("POST /paid/submit/batch", batch, "403 FORBIDDEN")
	if bytes.Contains(batch.body, []byte(`"jobId":"0`)) {
		x.fail("a batch was accepted: %s", batch.body)
	}
	if after := t.send(ctx, t.public, "GET", "/api/jobs?limit=100", "").body; !bytes.Equal(before, after) {
		x.fail("something was written: %s", after)
	}
	x.want("POST /public/submit, under the same Idempotency-Key",
		t.send(ctx, t.public, "POST", "/public/submit", "{}", headers...), "202")
}

func profiles(ctx context.Context, t *Target, x *trial) {
	nobody, forbidden := []string{"401 UNAUTHORIZED"}, []string{"403 FORBIDDEN"}
	if !t.own() { // another server may serve these routes on TIERQ_OPS_ADDR
		nobody, forbidden = append(nobody, "404"), append(forbidden, "404")
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline",
		"/debug/pprof/profile?seconds=1"} {
		x.want("no key: "+path, t.send(ctx, "", "GET", path, ""), nobody...)
		x.want("a user's key: "+path, t.send(ctx, t.alice, "GET", path, ""), forbidden...)
	}
	x.want("a reader's key: /debug/pprof/heap", t.send(ctx, t.reader, "GET", "/debug/pprof/heap", ""), forbidden...)
	x.want("no key: /readyz?verbose", t.send(ctx, "", "GET", "/readyz?verbose", ""), "200", "401")
	if a := t.send(ctx, "", "GET", "/actuator/health", ""); bytes.Contains(a.body, []byte("poolSize")) ||
		bytes.Contains(a.body, []byte("components")) {
		x.fail("a stranger learns how the server is: %s", a.body)
	}
}

func foreignIdempotency(ctx context.Context, t *Target, x *trial) {
	key := []string{"Idempotency-Key", fmt.Sprint("a59-", rand.Uint64())}
	first := t.send(ctx, t.alice, "POST", "/paid/submit", "{}", key...)
	x.want("alice, with a key", first, "202")
	second := t.send(ctx, t.bob, "POST", "/paid/submit", "{}", key...)
	x.want("bob, with the same key", second, "202")
	if second.header.Get("Idempotency-Replayed") != "" || first.header.Get("Location") == second.header.Get("Location") {
		x.fail("bob was given alice's job")
	}
	x.want("alice, with another body", t.send(ctx, t.alice, "POST", "/paid/submit", `{"maxRetries":1}`, key...),
		"422 IDEMPOTENCY_MISMATCH")
	x.want("a key of 300 bytes", t.send(ctx, t.alice, "POST", "/paid/submit", "{}", "Idempotency-Key",
		strings.Repeat("k", 300)),
		"400 INVALID_REQUEST")
	x.want("a key of 1 MB", t.send(ctx, t.alice, "POST", "/paid/submit", "{}", "Idempotency-Key",
		strings.Repeat("k", 1<<20)), "431", "400", "closed")
}

func tamperedCursors(ctx context.Context, t *Target, x *trial) {
	for range 3 {
		t.submit(ctx, t.alice, "")
	}
	var page struct{ Next string }
	_ = json.Unmarshal(t.send(ctx, t.admin, "GET", "/admin/jobs?limit=1", "").body, &page)
	for _, cursor := range []string{page.Next + "A", "A" + page.Next, "MWw6'--", "MWE6JzsgU0VMRUNUIFNMRUVQKDUpIC0t",
		"..%2f..",
		strings.Repeat("A", 4000), "%00", "-1", "1%0d%0aX: y"} {
		for _, list := range []string{"/admin/jobs", "/admin/dead", "/api/jobs", "/admin/audit"} {
			x.want(list+"?cursor=<tampered>", t.send(ctx, t.admin, "GET", list+"?cursor="+cursor, ""), "400")
		}
	}
}
