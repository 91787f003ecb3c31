package httpapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// The sets of callers that an address lets in.
const (
	everybody  = "stranger anonymous submit read-only admin worker both open"
	submitters = "submit admin both open"
	strangers  = "anonymous submit admin both open"
	lookers    = "anonymous submit read-only admin both open"
	listers    = "submit read-only admin both open"
	operators  = "read-only admin open"
	admins     = "admin open"
	workers    = "worker admin both open"
	// a worker's key that may submit, too
	workersToSubmit = "admin both open"
	keys            = "submit read-only admin worker both open"
)

// whoMay maps every address to the callers who may use it.
var whoMay = map[string]string{
	"POST /:tier/submit": strangers, "POST /:tier/submit/batch": strangers, "GET /result/poll": lookers,
	"HEAD /result/poll": lookers,
	"POST /jobs":        submitters, "POST /api/jobs": submitters, "GET /jobs/dead": listers, "HEAD /jobs/dead": listers,
	"GET /jobs/:id": lookers, "HEAD /jobs/:id": lookers, "GET /api/jobs/:id": lookers, "HEAD /api/jobs/:id": lookers,
	"GET /jobs/:id/artifact": lookers, "HEAD /jobs/:id/artifact": lookers, "GET /api/jobs/:id/why": lookers,
	"HEAD /api/jobs/:id/why": lookers, "GET /api/jobs/:id/logs": lookers, "HEAD /api/jobs/:id/logs": lookers,
	"GET /api/jobs/:id/events": lookers, "GET /api/events": operators,
	"POST /jobs/:id/retry": strangers, "POST /admin/jobs/:id/resubmit": admins,
	"POST /admin/jobs/:id/kill": admins, "POST /admin/jobs/:id/hasten": admins, "POST /admin/dead/:id/dismiss": admins,
	"DELETE /admin/jobs/:id": admins, "DELETE /api/jobs/:id": strangers, "POST /api/jobs/:id/cancel": strangers,
	"GET /admin/jobs": operators, "HEAD /admin/jobs": operators, "GET /api/jobs": listers, "HEAD /api/jobs": listers,
	"GET /admin/dead": operators, "HEAD /admin/dead": operators, "GET /admin/dead/export": operators,
	"POST /admin/dead/requeue": admins,
	"GET /admin/tiers":         operators, "HEAD /admin/tiers": operators, "GET /admin/tiers/:tier": operators,
	"HEAD /admin/tiers/:tier": operators,
	"PUT /admin/tiers/:tier":  admins, "GET /admin/consistency": operators, "HEAD /admin/consistency": operators,
	"POST /admin/consistency": admins,
	"GET /admin/queues":       operators, "HEAD /admin/queues": operators, "GET /admin/queues/:name": operators,
	"HEAD /admin/queues/:name": operators, "PUT /admin/queues/:name": admins, "DELETE /admin/queues/:name": admins,
	"POST /admin/queues/:name/pause": admins, "POST /admin/queues/:name/resume": admins,
	"POST /admin/queues/:name/purge": admins,
	"GET /admin/lines":               operators, "HEAD /admin/lines": operators, "PUT /admin/lines": admins,
	"POST /api/batches": submitters, "GET /api/batches": listers, "HEAD /api/batches": listers,
	"GET /api/batches/:id": listers, "HEAD /api/batches/:id": listers, "GET /api/batches/:id/members": listers,
	"HEAD /api/batches/:id/members": listers, "GET /api/batches/:id/events": listers,
	"POST /api/batches/:id/seal": submitters, "POST /api/batches/:id/cancel": submitters,
	"GET /admin/schedules": operators, "HEAD /admin/schedules": operators,
	"GET /admin/schedules/:name": operators, "HEAD /admin/schedules/:name": operators,
	"GET /admin/schedules/:name/next": operators, "HEAD /admin/schedules/:name/next": operators,
	"PUT /admin/schedules/:name": admins, "DELETE /admin/schedules/:name": admins,
	"POST /admin/schedules/:name/run": admins, "POST /admin/schedules/:name/pause": admins,
	"POST /admin/schedules/:name/resume": admins,
	"GET /admin/paused":                  operators, "HEAD /admin/paused": operators,
	"PUT /admin/paused/:scope": admins, "DELETE /admin/paused/:scope": admins,
	"GET /admin/workers": operators, "HEAD /admin/workers": operators,
	"POST /admin/workers/:name/quiet":  admins,
	"POST /admin/workers/:name/resume": admins, "POST /admin/workers/:name/terminate": admins,
	"POST /api/worker/claim": workers, "POST /api/worker/heartbeat": workers, "POST /api/worker/log": workers,
	"POST /api/worker/complete": workers,
	"POST /api/worker/fail":     workers, "POST /api/worker/release": workers, "POST /api/worker/report": workers,
	"POST /api/worker/inputs": workers, "POST /api/flows/:id/jobs": workersToSubmit, "POST /api/flows": submitters,
	"GET /api/flows": listers, "HEAD /api/flows": listers, "GET /api/flows/:id": lookers, "HEAD /api/flows/:id": lookers,
	"POST /api/flows/:id/cancel": strangers,
	"GET /admin/keys":            operators, "HEAD /admin/keys": operators, "POST /admin/keys": admins,
	"POST /admin/keys/:id/rotate":  admins,
	"POST /admin/keys/:id/gateway": admins, "POST /api/me/gateway": keys,
	"DELETE /admin/keys/:id": admins, "GET /admin/audit": operators, "HEAD /admin/audit": operators,
	"GET /api/stats": operators, "HEAD /api/stats": operators, "GET /api/stats/series": operators,
	"HEAD /api/stats/series": operators,
	"GET /api/me":            everybody, "HEAD /api/me": everybody, "GET /actuator/health": everybody,
	"HEAD /actuator/health": everybody,
	"GET /livez":            everybody, "HEAD /livez": everybody, "GET /readyz": everybody, "HEAD /readyz": everybody,
}

// At every address, each kind of caller who may not use it gets a 401 without a key and a 403 with one. Other
// callers get neither.
func TestPermissions(t *testing.T) {
	t.Attr("proves", "A25 A26 A50")
	t.Parallel()
	for _, route := range Routes() {
		at := route.Method + " " + route.Path
		may, listed := whoMay[at]
		if !listed {
			t.Errorf("%s is served, and nobody said to whom", at)
			continue
		}
		for kind, caller := range callers {
			r := allFailing(t, job.ErrUnavailable)
			r.messages = make(chan job.Message)
			close(r.messages)
			r.behind(caller)
			path := strings.NewReplacer(":tier", "{tier}", ":id", "{id}", ":name", "{name}", ":scope", "{scope}").
				Replace(route.Path)
			body := bodies[path]
			if route.Method == http.MethodGet || route.Method == http.MethodHead {
				body = ""
			}
			path = strings.NewReplacer("{tier}", "public", "{id}", string(knownID), "{name}", paidQueue, "{scope}", "all").
				Replace(path)
			if path == "/result/poll" {
				path = pollKnown
			}
			rec := r.json(route.Method, path, body)
			want := 0
			switch {
			case slices.Contains(strings.Fields(may), kind):
			case caller.Key.ID == "":
				want = 401
			default:
				want = 403
			}
			if refused := rec.Code == 401 || rec.Code == 403; refused != (want > 0) || refused && rec.Code != want {
				t.Errorf("%s, %s: %d, want %d: %s", at, kind, rec.Code, want, rec.Body)
			}
			if want > 0 && len(r.submitted)+len(r.found) > 0 {
				t.Errorf("%s, %s: a room was asked", at, kind)
			}
		}
	}
	for at := range whoMay {
		if method, path, _ := strings.Cut(at, " "); !slices.ContainsFunc(Routes(),
			func(r Route) bool { return r.Method == method && r.Path == path }) {
			t.Errorf("%s is not served", at)
		}
	}
}

// An address of another room has a permission too. Without a permission it refuses every caller.
func TestPermissions_OfOtherRooms(t *testing.T) {
	t.Attr("proves", "A50")
	of := map[Permission]string{
		forNobody: "", ForEverybody: everybody, Uncounted: everybody, ForSubmits: submitters, ForTierSubmits: strangers,
		ForOwners: lookers, ForOwnersToAct: strangers,
		ForLists: listers, ForOperators: operators, ForWorkers: workers, ForKeys: keys,
		ForWorkersToSubmit: workersToSubmit, ForAdmins: admins,
	}
	for p, may := range of {
		for kind, caller := range callers {
			r := newRooms(t)
			r.deps.Extra = []Route{{"GET", "/metrics", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), p}}
			r.behind(caller)
			if rec := r.do("GET", "/metrics", ""); (rec.Code == 200) != slices.Contains(strings.Fields(may), kind) {
				t.Errorf("permission %d, %s: %d", p, kind, rec.Code)
			}
		}
	}
}

// docs/openapi.yaml names for every operation the roles that may use it.
func TestPermissions_OpenAPISaysThem(t *testing.T) {
	c, err := described()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range c.Operations() {
		if o.Elsewhere {
			continue
		}
		may := whoMay[o.Method+" "+routeOf(o.Path)]
		var want []string
		for _, role := range []job.Role{job.RoleWorker, job.RoleSubmit, job.RoleReadOnly, job.RoleAdmin} {
			if may != everybody && slices.Contains(strings.Fields(may), string(role)) {
				want = append(want, string(role))
			}
		}
		if got := c.Roles(o); !slices.Equal(got, want) {
			t.Errorf("%s %s: open to %q in the description, to %q in fact", o.Method, o.Path, got, want)
		}
	}
}

// No other spelling of an address, no other method and no header with another path or method gets past a
// permission.
func TestPermissions_NoWayAround(t *testing.T) {
	t.Attr("proves", "A25")
	t.Parallel()
	never := func(r *rooms) {
		r.list = func(job.Filter, string, int) ([]job.Job, string, error) { r.tb.Error("listed"); return nil, "", nil }
		r.cancel = func(job.ID) (job.Word, error) { r.tb.Error("cancelled"); return job.WasCancelled, nil }
		r.requeue = func(job.ID, string) error { r.tb.Error("requeued"); return nil }
		r.stats = func() (Stats, error) { r.tb.Error("told the figures"); return Stats{}, nil }
		r.store = func(p job.Plan, _ int64) (job.Plan, error) { r.tb.Error("stored a plan"); return p, nil }
		r.audit = func(bool) (Audit, error) { r.tb.Error("audited"); return Audit{}, nil }
	}
	overrides := []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL",
		"X-Rewrite-URL", "X-Original-Method", "X-Forwarded-Path"}
	spellings := func(path string) []string {
		return []string{
			path, path + "/", "/" + path, path + "//", path + "/.", path + "%2f", path + "%20", path + "%00", path + ";a=b",
			path + ".json", path + "?x",
			strings.ToUpper(path), strings.Replace(path, "/a", "/A", 1), strings.Replace(path, "a", "%61", 1), "/." + path,
			"/jobs/.." + path,
			"/livez/.." + path, "/livez%2f.." + path, "/livez/..%2f" + path[1:], "/" + strings.Replace(path[1:], "/", "%2f", 1),
			"/" + strings.Replace(path[1:], "/", "\\", 1),
		}
	}
	for _, path := range []string{"/admin/jobs", "/admin/tiers/PAID", "/admin/consistency", "/api/stats",
		"/admin/jobs/" + string(knownID)} {
		for _, spelling := range spellings(path) {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get",
				"ADMIN"} {
				r := newRooms(t)
				never(r)
				r.behind(callers["submit"])
				rec := r.do(method, spelling, "")
				if rec.Code != 403 && rec.Code != 404 && rec.Code != 405 {
					t.Errorf("%s %s: %d %s", method, spelling, rec.Code, rec.Body)
				}
			}
		}
	}
	for _, header := range overrides {
		for _, value := range []string{"DELETE", "PUT", "/admin/jobs", "/api/stats"} {
			r := newRooms(t)
			never(r)
			r.behind(callers["submit"])
			for _, target := range []string{"/jobs/" + string(knownID), "/livez", "/result/poll?jobId=" + string(knownID)} {
				if rec := r.do("GET", target, "", header, value); rec.Code != 404 && target != "/livez" {
					t.Errorf("GET %s with %s: %s: %d", target, header, value, rec.Code)
				}
			}
			if rec := r.do("POST", "/admin/jobs/"+string(knownID), "", header, value); rec.Code != 405 {
				t.Errorf("POST with %s: %s: %d", header, value, rec.Code)
			}
		}
	}
}
