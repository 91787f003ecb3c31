package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
