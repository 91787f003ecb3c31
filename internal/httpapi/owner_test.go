package httpapi

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// aboutKnown lists the requests with which an owner can read or change one job.
var aboutKnown = [][2]string{
	{"GET", pollKnown}, {"GET", pollKnown + "&wait=20s"}, {"HEAD", pollKnown}, {"GET", "/jobs/" + string(knownID)},
	{"GET", "/api/jobs/" + string(knownID)},
	{"GET", "/jobs/" + string(knownID) + "/artifact"}, {"HEAD", "/jobs/" + string(knownID) + "/artifact"},
	{"GET", "/api/jobs/" + string(knownID) + "/why"},
	{"GET", eventsOfKnown}, {"POST", "/jobs/" + string(knownID) + "/retry"},
	{"POST", "/api/jobs/" + string(knownID) + "/cancel"},
	{"DELETE", "/api/jobs/" + string(knownID)},
}

// owned returns rooms that have one job of this owner and accept every request about it.
func owned(t *testing.T, owner string) (r *rooms, asked *[]string) {
	r, asked = newRooms(t), new([]string)
	j := done()
	j.Owner, j.Status = owner, job.Completed
	ask := func(what string) { *asked = append(*asked, what) }
	r.find = func(job.ID) (job.Job, error) { return j, nil }
	r.await = func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) { ask("wait"); return j, nil }
	r.follow = func(_ context.Context, heard func(job.Job) error) error { ask("follow"); return heard(j) }
	r.cancel = func(job.ID) (job.Word, error) { ask("cancel"); return job.WasCancelled, nil }
	r.requeue = func(job.ID, string) error { ask("requeue"); return nil }
	r.why = func() (Why, error) { ask("why"); return Why{Job: j}, nil }
	r.artifact = func() (io.ReadCloser, string, string, int64, error) {
		ask("artifact")
		return io.NopCloser(strings.NewReader("secret")), "a.csv", "text/csv", 6, nil
	}
	return r, asked
}

// A request for another caller's job gets exactly the answer for a job that does not exist, and calls no room but
// the one that finds jobs.
func TestOwner_SomebodyElsesJobIsNotThere(t *testing.T) {
	t.Attr("proves", "A01 A02")
	for _, c := range aboutKnown {
		nobody := newRooms(t)
		nobody.behind(callers["submit"])
		unknown := nobody.do(c[0], c[1], "", "X-Trace-Id", "t")
		if c[0] != "HEAD" {
			wantProblem(t, unknown, 404, "JOB_NOT_FOUND")
		}
		for name, caller := range map[string]job.Caller{"another key": callers["submit"],
			"nobody's key": callers["anonymous"]} {
			r, asked := owned(t, theirs)
			r.behind(caller)
			rec := r.do(c[0], c[1], "", "X-Trace-Id", "t")
			if rec.Code != 404 || rec.Body.String() != unknown.Body.String() || len(*asked) > 0 {
				t.Errorf("%s %s with %s: %d %s, asked to %q", c[0], c[1], name, rec.Code, rec.Body, *asked)
			}
			for header := range rec.Header() {
				if got, want := rec.Header()[header], unknown.Header()[header]; !slices.Equal(got, want) {
					t.Errorf("%s %s: header %s tells the two apart: %q, %q", c[0], c[1], header, got, want)
				}
			}
		}
	}
}

// A key may do everything with its own job, and operators what their role allows.
func TestOwner_SeesItsOwn(t *testing.T) {
	t.Attr("proves", "A01 A02")
	t.Parallel()
	for name, want := range map[string]struct {
		owner  string
		caller job.Caller
		acts   bool
	}{
		"its own":           {mine, callers["submit"], true},
		"admin":             {theirs, callers["admin"], true},
		"read-only":         {theirs, callers["read-only"], false},
		"nobody's":          {"", callers["anonymous"], true},
		"open":              {theirs, callers["open"], true},
		"open, and nobodys": {"", callers["open"], true},
	} {
		for _, c := range aboutKnown {
			r, asked := owned(t, want.owner)
			if name == "nobody's" { // a stranger may change a job only of a tier he may submit to
				found := r.find
				r.find = func(id job.ID) (job.Job, error) { j, err := found(id); j.Tier = job.Public; return j, err }
			}
			r.behind(want.caller)
			rec := r.do(c[0], c[1], "")
			changes := c[0] == "POST" || c[0] == "DELETE"
			switch {
			case changes && !want.acts:
				if rec.Code != 403 || len(*asked) > 0 {
					t.Errorf("%s: %s %s: %d, asked to %q", name, c[0], c[1], rec.Code, *asked)
				}
			case rec.Code >= 300:
				t.Errorf("%s: %s %s: %d %s", name, c[0], c[1], rec.Code, rec.Body)
			}
		}
	}
}

// The neighbours of a known id are looked up like any other id, and not found.
func TestOwner_Neighbours(t *testing.T) {
	t.Attr("proves", "A03")
	r, _ := owned(t, mine)
	known := r.find
	r.find = func(id job.ID) (job.Job, error) {
		if id == knownID {
			return known(id)
		}
		return job.Job{}, job.ErrNotFound
	}
	d := r.behind(callers["submit"])
	for i := range knownID {
		for _, digit := range "0f" {
			near := string(knownID[:i]) + string(digit) + string(knownID[i+1:])
			if knownID[i] == '-' || near == string(knownID) {
				continue
			}
			wantProblem(t, r.do("GET", "/result/poll?jobId="+near, ""), 404, "JOB_NOT_FOUND")
		}
	}
	if d.spent < 60 {
		t.Errorf("looking around cost %d", d.spent)
	}
}

// A submitter's lists have his own jobs only, an operator's everybody's.
func TestOwner_Lists(t *testing.T) {
	t.Attr("proves", "A01")
	for name, caller := range callers {
		r := newRooms(t)
		var asked []job.Filter
		r.list = func(f job.Filter, _ string, _ int) ([]job.Job, string, error) {
			asked = append(asked, f)
			return nil, "", nil
		}
		r.behind(caller)
		if rec := r.do("GET", "/api/jobs?tier=paid", ""); rec.Code != 200 {
			continue
		}
		if rec := r.do("GET", "/jobs/dead", ""); rec.Code != 200 {
			t.Errorf("%s: %d", name, rec.Code)
		}
		asked = append(asked, r.deadPages...)
		for _, f := range asked {
			if operator := caller.Operator(); operator != (f.Owner == nil) || !operator && *f.Owner != mine {
				t.Errorf("%s: asked for the jobs of %v", name, f.Owner)
			}
		}
		if len(asked) != 2 || asked[0].Tier != job.Paid {
			t.Errorf("%s: asked %+v", name, asked)
		}
	}
	r := newRooms(t)
	r.behind(callers["submit"])
	wantProblem(t, r.do("GET", "/api/jobs?owner="+theirs, ""), 400, "INVALID_REQUEST", "owner")
}

// Two callers who use the same Idempotency-Key for a retry make two requests.
func TestOwner_RequeueKeys(t *testing.T) {
	t.Attr("proves", "A59")
	var ids []string
	for _, owner := range []string{mine, theirs, mine} {
		r, _ := owned(t, owner)
		r.requeue = func(_ job.ID, id string) error { ids = append(ids, id); return nil }
		caller := callers["submit"]
		caller.Key.ID = owner
		r.behind(caller)
		if rec := r.do("POST", "/jobs/"+string(knownID)+"/retry", "", "Idempotency-Key", "k"); rec.Code != 202 {
			t.Fatal(rec.Code, rec.Body)
		}
	}
	if ids[0] == ids[1] || ids[0] != ids[2] {
		t.Errorf("%q", ids)
	}
}
