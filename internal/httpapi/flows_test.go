package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/job"
)

// A flow's jobs are read with their names, what they wait for and what a submit may say.
func TestSubmitFlow(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["submit"])
	rec := r.json("POST", "/api/flows", `{"name":"demo","jobs":{"b":{"type":"PAIR","payload":{"A": 1},"tier":"PUBLIC",
		"after":["c/*","a","a"],"onFailure":"wait","delaySeconds":1.5,"maxRetries":1},"a":{},"c":{"after":[]}}}`)
	if rec.Code != 201 || rec.Header().Get("Location") != "/api/flows/"+string(knownID) {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	f := r.flows.offered[0]
	var got []string
	for i := range f.Jobs {
		j := &f.Jobs[i]
		got = append(got, fmt.Sprintf("%s %s %s %d %s after %v, %s, %s of %s", j.Name, j.Tier, j.Type, j.MaxRetries,
			j.Payload, j.After, j.OnFailure, j.Delay, j.Owner))
	}
	owner := callers["submit"].Key.ID
	want := []string{
		`b PUBLIC PAIR 1 {"A": 1} after [a c/*], wait, 1.5s of ` + owner,
		"a UNPAID SIMULATION -1  after [], cancel, 0s of " + owner,
		"c UNPAID SIMULATION -1  after [], cancel, 0s of " + owner,
	}
	if diff := cmp.Diff(want, got); diff != "" || f.Name != "demo" || f.Owner != owner || f.CreatedAt.IsZero() {
		t.Errorf("%+v (-want +got):\n%s", f, diff)
	}
}

// A flow that is not as it must be is refused before any room is asked, and the error names the job.
func TestSubmitFlow_Refusals(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                         `400 jobs: is missing`,
		`{}`:                       `400 jobs: is missing`,
		`{"jobs":{}}`:              `400 jobs: is missing`,
		`{"jobs":[]}`:              `400 jobs: must be an object`,
		`{"jobs":{"a":1}}`:         `400 jobs.a: must be an object`,
		`{"jobs":{"a b":{}}}`:      `400 jobs.a b: a job's name`,
		`{"jobs":{"a/":{}}}`:       `400 jobs.a/: a job's name`,
		`{"jobs":{"a":{},"a":{}}}`: `400 jobs.a: is there twice`,
		`{"jobs":{"a":{"unique":{"key":"k","on":"replace"}}}}`:             `400 jobs.a.unique.on: must be after`,
		`{"jobs":{"a":{"unique":{"key":"k","while":5}}}}`:                  `400 jobs.a.unique.while: must be waiting`,
		`{"jobs":{"a":{"unique":{"key":"k","maxWait":5}}}}`:                `400 jobs.a.unique.maxWait: goes with`,
		`{"jobs":{"a":{"unique":{}}}}`:                                     `400 jobs.a.unique.key: is missing`,
		`{"jobs":{"a":{"unique":"k"}}}`:                                    `400 jobs.a.unique: must be an object`,
		`{"jobs":{"a":{"batch":"` + string(knownID) + `"}}}`:               `400 jobs.a.batch: unknown field`,
		`{"jobs":{"a":{"expiresIn":5,"delaySeconds":9}}}`:                  `400 jobs.a: expiresIn: is not after`,
		`{"jobs":{"a":{"expiresAt":"2020-01-01T00:00:00Z"}}}`:              `400 jobs.a: expiresAt: is in the past`,
		`{"jobs":{"a":{"after":"b"}}}`:                                     `400 jobs.a.after: must be a list`,
		`{"jobs":{"a":{"after":["*"]}}}`:                                   `400 jobs.a.after: has an entry`,
		`{"jobs":{"a":{"onFailure":"die"}}}`:                               `400 jobs.a.onFailure: is none of`,
		`{"jobs":{"a":{"tier":"GOLD"}}}`:                                   `404 jobs.a: known tiers`,
		`{"jobs":{"a":{"type":"NOPE"}}}`:                                   `422 jobs.a: known types`,
		`{"jobs":{"a":{"type":"PAIR","payload":{"A":1},"maxRetries":99}}}`: `400 jobs.a: maxRetries: may lower`,
		`{"jobs":{"a":{"key":"k"}}}`:                                       `400 jobs.a: key: the tier UNPAID has no lines`,
		`{"jobs":{"a":{}},"name":"\n"}`:                                    `400 name: must be one line`,
		`{"jobs":{"a":{"payload":"` + strings.Repeat("x", 70000) + `"}}}`:  `413 jobs.a: the payload has`,
	} {
		r := newRooms(t)
		rec := r.json("POST", "/api/flows", body)
		got := fmt.Sprint(rec.Code, " ", rec.Body)
		code, detail, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(got, code) || !strings.Contains(got, `"detail":"`+detail) || len(r.flows.offered) > 0 {
			t.Errorf("%.100s: %.300s\nwant %s", body, got, want)
		}
	}
	var many []string
	for i := range job.MaxFlowJobs + 1 {
		many = append(many, fmt.Sprintf(`"j%d":{}`, i))
	}
	r := newRooms(t)
	if rec := r.json("POST", "/api/flows", `{"jobs":{`+strings.Join(many, ",")+`}}`); rec.Code != 400 ||
		!strings.Contains(rec.Body.String(), "at most 1000 jobs") {
		t.Errorf("%d %.300s", rec.Code, rec.Body)
	}
}

// A repeat under a key is the first flow if it says the same, and refused if it says anything else.
func TestSubmitFlow_Idempotency(t *testing.T) {
	t.Parallel()
	const body = `{"name":"demo","jobs":{"a":{},"b":{"after":["a"]}}}`
	r := newRooms(t)
	send := func(body string) (int, string, string) {
		rec := r.do("POST", "/api/flows", body, "Content-Type", "application/json", "Idempotency-Key", "k")
		return rec.Code, rec.Header().Get("Idempotency-Replayed"), rec.Body.String()
	}
	if code, again, text := send(body); code != 201 || again != "" {
		t.Fatal(code, again, text)
	}
	first := r.flows.offered[0]
	r.flows.first, r.flows.flows = &job.Flow{ID: first.ID, Request: first.Request}, []job.Flow{first}
	// Another order and other blanks say the same.
	if code, again, text := send(`{"jobs":{"b":{"after":["a","a"]},"a":{ }},"name":"demo"}`); code != 201 ||
		again != "true" ||
		!strings.Contains(text, string(first.Jobs[1].ID)) {
		t.Error(code, again, text)
	}
	for _, other := range []string{
		`{"name":"other","jobs":{"a":{},"b":{"after":["a"]}}}`, `{"name":"demo","jobs":{"a":{},"b":{}}}`,
		`{"name":"demo","jobs":{"a":{},"b":{"after":["a"],"onFailure":"run"}}}`,
		`{"name":"demo","jobs":{"a":{},"b":{"after":["a"],"maxRetries":1}}}`,
	} {
		if code, _, text := send(other); code != 422 || !strings.Contains(text, "IDEMPOTENCY_MISMATCH") {
			t.Errorf("%s: %d %s", other, code, text)
		}
	}
}

// A caller sees and cancels its own flows only; a read of the flow has the statuses of the moment.
func TestFlows_AreTheirOwners(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	mine := callers["submit"].Key.ID
	one := job.Flow{ID: knownID, Owner: mine, State: job.FlowRunning, Counts: map[job.Status]int{job.Pending: 1}}
	one.Jobs = []job.FlowJob{
		{Name: "a", Job: job.Job{ID: knownID, Status: job.Pending, Tier: job.Paid, Type: "PAIR", Generation: 1},
			OnFailure: job.FlowRuns},
	}
	r.flows.flows = []job.Flow{one}
	r.find = func(id job.ID) (job.Job, error) {
		return job.Job{ID: id, Status: job.Processing, Attempt: 2, Generation: 1}, nil
	}
	at := "/api/flows/" + string(knownID)
	r.behind(callers["submit"])
	if rec := r.do("GET", at, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), `"status":"PROCESSING"`) ||
		!strings.Contains(rec.Body.String(), `"living":1`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := r.json("POST", at+"/cancel", `{"reason":"enough"}`); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.do("GET", "/api/flows?state=STUCK", "")
	want := []string{`cancel ` + string(knownID) + ` because "enough"`, `list of ` + mine + ` STUCK  from "" at most 20`}
	if diff := cmp.Diff(want, r.flows.asked); diff != "" {
		t.Error(diff)
	}
	r.flows.flows[0].Owner, r.flows.asked = "another", nil
	for _, rec := range []int{r.do("GET", at, "").Code, r.json("POST", at+"/cancel", "").Code} {
		if rec != 404 || len(r.flows.asked) > 0 {
			t.Errorf("another's flow: %d, %v", rec, r.flows.asked)
		}
	}
	if rec := r.do("GET", "/api/flows?state=GOOD", ""); rec.Code != 400 {
		t.Error(rec.Code)
	}
}

// why says in words which jobs a WAITING job waits for.
func TestWhy_Waiting(t *testing.T) {
	t.Parallel()
	wait := func(name string, j job.Job) job.FlowWait { return job.FlowWait{Name: name, Job: j} }
	w := Why{Job: job.Job{Status: job.Waiting}, WaitsOpen: 6, WaitsAll: 9, Waits: []job.FlowWait{
		wait("resize", job.Job{Status: job.Processing, Attempt: 1}),
		wait("scan", job.Job{Status: job.Processing, Attempt: 2}),
		wait("crop", job.Job{Status: job.Scheduled, RetryCount: 1}), wait("zip", job.Job{Status: job.Failed}),
		wait("mail", job.Job{Status: job.Waiting}),
	}}
	want := "it waits for 6 of 9: resize (running), scan (attempt 2 runs), crop (failed once, tried again), " +
		"zip (ended FAILED, until it is requeued), mail (waiting), and 1 more"
	if got := w.reasons(); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
}

// A store that does not answer for the flow of an ended job holds the job's answer up for a second at most.
func TestGetJob_SlowFlows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		r.flows.hangs = true
		r.find = func(id job.ID) (job.Job, error) {
			return job.Job{ID: id, Generation: 1, Tier: job.Paid, Type: "PAIR", Status: job.Completed, ArrivedAt: aMoment}, nil
		}
		begun := time.Now()
		rec := r.do("GET", jobKnown, "")
		if took := time.Since(begun); rec.Code != 200 || took > asidePatience ||
			!strings.Contains(rec.Body.String(), `"flowId":null`) {
			t.Errorf("%d after %s: %s", rec.Code, took, rec.Body)
		}
	})
}

// The unique key of a job of a flow differs from the same key of a submit. expiresIn waits for the release, and a
// tier's longest wait does not hold.
func TestSubmitFlow_UniqueAndExpiry(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	plan, _ := r.plans.Plan(job.Paid)
	plan.MaxWait = time.Second
	r.plans.Set([]job.Plan{plan})
	at := aMoment.Add(time.Hour).Truncate(time.Second)
	rec := r.json("POST", "/api/flows", `{"jobs":{
		"a":{"tier":"PAID","unique":{"key":"k"},"expiresIn":90},
		"b":{"tier":"PAID","unique":{"key":"k","while":"waiting","on":"after"},"expiresAt":"`+at.Format(time.RFC3339)+`"}}}`)
	if rec.Code != 201 || len(r.flows.offered) != 1 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	jobs := map[string]job.FlowJob{}
	for _, j := range r.flows.offered[0].Jobs {
		jobs[j.Name] = j
	}
	a, b := jobs["a"], jobs["b"]
	if a.ExpiresIn != 90*time.Second || a.ExpiresMs != 0 || b.ExpiresIn != 0 || b.ExpiresMs != at.UnixMilli() {
		t.Errorf("%+v, %+v", a, b)
	}
	r.json("POST", "/paid/submit", `{"unique":{"key":"k"}}`)
	plain := r.submitted[len(r.submitted)-1].UniqueHash()
	if a.UniqueHash() == "" || a.UniqueHash() != b.UniqueHash() || plain == "" || plain == a.UniqueHash() {
		t.Errorf("the keys are %q, %q and of a submit %q", a.Unique, b.Unique, plain)
	}
	if !strings.HasSuffix(a.Unique, ".l") || !strings.HasSuffix(b.Unique, ".w") {
		t.Errorf("%q, %q", a.Unique, b.Unique)
	}
}
