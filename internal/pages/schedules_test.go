package pages

import (
	"net/http"
	"net/url"
	"testing"
)

// opsSchedule is the API's answer about a schedule.
const opsSchedule = `{"name":"night.ly","cron":"30 2 * * *","everySeconds":null,` +
	`"timezone":"Europe/Berlin","start":null,` +
	`"end":null,"jitterSeconds":60,"overlap":"skip","catchUp":"last","job":{"tier":"UNPAID","type":"REPORT",` +
	`"payload":{"kind":"jobs"},"queue":"main","key":null,` +
	`"maxRetries":null,"maxProcessingSeconds":null,"callbackUrl":null,` +
	`"expiresIn":null},"owner":"k1","paused":null,` +
	`"lastOccurrence":"2026-11-22T19:00:00Z","next":["2026-11-23T01:30:00Z",` +
	`"2026-11-24T01:30:00Z"],"version":7,"runs":[{"occurrence":"2026-11-22T19:00:00Z","through":"2026-11-22T19:00:00Z",` +
	`"status":"FIRED","jobId":"019de340-01fe-7a58-be69-567cd7d6b700",` +
	`"living":true,"asked":true,"missed":null,"reason":null,` +
	`"detail":null},` +
	`{"occurrence":"2026-11-20T19:00:00Z","through":"2026-11-21T19:00:00Z","status":"MISSED","jobId":null,` +
	`"living":false,"asked":false,"missed":2,"reason":"DOWN","detail":"no server fired it in time"}]}`

func newSchedules() *ops {
	o := newOps()
	o.says("GET /admin/schedules", 200, `{"items":[`+opsSchedule+`]}`)
	o.says("GET /admin/schedules/night.ly", 200, opsSchedule)
	return o
}

func TestSchedules_AreShown(t *testing.T) {
	o := newSchedules()
	w := o.open(t, "/dashboard/schedules", nil)
	o.did(t, "GET /admin/schedules")
	holds(t, w, 200, "<b>1</b> schedule<", `href="/dashboard/schedules/one?name=night.ly">night.ly<`, "30 2 * * *",
		"Europe/Berlin", "REPORT", "01:30:00", "19:00:00", `href="/dashboard/schedules" aria-current="page"`)
	o.says("GET /admin/schedules", 200, `{"items":[]}`)
	holds(t, o.open(t, "/dashboard/schedules", nil), 200, "No schedule makes jobs.")
	o.refuses("GET /admin/schedules", 403, "FORBIDDEN", "the role submit may not do this")
	holds(t, o.open(t, "/dashboard/schedules", nil), 403, "the role submit may not do this")
}

func TestSchedule_IsShown(t *testing.T) {
	o := newSchedules()
	w := o.open(t, "/dashboard/schedules/one?name=night.ly", nil)
	holds(t, w, 200, "schedule, version 7", "2026-11-24", `href="/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b700"`,
		"asked for", "living", "2 missed: no server fired it in time", "DOWN", `value="run"`, `value="pause"`)
	lacks(t, w, `value="resume"`)
	o.says("GET /api/me", 200, `{"open":false,"name":"eve","role":"read-only","operator":true}`)
	lacks(t, o.open(t, "/dashboard/schedules/one?name=night.ly", nil), `value="run"`)
	o.refuses("GET /admin/schedules/x", 404, "UNKNOWN_SCHEDULE", "There is no such schedule.")
	holds(t, o.open(t, "/dashboard/schedules/one?name=x", nil), 404, "no such schedule")
	holds(t, o.open(t, "/dashboard/schedules/one?name=a%2Fb", nil), 404, "no such schedule")
}

func TestSchedule_IsActedOn(t *testing.T) {
	for do, tc := range map[string]struct{ sent, done string }{
		"run":    {"POST /admin/schedules/night.ly/run", "was made now"},
		"pause":  {`POST /admin/schedules/night.ly/pause {"reason":"a fire"}`, "is paused"},
		"resume": {"POST /admin/schedules/night.ly/resume", "is resumed"},
	} {
		o, form := newSchedules(), url.Values{"name": {"night.ly"}, "do": {do}, "reason": {"a fire"}}
		o.says("POST /admin/schedules/night.ly/"+do, 200, `{}`)
		w := o.open(t, "/dashboard/schedules/one", form)
		goes(t, w, "/dashboard/schedules/one", "done", tc.done)
		goes(t, w, "/dashboard/schedules/one", "name", "night.ly")
		o.did(t, tc.sent)
		o.refuses("POST /admin/schedules/night.ly/"+do, http.StatusConflict, "INVALID_STATE_TRANSITION", "the job lives")
		holds(t, o.open(t, "/dashboard/schedules/one", form), 409, "the job lives", "night.ly")
		o.refuses("POST /admin/schedules/night.ly/"+do, http.StatusNotFound, "UNKNOWN_SCHEDULE", "There is none.")
		holds(t, o.open(t, "/dashboard/schedules/one", form), 404)
	}
	o := newSchedules()
	holds(t, o.open(t, "/dashboard/schedules/one", url.Values{"name": {"night.ly"}, "do": {"nothing"}}), 400, "night.ly")
}
