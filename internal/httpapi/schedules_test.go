package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// scheduleBook has one schedule. It records what it is asked. Calls fail with err, also if refuse is not nil, which a
// change returns alone.
type scheduleBook struct {
	is     job.Schedule
	runs   []job.ScheduleRun
	made   string // the schedule of every job
	asked  []string
	err    error
	refuse error
}

func (b *scheduleBook) note(format string, args ...any) {
	b.asked = append(b.asked, fmt.Sprintf(format, args...))
}

func (b *scheduleBook) Schedules(context.Context) ([]job.Schedule, error) {
	if b.is.Name == "" {
		return nil, b.err
	}
	return []job.Schedule{b.is}, b.err
}

func (b *scheduleBook) Schedule(_ context.Context, name string) (job.Schedule, error) {
	s := b.is
	if s.Name == "" {
		s = storedSchedule()
	}
	s.Name = name
	return s, b.err
}

func (b *scheduleBook) ScheduleRuns(context.Context, string, int) ([]job.ScheduleRun, error) {
	return b.runs, b.err
}

func (b *scheduleBook) Next(_ *job.Schedule, after time.Time, n int) ([]time.Time, error) {
	b.note("%d after %s", n, after.Format(time.TimeOnly))
	return []time.Time{after.Add(time.Minute)}, b.err
}

func (b *scheduleBook) StoreSchedule(_ context.Context, s job.Schedule, version int64) (
	stored, was job.Schedule, err error,
) {
	b.note("%+v over %d", s, version)
	s.Version, s.Next, s.CreatedAt, s.ChangedAt = 4, aMoment, aMoment, aMoment
	return s, b.is, cmpErr(b.err, b.refuse)
}

func (b *scheduleBook) TrySchedule(_ context.Context, s job.Schedule, version int64) (job.Schedule, error) {
	b.note("try %+v over %d", s, version)
	s.Version, s.Next, s.Paused = 4, aMoment, b.is.Paused
	return s, cmpErr(b.err, b.refuse)
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *scheduleBook) DeleteSchedule(_ context.Context, name string, version int64) error {
	b.note("delete %s %d", name, version)
	return cmpErr(b.err, b.refuse)
}

func (b *scheduleBook) PauseSchedule(_ context.Context, name string, p job.SchedulePause) (
	stored, was job.Schedule, err error,
) {
	b.note("pause %s by %q because %q", name, p.By, p.Reason)
	s := b.is
	p.Since = aMoment
	s.Name, s.Paused = name, &p
	return s, b.is, cmpErr(b.err, b.refuse)
}

func (b *scheduleBook) ResumeSchedule(_ context.Context, name string) (stored, was job.Schedule, err error) {
	b.note("resume %s", name)
	s := b.is
	s.Name = name
	return s, b.is, cmpErr(b.err, b.refuse)
}

func (b *scheduleBook) RunSchedule(_ context.Context, name, request string) (job.ID, error) {
	b.note("run %s %t", name, request == "")
	if errors.Is(b.err, job.ErrAmbiguous) {
		return knownID, job.ErrFateUnknown
	}
	return knownID, cmpErr(b.err, b.refuse)
}

func (b *scheduleBook) ScheduleOfJob(context.Context, job.ID) (string, error) { return b.made, b.err }

// aSchedule is a valid body of a PUT.
const aSchedule = `{"everySeconds":60,"job":{"tier":"paid","type":"PAIR","payload":{"A":1}}}`

// stored is a schedule with every member set.
func storedSchedule() job.Schedule {
	return job.Schedule{
		Name: "nightly", Cron: "30 2 * * *", Start: aMoment, End: aMoment, Jitter: time.Minute, Overlap: job.OverlapOne,
		CatchUp: job.CatchUpAll, Owner: "k1", Version: 3,
		Next: aMoment, Last: aMoment, CreatedAt: aMoment, ChangedAt: aMoment,
		Job: job.ScheduledJob{
			Tier: job.Paid, Type: "PAIR", Payload: []byte(`{"A":1}`), Queue: "films", Line: job.LineOf("a b"), MaxRetries: 2,
			MaxRun: 90 * time.Second, Callback: "https://example.org/x?y=z", ExpiresIn: 1500 * time.Millisecond,
		},
	}
}

// A schedule is shown with what comes, and with the occurrences that were fired or missed.
func TestSchedules_Read(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	wantJSON(t, r.do("GET", "/admin/schedules", ""), 200, `{"items":[]}`)
	r.times.is = storedSchedule()
	const moment = `"2026-05-01T11:31:57.961931Z"`
	shown := `"name":"nightly","cron":"30 2 * * *","everySeconds":null,"timezone":"UTC","start":` + moment + `,"end":` +
		moment + `,"jitterSeconds":60,"overlap":"one","catchUp":"all","job":{"tier":"PAID","type":"PAIR","payload":{"A":1},` +
		`"queue":"films","key":"a b","maxRetries":2,"maxProcessingSeconds":90,"callbackUrl":"https://example.org/x?y=z",` +
		`"expiresIn":1.5},"owner":"k1","paused":null,"lastOccurrence":` + moment + `,"next":[` + moment +
		`,"2026-05-01T11:32:57.961931Z"],"version":3,"createdAt":` + moment + `,"changedAt":` + moment
	wantJSON(t, r.do("GET", "/admin/schedules", ""), 200, `{"items":[{`+shown+`}]}`)
	r.times.runs = []job.ScheduleRun{
		{Occurrence: aMoment, Through: aMoment, JobID: knownID, Living: true, At: aMoment},
		{Occurrence: aMoment, Through: aMoment, JobID: knownID, Request: "f00d", At: aMoment},
		{Occurrence: aMoment, Through: aMoment, Missed: 7, Reason: job.MissedFull, Detail: "the queue is full", At: aMoment},
		{Occurrence: aMoment, Through: aMoment, Reason: job.MissedDown, At: aMoment},
	}
	run := func(status, id, living, asked, missed, reason, detail string) string {
		return `{"occurrence":` + moment + `,"through":` + moment +
			`,"status":"` + status + `","jobId":` + id + `,"living":` +
			living + `,"asked":` + asked + `,"missed":` + missed + `,"reason":` + reason + `,"detail":` + detail + `,"at":` +
			moment + `}`
	}
	id := `"` + string(knownID) + `"`
	rec := r.do("GET", "/admin/schedules/nightly", "")
	wantJSON(t, rec, 200, `{`+shown+`,"runs":[`+run("FIRED", id, "true", "false", "null", "null", "null")+`,`+
		run("FIRED", id, "false", "true", "null", "null", "null")+`,`+
		run("MISSED", "null", "false", "false", "7", `"FULL"`, `"the queue is full"`)+`,`+
		run("MISSED", "null", "false", "false", "null", `"DOWN"`, "null")+`]}`)
	if rec.Header().Get("Etag") != `"3"` {
		t.Error(rec.Header())
	}
	r.times.asked = nil
	wantJSON(t, r.do("GET", "/admin/schedules/nightly/next", ""), 200, `{"items":["2026-05-01T11:32:57.961931Z"]}`)
	wantJSON(t, r.do("GET", "/admin/schedules/nightly/next?n=7&from=2026-05-01T13:00:00%2B01:00", ""), 200,
		`{"items":["2026-05-01T12:01:00.000000Z"]}`)
	if want := []string{"5 after 11:31:57", "7 after 12:00:00"}; !slices.Equal(r.times.asked, want) {
		t.Errorf("%q", r.times.asked)
	}
	for query, field := range map[string]string{"n=0": "n", "n=101": "n", "from=now": "from", "x=1": "x"} {
		wantProblem(t, r.do("GET", "/admin/schedules/nightly/next?"+query, ""), 400, "INVALID_REQUEST", field)
	}
	// A read-only key sees no more of the payload than of a job's.
	r.deps.Redact = map[string][]string{"PAIR": {"A"}}
	r.behind(callers["read-only"])
	body := r.do("GET", "/admin/schedules/nightly", "").Body.String()
	if !strings.Contains(body, `"payload":{"A":"***"}`) ||
		strings.Contains(body, "y=z") {
		t.Error(body)
	}
}

// A PUT stores the whole schedule for its caller, and says what is wrong with it.
func TestSchedules_Put(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["admin"])
	rec := r.json("PUT", "/admin/schedules/n", `{"cron":"0 3 * * *","timezone":"Europe/Berlin",`+
		`"start":"2026-05-01T00:00:00.123456Z",`+
		`"end":"2027-05-01T00:00:00Z","jitterSeconds":60,"overlap":"replace","catchUp":"none","job":{"type":"PAIR",`+
		`"payload":{"A":1},"maxRetries":1,"expiresIn":60,"maxProcessingSeconds":5}}`, "If-Match", `"3"`)
	if rec.Code != http.StatusOK || rec.Header().Get("Etag") != `"4"` {
		t.Fatal(rec.Code, rec.Body)
	}
	want := job.Schedule{
		Name: "n", Cron: "0 3 * * *", Timezone: "Europe/Berlin", Start: time.Date(2026, 5, 1, 0, 0, 0, 123e6, time.UTC),
		End: time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC), Jitter: time.Minute, Overlap: job.OverlapReplace,
		CatchUp: job.CatchUpNone, Owner: mine,
		Job: job.ScheduledJob{
			Tier: job.Unpaid, Type: "PAIR", Payload: []byte(`{"A":1}`), MaxRetries: 1, MaxRun: 5 * time.Second,
			ExpiresIn: time.Minute},
	}
	if len(r.times.asked) == 0 || r.times.asked[0] != fmt.Sprintf("%+v over 3", want) {
		t.Errorf("%q\nwant %+v", r.times.asked, want)
	}
	if len(r.told.changes) != 1 || r.told.changes[0].Action != "schedule.put" || r.told.changes[0].Target != "n" {
		t.Errorf("%+v", r.told.changes)
	}
	r.times.is.Version = 4 // nothing is another than before
	if rec := r.json("PUT", "/admin/schedules/n", aSchedule); rec.Code != http.StatusOK || len(r.told.changes) != 1 {
		t.Error(rec.Code, r.told.changes)
	}
	with := func(more string) string { return strings.Replace(aSchedule, `"payload"`, more+`,"payload"`, 1) }
	for body, field := range map[string]string{
		`{}`: "job", `{"job":7}`: "job", `{"job":{"tier":"paid"}}`: "job.type",
		`{"everySeconds":0,"job":{"type":"PAIR"}}`: "everySeconds",
		`{"cron":7}`: "cron", `{"cron":""}`: "cron", `{"timezone":7}`: "timezone", `{"start":"noon"}`: "start",
		`{"end":"noon"}`: "end", `{"jitterSeconds":-1}`: "jitterSeconds",
		`{"overlap":"x"}`: "overlap", `{"catchUp":""}`: "catchUp",
		`{"paused":{}}`: "paused", with(`"delaySeconds":3`): "job.delaySeconds", with(`"unique":{"key":"a"}`): "job.unique",
		with(`"runAt":"2027-05-01T00:00:00Z"`): "job.runAt", with(`"idempotencyKey":"a"`): "job.idempotencyKey",
		with(`"maxRetries":99`): "job.maxRetries", with(`"key":"acme"`): "job.key",
	} {
		wantProblem(t, r.json("PUT", "/admin/schedules/n", body), 400, "INVALID_REQUEST", field)
	}
	wantProblem(t, r.json("PUT", "/admin/schedules/n", strings.Replace(aSchedule, `"A"`, `"C"`, 1)), 422,
		"INVALID_PAYLOAD", "job.payload")
	wantProblem(t, r.json("PUT", "/admin/schedules/n", strings.Replace(aSchedule, "PAIR", "NOPE", 1)), 422,
		"UNKNOWN_JOB_TYPE", "job.type")
	wantProblem(t, r.json("PUT", "/admin/schedules/n", with(`"queue":"nowhere"`)), 422, "UNKNOWN_QUEUE", "job.queue")
	r.times.refuse = job.BadSchedule("cron", "never comes")
	wantProblem(t, r.json("PUT", "/admin/schedules/n", aSchedule), 400, "INVALID_REQUEST", "cron")
}

// A PUT with dryRun=true checks everything and answers with the schedule that would be stored. It stores and notes
// nothing.
func TestSchedules_PutTries(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["admin"])
	r.times.is = storedSchedule()
	const path = "/admin/schedules/n?dryRun=true"
	for _, paused := range []bool{false, true} {
		if r.times.asked = nil; paused {
			r.times.is.Paused = &job.SchedulePause{Since: aMoment}
		}
		rec := r.json("PUT", path, aSchedule, "If-Match", `"3"`)
		if rec.Code != http.StatusOK ||
			!strings.Contains(rec.Body.String(), `"version":4`) ||
			!strings.Contains(rec.Body.String(), `"2026-05-01T11:32:57.961931Z"`) {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if len(r.times.asked) != 2 || !strings.HasPrefix(r.times.asked[0], "try {Name:n ") ||
			!strings.HasSuffix(r.times.asked[0], "over 3") {
			t.Errorf("%q", r.times.asked)
		}
	}
	wantProblem(t, r.json("PUT", path, strings.Replace(aSchedule, `"A"`, `"C"`, 1)), 422, "INVALID_PAYLOAD", "job.payload")
	for query, field := range map[string]string{
		"dryRun=1": "dryRun", "dry=true": "dry", "dryRun=true&dryRun=true": "dryRun",
	} {
		wantProblem(t, r.json("PUT", "/admin/schedules/n?"+query, aSchedule), 400, "INVALID_REQUEST", field)
	}
	r.times.refuse = job.BadSchedule("cron", "never comes")
	wantProblem(t, r.json("PUT", path, aSchedule), 400, "INVALID_REQUEST", "cron")
	r.times.refuse = job.ErrChanged
	wantProblem(t, r.json("PUT", path, aSchedule), 412, "PRECONDITION_FAILED")
	if len(r.told.changes) > 0 {
		t.Errorf("noted: %+v", r.told.changes)
	}
	r.times.refuse = nil
	if rec := r.json("PUT", "/admin/schedules/n?dryRun=false", aSchedule); rec.Code != http.StatusOK ||
		len(r.told.changes) != 1 {
		t.Error(rec.Code, r.told.changes)
	}
	r.behind(callers["read-only"])
	if rec := r.json("PUT", path, aSchedule); rec.Code != http.StatusForbidden {
		t.Error(rec.Code, rec.Body)
	}
}

// The log of changes, which read-only keys read, has neither the payload of a schedule's jobs nor the whole address of
// their callback.
func TestSchedules_ChangesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["admin"])
	r.times.is = storedSchedule()
	if rec := r.do("GET", "/admin/schedules/n", ""); !strings.Contains(rec.Body.String(), "y=z") {
		t.Fatal(rec.Body) // an admin sees all
	}
	for _, method := range []string{"PUT", "DELETE"} {
		body := strings.Replace(aSchedule, `"payload"`, `"callbackUrl":"https://b.example/in?y=z","payload"`, 1)
		if method == "DELETE" {
			body = ""
		}
		if rec := r.json(method, "/admin/schedules/n", body); rec.Code >= 300 {
			t.Fatal(rec.Code, rec.Body)
		}
	}
	if len(r.told.changes) != 2 {
		t.Fatalf("%+v", r.told.changes)
	}
	for _, c := range r.told.changes {
		text := string(c.Before) + string(c.After)
		if strings.Contains(text, `"payload"`) || strings.Contains(text, "y=z") ||
			!strings.Contains(text, `"callbackUrl":"https://`) {
			t.Errorf("%s: %s", c.Action, text)
		}
	}
}

// Runs, pauses and deletions are in the log of changes, and those of a schedule that is not there are not.
func TestSchedules_Act(t *testing.T) {
	t.Parallel()
	r := newRooms(t)
	r.behind(callers["admin"])
	r.times.is = storedSchedule()
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		asked, action      string
	}{
		{"POST", "/n/run", "", nil, 202, "run n true", "schedule.run"},
		{"POST", "/n/run", "", []string{"Idempotency-Key", "a"}, 202, "run n false", "schedule.run"},
		{"POST", "/n/pause", `{"reason":" a fire "}`, nil, 200,
			`pause n by "` + mine + `" because "a fire"`, "schedule.pause"},
		{"POST", "/n/resume", "", nil, 200, "resume n", "schedule.resume"},
		{"DELETE", "/n", "", []string{"If-Match", `"3"`}, 204, "delete n 3", "schedule.delete"},
		{"DELETE", "/n", "", nil, 204, "delete n -1", "schedule.delete"},
	} {
		for _, err := range []error{nil, job.ErrNoSchedule, job.ErrScheduleState, job.ErrChanged} {
			r.times.asked, r.told.changes, r.times.refuse = nil, nil, err
			want := c.status
			switch {
			case errors.Is(err, job.ErrNoSchedule):
				want = http.StatusNotFound
			case errors.Is(err, job.ErrScheduleState):
				want = http.StatusConflict
			case err != nil:
				want = http.StatusPreconditionFailed
			}
			if want == http.StatusConflict && c.action != "schedule.run" && c.action != "schedule.resume" ||
				want == http.StatusPreconditionFailed && c.action == "schedule.run" {
				continue // not of this address
			}
			rec := r.json(c.method, "/admin/schedules"+c.path, c.body, c.headers...)
			if rec.Code != want || !slices.Contains(r.times.asked, c.asked) {
				t.Errorf("%s %s, %v: %d %s, asked %q", c.method, c.path, err, rec.Code, rec.Body, r.times.asked)
			}
			if noted := len(r.told.changes) == 1 &&
				r.told.changes[0].Action == c.action; noted == errors.Is(err, job.ErrNoSchedule) {
				t.Errorf("%s %s, %v: noted are %+v", c.method, c.path, err, r.told.changes)
			}
		}
	}
	r.times.refuse = nil
	wantJSON(t, r.json("POST", "/admin/schedules/n/run", ""), 202,
		`{"jobId":"`+string(knownID)+`","status":"PENDING","schedule":"n"}`)
	wantProblem(t, r.json("POST", "/admin/schedules/n/pause", `{"reason":7}`), 400, "INVALID_REQUEST", "reason")
	wantProblem(t, r.json("POST", "/admin/schedules/n/resume", `[]`), 400, "INVALID_REQUEST")
}
