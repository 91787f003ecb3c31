package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// schedule7 is the form of opsSchedule as it was shown, with these changes.
func schedule7(changes ...string) url.Values {
	form := url.Values{
		"name": {"night.ly"}, "version": {"7"}, "do": {"store"}, "cron": {"30 2 * * *"}, "everySeconds": {""},
		"timezone": {"Europe/Berlin"}, "jitterSeconds": {"60"}, "overlap": {"skip"}, "catchUp": {"last"}, "tier": {"UNPAID"},
		"type": {"REPORT"}, "queue": {"main"}, "payload": {"{\r\n  \"kind\": \"jobs\"\r\n}"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return form
}

const (
	scheduleEdit = "/dashboard/schedules/edit"
	getNightly   = "GET /admin/schedules/night.ly"
	putNightly   = "PUT /admin/schedules/night.ly"
)

// newScheduleForm is an API that stores every schedule as version 8.
func newScheduleForm() *ops {
	o := newSchedules()
	o.says(putNightly, 200, strings.Replace(opsSchedule, `"version":7`, `"version":8`, 1))
	return o
}

func TestScheduleForm_IsShown(t *testing.T) {
	o := newScheduleForm()
	w := o.open(t, scheduleEdit+"?name=night.ly", nil)
	o.did(t, getNightly)
	holds(t, w, 200, "schedule, version 7", `name="name" value="night.ly"`, `name="version" value="7"`,
		`name="cron" value="30 2 * * *"`, `name="everySeconds" value=""`, `name="timezone" value="Europe/Berlin"`,
		`name="jitterSeconds" value="60"`, `<option value="skip" selected>`, `<option value="last" selected>`,
		`<option selected>UNPAID</option>`, `<option selected>REPORT</option>`, `name="queue" value="main"`,
		"{\n  &#34;kind&#34;: &#34;jobs&#34;\n}</textarea>", "2026-11-23", "Mon 02:30:00 CET", "later by a part of 60 s",
		`value="store"`, `value="preview"`, "The key that stores a schedule owns it")
	lacks(t, w, `id="name"`, "stay as they are")
	o.says(getNightly, 200, strings.NewReplacer(`"paused":null`, `"paused":{"since":"2026-11-22T19:00:00Z"}`,
		`"Europe/Berlin"`, `"UTC"`, `"maxRetries":null`, `"maxRetries":0`, `"start":null`, `"start":"2026-11-01T00:00:00Z"`).
		Replace(opsSchedule))
	w = o.open(t, scheduleEdit+"?name=night.ly", nil)
	holds(t, w, 200, `name="timezone" value=""`, "These stay as they are: start, the number of retries.",
		"press “Show what will fire”")
	w = o.open(t, "/dashboard/schedules/new", nil)
	o.did(t)
	holds(t, w, 200, `id="name"`, `name="version" value="0"`, `<option selected>UNPAID</option>`, "New schedule")
	holds(t, o.open(t, "/dashboard/schedules", nil), 200, `href="/dashboard/schedules/new"`)
	holds(t, o.open(t, "/dashboard/schedules/one?name=night.ly", nil), 200,
		`href="/dashboard/schedules/edit?name=night.ly"`)
	holds(t, o.open(t, scheduleEdit+"?name=a%2Fb", nil), 404, "no such schedule")

	// Callers who may not change schedules get no form, and their forms do nothing.
	for me, status := range map[string]int{
		`{"open":false,"name":"eve","role":"read-only","operator":true}`: 403, `{"open":false,"name":null}`: 303,
	} {
		o.says("GET /api/me", 200, me)
		lacks(t, o.open(t, "/dashboard/schedules", nil), "/dashboard/schedules/new")
		lacks(t, o.open(t, "/dashboard/schedules/one?name=night.ly", nil), scheduleEdit)
		for path, form := range map[string]url.Values{
			scheduleEdit: schedule7(), scheduleEdit + "?name=night.ly": nil, "/dashboard/schedules/new": nil,
		} {
			if w := o.open(t, path, form); w.Code != status || strings.Contains(w.Body.String(), `id="schedule"`) {
				t.Errorf("%s: %d", path, w.Code)
			}
			for _, call := range o.asked {
				if !strings.HasPrefix(call, "GET ") {
					t.Errorf("%s asked %s", path, call)
				}
			}
		}
	}
}

// The form stores its values in place of the version that was shown, and keeps the members that it has no field for.
func TestScheduleForm_Stores(t *testing.T) {
	const rest = `"job":{"tier":"UNPAID","type":"REPORT","payload":{"kind":"jobs"},"queue":"main"`
	const nightly = `"cron":"30 2 * * *","timezone":"Europe/Berlin","jitterSeconds":60,"overlap":"skip","catchUp":"last",`
	for name, tc := range map[string]struct {
		form url.Values
		sent string
	}{
		"as it is": {schedule7(), nightly + rest},
		"every": {schedule7("cron", "", "everySeconds", " 90 ", "timezone", "", "jitterSeconds", "0"),
			`"everySeconds":90,"overlap":"skip","catchUp":"last",` + rest},
		"the job": {schedule7("tier", "PAID", "type", "NEW", "queue", "", "payload", ` {"a":"<b>"} `),
			nightly + `"job":{"tier":"PAID","type":"NEW","payload":{"a":"<b>"}`},
		"no payload": {schedule7("payload", " "), nightly + strings.Replace(rest, `"payload":{"kind":"jobs"},`, "", 1)},
		"the rules": {schedule7("overlap", "one", "catchUp", "all"),
			strings.NewReplacer("skip", "one", "last", "all").Replace(nightly) + rest},
	} {
		t.Run(name, func(t *testing.T) {
			o := newScheduleForm()
			o.says(getNightly, 200, strings.NewReplacer(`"maxRetries":null`, `"maxRetries":0`, `"key":null`, `"key":"acme"`,
				`"end":null`, `"end":"2027-01-01T00:00:00Z"`).Replace(opsSchedule))
			sent := strings.NewReplacer(`"jitterSeconds"`, `"end":"2027-01-01T00:00:00Z","jitterSeconds"`,
				`90,"overlap"`, `90,"end":"2027-01-01T00:00:00Z","overlap"`).Replace(tc.sent)
			w := o.open(t, scheduleEdit, tc.form)
			goes(t, w, "/dashboard/schedules/one", "done", "stored as version 8")
			goes(t, w, "/dashboard/schedules/one", "name", "night.ly")
			o.did(t, getNightly, putNightly+` if "7" {`+sent+`,"key":"acme","maxRetries":0}}`)
			tc.form.Set("do", "preview")
			w = o.open(t, scheduleEdit, tc.form)
			holds(t, w, 200, "2026-11-23", `name="version" value="7"`)
			o.did(t, getNightly, putNightly+`?dryRun=true if "7" {`+sent+`,"key":"acme","maxRetries":0}}`)
		})
	}
	// A new schedule must have a new name.
	o := newScheduleForm()
	fresh, put := "", o.replies[putNightly]
	o.replies[putNightly] = func(r *http.Request, body string) (int, any) {
		fresh = r.Header.Get("If-None-Match")
		return put(r, body)
	}
	goes(t, o.open(t, scheduleEdit, schedule7("version", "0")), "/dashboard/schedules/one", "name", "night.ly")
	o.did(t, putNightly+" {"+nightly+rest+"}}")
	if fresh != "*" {
		t.Errorf("If-None-Match is %q", fresh)
	}
	o.refuses(putNightly, 412, "PRECONDITION_FAILED", "Another caller changed it in the meantime.")
	holds(t, o.open(t, scheduleEdit, schedule7("version", "0")), 412,
		`id="wrong-name"><p class="wrong">name: there is a schedule of this name already`, `name="version" value="0"`)
}

func TestScheduleForm_WhatIsWrongStandsBesideItsField(t *testing.T) {
	o := newScheduleForm()
	for _, tc := range []struct{ field, typed, want string }{
		{"everySeconds", "x", "everySeconds: must be a whole number, 0 or more"},
		{"everySeconds", "0", "everySeconds: must be 1 or more"},
		{"jitterSeconds", evilText, "jitterSeconds: must be a whole number, 0 or more"},
		{"payload", "{} {}", "payload: is not JSON"},
		{"payload", evilText, "payload: is not JSON"},
	} {
		for do, status := range map[string]int{"store": 400, "preview": 200} {
			w := o.open(t, scheduleEdit, schedule7(tc.field, tc.typed, "do", do))
			o.did(t, getNightly)
			holds(t, w, status, `aria-describedby="wrong-`+tc.field+`"`, `id="wrong-`+tc.field+`"><p class="wrong">`+tc.want)
			lacks(t, w, "<script>alert")
		}
	}
	w := o.open(t, scheduleEdit, schedule7("version", "0", "name", "a b"))
	o.did(t)
	holds(t, w, 400, `id="wrong-name"><p class="wrong">name: has 1 to 80`, `value="a b"`)
	holds(t, o.open(t, scheduleEdit, schedule7("name", "a b")), 404, "no such schedule")

	o.says(putNightly, 400, `{"status":400,"errorCode":"INVALID_REQUEST","detail":"not valid","errors":[`+
		`{"field":"cron","reason":"never comes"},{"field":"job.payload.to","reason":"is missing"},`+
		`{"field":"job.callbackUrl","reason":"is no address"}]}`)
	for do, status := range map[string]int{"store": 400, "preview": 200} {
		holds(t, o.open(t, scheduleEdit, schedule7("do", do)), status, `id="wrong-cron"><p class="wrong">cron: never comes`,
			`id="wrong-payload"><p class="wrong">payload.to: is missing`, `<p class="wrong">callbackUrl is no address`,
			"Not known: cron never comes", `name="jitterSeconds" value="60"`)
	}
	o.refuses(putNightly, 404, "UNKNOWN_TIER", "there is no tier")
	holds(t, o.open(t, scheduleEdit, schedule7("tier", "GOLD")), 404, "tier: there is no such tier",
		"<option selected>GOLD</option>")
	for status, detail := range map[int]string{403: "the role read-only may not do this", 503: "a store is away",
		504: "The schedule may or may not be changed"} {
		o.refuses(putNightly, status, "X", detail)
		for _, do := range []string{"store", "preview"} {
			holds(t, o.open(t, scheduleEdit, schedule7("do", do)), status, detail, `name="cron" value="30 2 * * *"`)
		}
	}
	o.refuses(getNightly, 503, "SYSTEM_UNHEALTHY", "a store is away")
	holds(t, o.open(t, scheduleEdit, schedule7()), 503, "a store is away")
	o.says("GET /api/me", 200, `{"open":false,"name":null}`)
	goes(t, o.open(t, scheduleEdit, schedule7()), "/login", "next", "/dashboard/schedules")
}

// If another version was stored meanwhile, nothing is stored, and the typed values stay in the form.
func TestScheduleForm_AStaleVersion(t *testing.T) {
	o := newScheduleForm()
	for do, status := range map[string]int{"store": 412, "preview": 200} {
		w := o.open(t, scheduleEdit, schedule7("cron", "1 1 * * *", "version", "6", "do", do))
		o.did(t, getNightly)
		holds(t, w, status, "Another caller changed this schedule", `name="cron" value="1 1 * * *"`,
			`name="version" value="7"`, "What is stored now", ">30 2 * * *</dd>")
	}
	looks := 0
	o.replies[getNightly] = func(*http.Request, string) (int, any) {
		if looks++; looks == 1 {
			return 200, json.RawMessage(opsSchedule)
		}
		return 200, json.RawMessage(strings.NewReplacer(`"version":7`, `"version":8`, `30 2 *`, `45 2 *`).
			Replace(opsSchedule))
	}
	o.refuses(putNightly, 412, "PRECONDITION_FAILED", "Another caller changed it in the meantime.")
	holds(t, o.open(t, scheduleEdit, schedule7("cron", "1 1 * * *")), 412, "Another caller changed this schedule",
		`name="cron" value="1 1 * * *"`, `name="version" value="8"`, "What is stored now", ">45 2 * * *</dd>")
	o.refuses(getNightly, 404, "UNKNOWN_SCHEDULE", "There is no such schedule.")
	holds(t, o.open(t, scheduleEdit, schedule7("cron", "1 1 * * *")), 412, "Another caller deleted this schedule",
		`name="cron" value="1 1 * * *"`, `name="version" value="0"`, `id="name" name="name" value="night.ly"`)
	o.did(t, getNightly)
}
