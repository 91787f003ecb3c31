package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// allFailing returns rooms whose every call fails with err, and that have no place for one more wait.
func allFailing(t *testing.T, err error) *rooms {
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{ID: knownID}, err }
	r.find = func(job.ID) (job.Job, error) { return job.Job{}, err }
	r.list = func(job.Filter, string, int) ([]job.Job, string, error) { return nil, "", err }
	r.cancel = func(job.ID) (job.Word, error) { return "", err }
	r.dead = func(job.Filter, string, int) ([]job.DeadLetter, string, error) { return nil, "", err }
	r.eachDead = err
	r.requeue = func(job.ID, string) error { return err }
	r.operate = func(string) error { return err }
	r.requeueDead = func(job.Filter, int, bool) (int, int, error) { return 0, 0, err }
	r.follow = func(context.Context, func(job.Job) error) error { return err }
	r.artifact = func() (io.ReadCloser, string, string, int64, error) { return nil, "", "", 0, err }
	r.store = func(job.Plan, int64) (job.Plan, error) { return job.Plan{}, err }
	r.queues.err, r.pauses.err, r.leases.err, r.workers.err, r.lines.err = err, err, err, err, err
	r.flows.err, r.times.err, r.batches.err = err, err, err
	r.why = func() (Why, error) { return Why{}, err }
	r.stats = func() (Stats, error) { return Stats{}, err }
	r.series = func() ([]SeriesPoint, error) { return nil, err }
	r.audit = func(bool) (Audit, error) { return Audit{}, err }
	r.ring.err, r.told.err, r.gateways.err = err, err, err
	if errors.Is(err, job.ErrNotFound) {
		r.ring.err, r.queues.err, r.gateways.err = job.ErrNoKey, job.ErrUnknownQueue, job.ErrNoKey
		r.pauses.err, r.flows.err, r.times.err = job.ErrUnknownQueue, job.ErrFlowNotFound, job.ErrNoSchedule
		r.batches.err = job.ErrNoBatch
	}
	if errors.Is(err, job.ErrWrongState) {
		r.leases.err, r.gateways.err, r.flows.err = job.ErrLeaseLost, job.ErrNoGateway, job.ErrLeaseLost
		r.times.err = job.ErrScheduleState
		r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
			return job.Accepted{}, &job.TakenError{ID: knownID}
		}
	}
	r.ready, r.health.Status = Report{Status: "OUT_OF_SERVICE"}, "DOWN"
	return r
}

// bodies has a valid body for each address.
var bodies = map[string]string{
	"/jobs": `{"type":"PAIR","payload":{"A":1}}`, "/api/jobs": `{"jobType":"PAIR","payload":{"A":1}}`,
	"/{tier}/submit/batch": `[{}]`, "/api/batches": `{"name":"import","then":{"type":"PAIR","payload":{"A":1}}}`,
	"/admin/dead/requeue": `{"limit":1}`, "/admin/tiers/{tier}": goldPlan,
	"/admin/keys": `{"name":"ci","role":"admin"}`, "/admin/schedules/{name}": aSchedule,

	"/api/worker/claim": `{"worker":"w","queues":["paid"]}`, "/api/worker/heartbeat": `{"leases":[{"lease":"v1.x"}]}`,
	"/api/worker/log":      `{"logs":[{"lease":"v1.x","lines":["a"]}]}`,
	"/api/worker/complete": `{"lease":"v1.x"}`, "/api/worker/fail": `{"lease":"v1.x"}`,
	"/api/flows":           `{"jobs":{"a":{"type":"PAIR","payload":{"A":1}}}}`,
	"/api/flows/{id}/jobs": `{"lease":"v1.x","jobs":{"a/1":{"type":"PAIR","payload":{"A":1}}}}`,
	"/api/worker/inputs":   `{"lease":"v1.x"}`,
	"/api/worker/release":  `{"lease":"v1.x"}`, "/api/worker/report": `{"reports":[{"lease":"v1.x","failed":{}}]}`,
}

// routeOf returns the route of a path as the description writes it.
func routeOf(path string) string {
	return strings.NewReplacer("{tier}", ":tier", "{id}", ":id", "{name}", ":name", "{scope}", ":scope").Replace(path)
}

// provoke makes a call that must be answered with the given status.
func provoke(t *testing.T, method, path string, status int) *httptest.ResponseRecorder {
	t.Helper()
	at := strings.NewReplacer("/keys/{id}", "/keys/"+knownKey, "{tier}", "paid", "{id}", string(knownID),
		"{name}", paidQueue, "{scope}", "all").Replace(path)
	switch path {
	case "/result/poll":
		at = pollKnown
	case "/admin/lines":
		at += "?key=acme"
	}
	body := bodies[path]
	if method == "GET" {
		body = ""
	}
	switch status {
	case 400:
		return newRooms(t).do(method, strings.Split(at, "?")[0]+"?nope=1", "")
	case 401, 403, 429:
		r := newRooms(t)
		switch d := r.behind(callers["worker"]); {
		case status == 401:
			d.err = job.ErrUnauthorized
		case status == 429:
			d.err = job.ErrRateLimited
		// The worker's key does not open this address.
		case !strings.Contains(whoMay[method+" "+routeOf(path)],
			"worker"):
		default:
			r.deps.Insecure, r.deps.Doors = false, nil
			r.Handler = NewHandler(r.deps)
		}
		return r.json(method, at, body)
	case 404:
		if path == "/api/worker/claim" {
			r := newRooms(t)
			r.behind(callers["worker"])
			return r.json(method, at, strings.Replace(body, "paid", "nowhere", 1))
		}
		if strings.HasPrefix(path, "/api/flows") || path == "/api/worker/inputs" {
			return allFailing(t, job.ErrNotFound).json(method, at, strings.Replace(body, `"type"`, `"tier":"GOLD","type"`, 1))
		}
		if method == "PUT" && path == "/admin/schedules/{name}" {
			return newRooms(t).json(method, at, strings.Replace(body, `"paid"`, `"gold"`, 1))
		}
		at = strings.Replace(at, "paid", "nowhere", 1)
		return allFailing(t, job.ErrNotFound).json(method, at, strings.Replace(body, "{", `{"tier":"GOLD",`, 1))
	case 409:
		r := allFailing(t, job.ErrWrongState)
		if path == "/api/me/gateway" { // callers of an open server need no password
			r.behind(callers["worker"])
		}
		return r.json(method, at, body)
	case 412:
		return allFailing(t, job.ErrChanged).json(method, at, body)
	case 413:
		return newRooms(t).json(method, at, strings.Repeat(" ", maxBatchBytes)+"{}")
	case 415:
		return newRooms(t).do(method, at, "x", "Content-Type", "text/plain")
	case 422:
		if path == "/admin/paused/{scope}" {
			return allFailing(t, job.ErrBadScope).json(method, at, body)
		}
		return newRooms(t).json(method, at, strings.Replace(cmp.Or(body, bodies["/jobs"]), "PAIR", "NOPE", 1))
	case 504:
		// A submit returns its job's id; any other change only loses its answer.
		r := allFailing(t, fmt.Errorf("call: %w", job.ErrAmbiguous))
		r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
			return job.Accepted{ID: knownID}, job.ErrFateUnknown
		}
		return r.json(method, at, body)
	}
	// These addresses call no store, but the doors need one to look up a session.
	if path == "/api/me" || strings.HasSuffix(path, "/gateway") || method == "GET" && (strings.HasPrefix(path, "/admin/tiers") ||
		strings.HasPrefix(path, "/admin/queues") || path == "/admin/workers") {
		r := newRooms(t)
		r.behind(callers["admin"]).err = job.ErrUnavailable
		return r.json(method, at, body)
	}
	r := allFailing(t, job.ErrUnavailable)
	a := &api{Deps: r.deps.withDefaults(), bodyLimit: 1000 + bodyMargin}
	a.batches.Store(batchMemory)
	if path == "/api/events" {
		a.streams.Store(maxStreams)
	}
	r.Handler = a.handler()
	return r.json(method, at, body)
}

// Every error that openapi.yaml lists for an operation can happen there and has the described shape, which hold
// checks for each call. A 500 can happen everywhere; other tests cause it.
func TestOpenAPI_EveryErrorCanHappen(t *testing.T) {
	t.Parallel()
	c, err := described()
	if err != nil {
		t.Fatal(err)
	}
	provoked, unknown := 0, 0
	for _, o := range c.Operations() {
		if o.Elsewhere || o.Method == "HEAD" {
			continue
		}
		// Every change may have an unknown outcome. A batch has no 504 for it: its answer says it of each entry. A worker's
		// call counts once, so that it has a 503 instead, and is sent again. A gateway's password is only shown.
		if o.Method != "GET" && o.Path != "/{tier}/submit/batch" && !strings.HasPrefix(o.Path, "/api/worker/") &&
			!strings.HasSuffix(o.Path, "/gateway") {
			unknown++
			if !slices.Contains(c.Statuses(o), 504) {
				t.Errorf("%s %s: its outcome may be unknown, and the description has no 504", o.Method, o.Path)
			}
		}
		for _, status := range c.Statuses(o) {
			if status < 400 || status == 500 {
				continue
			}
			provoked++
			if rec := provoke(t, o.Method, o.Path, status); rec.Code != status {
				t.Errorf("%s %s: %d, want %s: %.300s", o.Method, o.Path, rec.Code, strconv.Itoa(status), rec.Body)
			}
		}
	}
	if provoked < 100 || unknown < 10 {
		t.Errorf("only %d errors were provoked, of %d changes", provoked, unknown)
	}
}

// many is a payload whose check finds a thousand faults.
type many struct{}

func (many) Validate() error {
	var all []error
	for i := range 1000 {
		all = append(all, &job.PayloadError{Field: "payload.rows[" + strconv.Itoa(i) + "]", Reason: "is wrong"})
	}
	return errors.Join(all...)
}

// The answer to a payload with many faults names no more fields than openapi.yaml allows.
func TestOpenAPI_ManyWrongFields(t *testing.T) {
	t.Attr("proves", "A12")
	r := newRooms(t)
	handler.Register(r.types, "MANY", func(context.Context, many) (any, error) { return nil, nil })
	const body = `{"type":"MANY","payload":{}}`
	for _, rec := range []*httptest.ResponseRecorder{r.post(body), r.json("POST", "/paid/submit/batch", "["+body+"]")} {
		if n := strings.Count(rec.Body.String(), "is wrong"); n < 10 || n > 11 {
			t.Errorf("%d, %d fields: %.300s", rec.Code, n, rec.Body)
		}
	}
}
