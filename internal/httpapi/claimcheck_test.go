package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// bound returns a worker whose key has these queues and tiers.
func bound(queues []string, tiers ...job.Tier) job.Caller {
	return job.Caller{Key: job.Key{ID: mine, Role: job.RoleWorker, Queues: queues, Tiers: tiers}}
}

// A key that is bound to queues claims jobs of these only, and a refusal names them. A refused claim declares no queue.
func TestClaim_QueuesOfTheKey(t *testing.T) {
	t.Parallel()
	for queues, allowed := range map[string]bool{
		`"paid"`: true, `"paid","main"`: true, `"main"`: true, `"films","paid"`: true,
		`"other"`: false, `"Paid"`: false, `"films","other"`: false, `"paid","films","other"`: false,
	} {
		r := newRooms(t)
		r.behind(bound([]string{"paid", "main", "films"}))
		rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":[`+queues+`]}`)
		if allowed {
			if rec.Code != 200 || len(r.leases.claims) != 1 {
				t.Errorf("%s: %d %s", queues, rec.Code, rec.Body)
			}
			continue
		}
		wantProblem(t, rec, 403, "FORBIDDEN")
		if !strings.Contains(rec.Body.String(), "paid, main, films only") {
			t.Errorf("%s: %s", queues, rec.Body)
		}
		if r.queues.asked != nil || r.leases.claims != nil || r.leases.sights != nil {
			t.Errorf("%s: %q, %+v, %+v", queues, r.queues.asked, r.leases.claims, r.leases.sights)
		}
	}
}

// A key that is bound to tiers claims jobs of these only: all of them if the claim names none.
func TestClaim_TiersOfTheKey(t *testing.T) {
	t.Parallel()
	for tiers, want := range map[string][]job.Tier{
		"": {job.Paid, job.Unpaid}, `,"tiers":[]`: {job.Paid, job.Unpaid}, `,"tiers":null`: {job.Paid, job.Unpaid},
		`,"tiers":["UNPAID"]`: {job.Unpaid}, `,"tiers":["UNPAID","PAID"]`: {job.Unpaid, job.Paid},
		`,"tiers":["PUBLIC"]`: nil, `,"tiers":["PAID","PUBLIC"]`: nil, `,"tiers":["PAID","UNPAID","PUBLIC"]`: nil,
	} {
		r := newRooms(t)
		r.behind(bound(nil, job.Paid, job.Unpaid))
		rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid"]`+tiers+`}`)
		if want == nil {
			wantProblem(t, rec, 403, "FORBIDDEN")
			if r.leases.claims != nil || !strings.Contains(rec.Body.String(), "PAID, UNPAID only") {
				t.Errorf("%s: %+v, %s", tiers, r.leases.claims, rec.Body)
			}
			continue
		}
		if rec.Code != 200 || len(r.leases.claims) != 1 || !slices.Equal(r.leases.claims[0].Tiers, want) {
			t.Errorf("%s: %d %s, asked %+v", tiers, rec.Code, rec.Body, r.leases.claims)
		}
	}
	// The tiers of an admin's key bind its submits only.
	r := newRooms(t)
	r.behind(job.Caller{Key: job.Key{ID: mine, Role: job.RoleAdmin, Tiers: []job.Tier{job.Paid}}})
	for _, tiers := range []string{"", `,"tiers":["PUBLIC"]`} {
		if rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid"]`+tiers+`}`); rec.Code != 200 {
			t.Errorf("an admin: %d %s", rec.Code, rec.Body)
		}
	}
	if c := r.leases.claims; len(c) != 2 || c[0].Tiers != nil || !slices.Equal(c[1].Tiers, []job.Tier{job.Public}) {
		t.Errorf("an admin: %+v", c)
	}
}

// A claim whose key has tiers that cannot be claimed together is told to name some of them.
func TestClaim_TiersOfTheKeyDoNotFollowEachOther(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(bound(nil, job.Paid, job.Public))
	r.leases.err = fmt.Errorf("%w: UNPAID lies between them", job.ErrBadTiers)
	rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid"]}`)
	wantProblem(t, rec, 400, "INVALID_REQUEST", "tiers")
	if !strings.Contains(rec.Body.String(), "must name some of this key's tiers, PAID, PUBLIC: ") ||
		!strings.Contains(rec.Body.String(), "UNPAID lies between them") {
		t.Errorf("%s", rec.Body)
	}
	rec = r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid"],"tiers":["PAID","PUBLIC"]}`)
	wantProblem(t, rec, 400, "INVALID_REQUEST", "tiers")
	if strings.Contains(rec.Body.String(), "must name") {
		t.Errorf("a claim that names them: %s", rec.Body)
	}
}

// A key that names a queue declares it by its first claim, and the log of changes has that. A key without a list
// declares nothing.
func TestClaim_KeyDeclares(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(bound([]string{"films", "paid"}))
	const claim = `{"worker":"w","queues":["paid","films"]}`
	if rec := r.json("POST", "/api/worker/claim", claim); rec.Code != 200 || len(r.leases.claims) != 1 ||
		fmt.Sprint(r.queues.asked) != "["+stored(0, 0)+"]" {
		t.Errorf("%d %s, asked %q", rec.Code, rec.Body, r.queues.asked)
	}
	if c := r.told.changes; len(c) != 1 || c[0].Action != "queue.put" || c[0].Target != "films" || c[0].Actor != mine ||
		c[0].Before != nil || !strings.Contains(string(c[0].After), `"name":"films"`) || c[0].Outcome != "done" {
		t.Errorf("the log of changes has %+v", c)
	}
	r.queues.err = job.ErrChanged // another claim has declared it
	if rec := r.json("POST", "/api/worker/claim", claim); rec.Code != 200 || len(r.told.changes) != 1 {
		t.Errorf("%d %s, changes %+v", rec.Code, rec.Body, r.told.changes)
	}
	r.queues.err = fmt.Errorf("%w: at most 1000", job.ErrBadQueue)
	wantProblem(t, r.json("POST", "/api/worker/claim", claim), 400, "INVALID_REQUEST")
	if len(r.told.changes) != 1 {
		t.Errorf("a refused declaration: %+v", r.told.changes)
	}
	r.queues.err = fmt.Errorf("call: %w", job.ErrAmbiguous)
	wantProblem(t, r.json("POST", "/api/worker/claim", claim), 503, "SYSTEM_UNHEALTHY")
	if c := r.told.changes; len(c) != 2 || c[1].Outcome != "unknown" {
		t.Errorf("a declaration whose answer was lost: %+v", c)
	}
	r = newRooms(t)
	r.behind(bound(nil, job.Paid))
	wantProblem(t, r.json("POST", "/api/worker/claim", claim), 404, "UNKNOWN_QUEUE", "queues")
	if r.queues.asked != nil || r.leases.claims != nil {
		t.Errorf("%q, %+v", r.queues.asked, r.leases.claims)
	}
}

// A key that is bound to the beginning of names claims jobs of all queues whose name begins so, and declares them.
func TestClaim_PrefixesOfTheKey(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(bound([]string{"fi*"}))
	const claim = `{"worker":"w","queues":["films"]}`
	if rec := r.json("POST", "/api/worker/claim", claim); rec.Code != 200 || len(r.leases.claims) != 1 ||
		fmt.Sprint(r.queues.asked) != "["+stored(0, 0)+"]" {
		t.Errorf("%d %s, asked %q", rec.Code, rec.Body, r.queues.asked)
	}
	for _, queues := range []string{`"paid"`, `"films","paid"`, `"f"`, `"Films"`} {
		rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":[`+queues+`]}`)
		wantProblem(t, rec, 403, "FORBIDDEN")
		if !strings.Contains(rec.Body.String(), "of the queues fi* only") {
			t.Errorf("%s: %s", queues, rec.Body)
		}
	}
	// A claim names its queues: the beginning of a name is none.
	wantProblem(t, r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["fi*"]}`), 404, "UNKNOWN_QUEUE", "queues")
	if len(r.leases.claims) != 1 {
		t.Errorf("%+v", r.leases.claims)
	}
}

// A worker's key that submits is bound to its queues and tiers there too: at every address that submits, and where it
// retries its own job. Without a list it submits everywhere.
func TestSubmit_OfWorkers(t *testing.T) {
	t.Parallel()
	both := func(queues ...string) job.Caller {
		c := bound(queues, job.Paid, job.Unpaid)
		c.Key.Submits, c.Key.InFlight = true, 7
		return c
	}
	for _, c := range []struct {
		caller             job.Caller
		path, body, detail string // "" = accepted
	}{
		{both("pa*"), "/paid/submit", `{"queue":"paid"}`, ""},
		{both("pa*"), "/jobs", `{"type":"SIMULATION","payload":{},"tier":"PAID","queue":"paid"}`, ""},
		{both("main"), "/paid/submit", `{}`, ""},
		{both(), "/paid/submit", `{"queue":"paid"}`, ""},
		{both(), "/paid/submit", `{}`, ""},
		{both("pa*"), "/paid/submit", `{}`, "the queues pa* only"},
		{both("pa*"), "/paid/submit", `{"queue":"main"}`, "the queues pa* only"},
		{both("films"), "/paid/submit", `{"queue":"paid"}`, "the queues films only"},
		{both("films"), "/jobs", `{"type":"SIMULATION","payload":{},"tier":"PAID","queue":"paid"}`, "the queues films only"},
		{both("films"), "/paid/submit", `{"queue":"nowhere"}`, "the queues films only"},
		{both("pa*"), "/public/submit", `{"queue":"paid"}`, "PAID, UNPAID only"},
	} {
		r := newRooms(t)
		r.behind(c.caller)
		rec := r.json("POST", c.path, c.body)
		if c.detail == "" {
			if rec.Code != 202 && rec.Code != 201 || len(r.submitted) != 1 || r.submitted[0].Owner != mine ||
				r.submitted[0].Quota != 7 {
				t.Errorf("%+v %s: %d %s, %+v", c.caller.Key, c.body, rec.Code, rec.Body, r.submitted)
			}
			continue
		}
		wantProblem(t, rec, 403, "FORBIDDEN")
		if !strings.Contains(rec.Body.String(), c.detail) || r.submitted != nil {
			t.Errorf("%+v %s: %s, %+v", c.caller.Key, c.body, rec.Body, r.submitted)
		}
	}
	r := newRooms(t)
	r.behind(both("films"))
	r.json("POST", "/paid/submit/batch", `[{"queue":"paid"},{"queue":"films"}]`)
	if r.submitted != nil {
		t.Errorf("of a batch: %+v", r.submitted)
	}
	for queue, accepted := range map[string]bool{"films": true, "paid": false, "": false} {
		r := newRooms(t)
		r.behind(both("films"))
		r.find = func(id job.ID) (job.Job, error) {
			j := job.Job{ID: id, Tier: job.Paid, Type: "PAIR", Owner: mine, Status: job.Failed}
			j.Queue = queue
			return j, nil
		}
		asked := 0
		r.requeue = func(job.ID, string) error { asked++; return nil }
		rec := r.json("POST", jobKnown+"/retry", "")
		if accepted != (rec.Code == 202) || accepted != (asked == 1) || !accepted && rec.Code != 403 {
			t.Errorf("a retry in %q: %d %s", queue, rec.Code, rec.Body)
		}
	}
}

// A claim beyond the leases of its key is a 429 that says so, and when to come again. If it carries reports, they are
// carried out, and their answers are not lost.
func TestClaim_LeasesOfTheKey(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	caller := bound([]string{"paid"})
	caller.Key.Leases = 32
	r.behind(caller)
	r.leases.refused = &job.RateError{In: 1500 * time.Millisecond}
	r.leases.end = func(job.WorkerReport) job.WorkerEnd { return job.WorkerEnd{ID: knownID, How: job.EndCompleted} }
	rec := r.json("POST", "/api/worker/claim", `{"worker":"w","queues":["paid"]}`)
	wantProblem(t, rec, 429, "RATE_LIMITED")
	wantHeader(t, rec, "Retry-After", "2")
	if !strings.Contains(rec.Body.String(), "the workers of this key run 32 jobs") {
		t.Errorf("%s", rec.Body)
	}
	rec = r.json("POST", "/api/worker/claim",
		`{"worker":"w","queues":["paid"],"reports":[{"lease":"v1.x","completed":{"result":{}}}]}`)
	if body := rec.Body.String(); rec.Code != 200 || len(r.leases.reports) != 1 ||
		!strings.Contains(body, `"retryAfterMs":1000`) || !strings.Contains(body, `"COMPLETED"`) ||
		!strings.Contains(body, `"jobs":[]`) {
		t.Errorf("%d %s", rec.Code, body)
	}
}
