package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// fakeBatches has one batch, and remembers what it was asked.
type fakeBatches struct {
	batch    job.Batch
	made     job.Batch
	jobs     []job.Submission
	whole    bool // the batch was made by Submit
	key      job.Idempotency
	replayed bool
	members  []job.BatchMember
	asked    []string
	done     job.BatchCancel
	err      error
}

func (f *fakeBatches) Create(_ context.Context, b job.Batch, _ int, key job.Idempotency) (job.Batch, bool, error) {
	f.made, f.key = b, key
	if b.ID = knownID; f.replayed {
		b = f.batch
	}
	b.Round = 1
	return b, f.replayed, f.err
}

func (f *fakeBatches) Submit(_ context.Context, b job.Batch, jobs []job.Submission, quota int, key job.Idempotency) (
	job.Batch, []job.ID, bool, error) {
	f.jobs, f.whole = jobs, true
	b, replayed, err := f.Create(context.Background(), b, quota, key)
	ids := make([]job.ID, len(jobs))
	for i := range ids {
		ids[i] = job.BatchJobID(knownID, i, 0)
	}
	return b, ids, replayed, err
}

func (f *fakeBatches) Batch(context.Context, job.ID) (job.Batch, error) {
	if errors.Is(f.err, job.ErrAmbiguous) { // a read is not in doubt
		return f.batch, nil
	}
	return f.batch, f.err
}

func (f *fakeBatches) BatchOf(context.Context, job.ID) (job.ID, error) { return f.batch.ID, f.err }

func (f *fakeBatches) Batches(_ context.Context, owner string, all bool, cursor string, limit int) ([]job.Batch, string,
	error) {
	f.asked = append(f.asked, fmt.Sprintf("batches of %q, all %v, from %q, %d", owner, all, cursor, limit))
	return []job.Batch{f.batch}, "behind", f.err
}

func (f *fakeBatches) Members(_ context.Context, id job.ID, status *job.Status, cursor string, limit int) (
	[]job.BatchMember, string, error) {
	which := "all"
	if status != nil {
		which = fmt.Sprintf("%q", *status)
	}
	f.asked = append(f.asked, fmt.Sprintf("members of %s, %s, from %q, %d", id, which, cursor, limit))
	return f.members, "", f.err
}

func (f *fakeBatches) Seal(_ context.Context, id job.ID) (job.Batch, error) {
	f.asked = append(f.asked, "seal "+string(id))
	f.batch.Sealed = true
	return f.batch, f.err
}

func (f *fakeBatches) Cancel(_ context.Context, id job.ID, cursor string) (job.BatchCancel, error) {
	f.asked = append(f.asked, fmt.Sprintf("cancel %s from %q", id, cursor))
	return f.done, f.err
}

func aBatch(owner string) job.Batch {
	return job.Batch{ID: knownID, Name: "import", Owner: owner, Tier: job.Paid, Total: 4, Completed: 1, Round: 1,
		CreatedAt: aMoment, BatchSpec: job.BatchSpec{Then: &job.Then{
			Type: "PAIR", Payload: []byte(`{"A":1}`), Tier: job.Public, MaxRetries: 1, On: job.ThenSucceeded}}}
}

// A batch is made of a body, whose then job is checked as a submit. A type that takes the member batch gets it.
func TestBatches_Create(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	rec := r.json("POST", "/api/batches", `{"name":"import","tier":"paid","callbackUrl":"https://a.example/",
		"then":{"type":"SIMULATION","tier":"public","payload":{"x":1},"on":"succeeded"}}`, "Idempotency-Key", "k")
	if rec.Code != http.StatusCreated || rec.Header().Get("Location") != "/api/batches/"+string(knownID) {
		t.Fatalf("%d %s %v", rec.Code, rec.Body, rec.Header())
	}
	want := job.BatchSpec{CallbackURL: "https://a.example/", TraceID: r.batches.made.TraceID, Then: &job.Then{
		Type: "SIMULATION", Payload: []byte(`{"x":1}`), Tier: job.Public, MaxRetries: 1, On: job.ThenSucceeded, Counts: true}}
	if b := r.batches.made; b.Name != "import" || b.Tier != job.Paid || !reflect.DeepEqual(b.BatchSpec, want) {
		t.Errorf("made %+v, then %+v", b, b.Then)
	}
	first := r.batches.key
	if first.Key == "" || len(first.Body) != 32 {
		t.Errorf("the key is %+v", first)
	}
	r.batches.replayed, r.batches.batch = true, aBatch("")
	rec = r.json("POST", "/api/batches", `{ "name":"import"}`, "Idempotency-Key", "k")
	if r.batches.key.Key != first.Key || r.batches.key.Body == first.Body ||
		rec.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v, %v", r.batches.key, rec.Header())
	}
	rec = r.json("POST", "/api/batches", `{"name":"import","then":{"type":"PAIR","payload":{"A":1}}}`)
	if then := r.batches.made.Then; rec.Code != 201 || then.Counts || then.Tier != job.Unpaid || then.MaxRetries != 2 {
		t.Errorf("%d %s: %+v", rec.Code, rec.Body, then)
	}
	for body, field := range map[string]string{
		`{}`: "name", `{"name":""}`: "name", `{"name":"a\nb"}`: "name", `{"name":7}`: "name",
		`{"name":"` + strings.Repeat("ü", 201) + `"}`: "name", `{"name":"a","callbackUrl":"http://a"}`: "callbackUrl",
		`{"name":"a","then":{}}`: "then.type", `{"name":"a","then":[]}`: "then", `{"name":"a","nope":1}`: "nope",
		`{"name":"a","then":{"type":"PAIR","on":"never"}}`:                      "then.on",
		`{"name":"a","then":{"type":"PAIR","maxRetries":99}}`:                   "then.maxRetries",
		`{"name":"a","then":{"type":"PAIR","delaySeconds":1}}`:                  "then.delaySeconds",
		`{"name":"a","then":{"type":"PAIR","batch":"` + string(knownID) + `"}}`: "then.batch",
	} {
		wantProblem(t, r.json("POST", "/api/batches", body), 400, "INVALID_REQUEST", field)
	}
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a","tier":"gold"}`), 404, "UNKNOWN_TIER", "tier")
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a","then":{"type":"NOPE"}}`), 422, "UNKNOWN_JOB_TYPE",
		"then.type")
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a","then":{"type":"PAIR","payload":{"C":1}}}`), 422,
		"INVALID_PAYLOAD", "payload")
	r.batches.err = job.ErrMismatch
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a"}`), 422, "IDEMPOTENCY_MISMATCH")
	r.batches.err = job.ErrAmbiguous
	wantProblem(t, r.json("POST", "/api/batches", `{"name":"a"}`), 504, "OUTCOME_UNKNOWN")
}

// A batch is shown to its owner and to operators, and is unknown to others.
func TestBatches_Read(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.batches.batch = aBatch("")
	rec := r.do("GET", "/api/batches/"+string(knownID), "")
	wantJSON(t, rec, 200, `{"batchId":"`+string(knownID)+`","name":"import","tier":"PAID","state":"OPEN","round":1,`+
		`"sealed":false,"total":4,"living":3,"completed":1,"failed":0,"cancelled":0,"expired":0,"progress":0.25,`+
		`"then":{"type":"PAIR","tier":"PUBLIC","queue":"main","maxRetries":1,"on":"succeeded","payload":{"A":1}},`+
		`"thenJobId":null,"callbackUrl":null,"createdAt":"2026-05-01T11:31:57.961931Z","endedAt":null,`+
		`"cancelledAt":null,"traceId":null}`)
	for _, path := range []string{"", "/members", "/seal", "/cancel"} {
		r := newRooms(t)
		r.batches.batch = aBatch("another")
		r.behind(callers["submit"])
		method := "GET"
		if path == "/seal" || path == "/cancel" {
			method = "POST"
		}
		wantProblem(t, r.do(method, "/api/batches/"+string(knownID)+path, ""), 404, "BATCH_NOT_FOUND")
		if len(r.batches.asked) > 0 {
			t.Errorf("%s: %q", path, r.batches.asked)
		}
	}
	wantProblem(t, r.do("GET", "/api/batches/nope", ""), 400, "INVALID_REQUEST", "id")
	r.batches.members = []job.BatchMember{{ID: knownID, Generation: 1},
		{ID: knownID, Generation: 2, Status: job.Failed, EndedAt: aMoment}}
	wantJSON(t, r.do("GET", "/api/batches/"+string(knownID)+"/members?status=LIVING&cursor=x&limit=3", ""), 200,
		`{"items":[{"jobId":"`+string(knownID)+`","status":"LIVING","generation":1,"endedAt":null},{"jobId":"`+
			string(knownID)+`","status":"FAILED","generation":2,"endedAt":"2026-05-01T11:31:57.961931Z"}],"next":null}`)
	r.do("GET", "/api/batches/"+string(knownID)+"/members", "")
	r.do("GET", "/api/batches?cursor=c", "")
	want := []string{
		"members of " + string(knownID) + `, "", from "x", 3`, "members of " + string(knownID) + `, all, from "", 20`,
		`batches of "", all true, from "c", 20`,
	}
	if !reflect.DeepEqual(r.batches.asked, want) {
		t.Errorf("%q", r.batches.asked)
	}
	wantProblem(t, r.do("GET", "/api/batches/"+string(knownID)+"/members?status=PENDING", ""), 400, "INVALID_REQUEST",
		"status")
}

// A read-only key sees the host of a batch's callback, and of the payload what TIERQ_REDACT leaves.
func TestBatches_Redacted(t *testing.T) {
	t.Parallel()
	for caller, shown := range map[string]string{
		"admin": "https://a.example/in?token=t", "read-only": "https://a.example",
	} {
		r := newRooms(t)
		r.deps.Redact = map[string][]string{"PAIR": {"A"}}
		r.behind(callers[caller])
		b := aBatch("")
		b.CallbackURL, b.Sealed, b.Completed, b.EndedRound = "https://a.example/in?token=t", true, 4, 1
		r.batches.batch = b
		for _, path := range []string{"", "/" + string(knownID), "/" + string(knownID) + "/events"} {
			got := r.do("GET", "/api/batches"+path, "").Body.String()
			if !strings.Contains(got, `"callbackUrl":"`+shown+`"`) ||
				strings.Contains(got, `"A":1`) == (caller == "read-only") {
				t.Errorf("%s, %q: %s", caller, path, got)
			}
		}
	}
}

// A seal and a cancel are in the log of changes if an admin asks for them.
func TestBatches_Change(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.batches.batch = aBatch("")
	if rec := r.do("POST", "/api/batches/"+string(knownID)+"/seal", ""); rec.Code != 200 ||
		!strings.Contains(rec.Body.String(), `"sealed":true`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	r.batches.done = job.BatchCancel{Cancelled: 7, Asked: 1, Next: "on"}
	wantJSON(t, r.do("POST", "/api/batches/"+string(knownID)+"/cancel?cursor=here", ""), 200,
		`{"batchId":"`+string(knownID)+`","cancelled":7,"asked":1,"next":"on"}`)
	if want := `cancel ` + string(knownID) + ` from "here"`; r.batches.asked[1] != want {
		t.Errorf("%q", r.batches.asked)
	}
	if len(r.told.changes) != 2 || r.told.changes[0].Action != "batch.seal" || r.told.changes[1].Action != "batch.cancel" {
		t.Errorf("%+v", r.told.changes)
	}
	wantProblem(t, r.json("POST", "/api/batches/"+string(knownID)+"/seal", `{"x":1}`), 400, "INVALID_REQUEST", "x")
}

// A submit names its batch. A stranger cannot, and a unique key excludes it.
func TestBatches_Submit(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	var got []string
	r.submit = func(_ context.Context, s job.Submission) (job.Accepted, error) {
		got = append(got, s.Batch)
		return job.Accepted{ID: knownID}, nil
	}
	body := `{"batch":"` + strings.ToUpper(string(knownID)) + `"}`
	if rec := r.post(body); rec.Code != 202 || !reflect.DeepEqual(got, []string{string(knownID)}) {
		t.Errorf("%d %s %q", rec.Code, rec.Body, got)
	}
	wantProblem(t, r.post(`{"batch":"x"}`), 400, "INVALID_REQUEST", "batch")
	wantProblem(t, r.post(strings.TrimSuffix(body, "}")+`,"unique":{"key":"a"}}`), 400, "INVALID_REQUEST", "batch",
		"unique")
	for err, want := range map[error]struct {
		status int
		code   string
	}{job.ErrNoBatch: {404, "BATCH_NOT_FOUND"}, job.ErrSealed: {409, "BATCH_SEALED"}} {
		r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return job.Accepted{}, err }
		wantProblem(t, r.post(body), want.status, want.code)
	}
	stranger := newRooms(t)
	stranger.behind(callers["anonymous"])
	wantProblem(t, stranger.json("POST", "/public/submit", body), 401, "UNAUTHORIZED")
}

// The stream of a batch sends it once, and ends with it.
func TestBatches_Events(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	b := aBatch("")
	b.Then, b.Sealed, b.Completed, b.EndedRound = nil, true, 4, 1
	r.batches.batch = b
	rec := r.do("GET", "/api/batches/"+string(knownID)+"/events", "")
	got := rec.Body.String()
	if strings.Count(got, "event: batch\n") != 1 || !strings.Contains(got, `"state":"FINISHED"`) ||
		!strings.HasSuffix(got, "event: bye\ndata: {}\n\n") {
		t.Error(got)
	}
}
