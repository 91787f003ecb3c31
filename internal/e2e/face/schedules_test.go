package face

import (
	"net/http"
	"strings"
	"testing"
)

// Without scripts a schedule is run, paused, resumed and changed, and the page of its job leads back to it.
func TestWithoutScripts_ASchedule(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t)
	const path = "/admin/schedules/nightly-report"
	s.want(http.StatusOK, nil, http.MethodPut, path, `{"cron":"30 2 * * *","timezone":"Europe/Berlin","overlap":"allow",`+
		`"job":{"type":"REPORT","payload":{"kind":"jobs","format":"csv"}}}`)
	var now struct {
		Paused *struct{ Reason string }
		Runs   []struct{ JobID string }
	}
	tab := plain(t)
	login(tab, s, theAdmin)
	tab.Open(s.base + "/dashboard")
	tab.Click("a[href='/dashboard/schedules']")
	tab.Click("a[href='/dashboard/schedules/one?name=nightly-report']")
	tab.Click("button[name=do][value=run]")
	tab.WaitText("main > .note", "A job of the schedule was made now", alive)
	s.want(http.StatusOK, &now, http.MethodGet, path, "")
	if len(now.Runs) != 1 {
		t.Fatalf("%+v", now)
	}
	seen(t, tab, "a schedule")
	tab.Type("#reason", "a migration")
	tab.Click("button[name=do][value=pause]")
	tab.WaitText("main > .note", "The schedule is paused", alive)
	s.want(http.StatusOK, &now, http.MethodGet, path, "")
	if now.Paused == nil || now.Paused.Reason != "a migration" {
		t.Errorf("%+v", now)
	}
	seen(t, tab, "a paused schedule")
	tab.Click("button[name=do][value=resume]")
	tab.WaitText("main > .note", "The schedule is resumed", alive)
	s.await(now.Runs[0].JobID, "COMPLETED")
	tab.Click("a[href='/poll?jobId=" + now.Runs[0].JobID + "']")
	tab.Click("a[href='/dashboard/schedules/one?name=nightly-report']")
	tab.WaitText("main", "asked for", alive)

	tab.Allow("/dashboard/schedules/edit: 400 ", "/dashboard/schedules/edit: 412 ", "/dashboard/schedules/edit: 422 ")
	changeASchedule(t, s, tab, func() { tab.Click("button[name=do][value=preview]") }, func(what string) {
		seen(t, tab, what)
	})
}

// changeASchedule makes a schedule with the form and changes it. preview asks for the next occurrences, and look looks
// at the page.
func changeASchedule(t *testing.T, s *site, tab user, preview func(), look func(what string)) {
	t.Helper()
	const store, path = "button[name=do][value=store]", "/admin/schedules/hourly"
	tab.Open(s.base + "/dashboard/schedules")
	tab.Click("a[href='/dashboard/schedules/new']")
	tab.Type("#name", "hourly")
	tab.Type("#cron", "99 * * * *")
	tab.Type("#jitterSeconds", "some")
	tab.Type("#payload", `{"steps":[{"type":"LOG","message":"<b>"}]`)
	tab.Click(store)
	tab.WaitText("#wrong-payload", "is not JSON", alive)
	tab.WaitText("#wrong-jitterSeconds", "must be a whole number", alive)
	look("wrong fields")
	tab.Type("#payload", `{"steps":[{"type":"LOG","message":"<b>"}]}`)
	tab.Type("#jitterSeconds", "0")
	tab.Click(store)
	tab.WaitText("#wrong-cron", "cron", alive)
	tab.Type("#cron", "30 * * * *")
	preview()
	tab.WaitText("#preview", ":30:00", alive)
	if a := s.ask(http.MethodGet, path, ""); a.status != http.StatusNotFound {
		t.Errorf("a preview stored %s", a.body)
	}
	tab.Click(store)
	tab.WaitText("main > .note", "The schedule is stored as version 1", alive)

	tab.Click("a[href='/dashboard/schedules/edit?name=hourly']")
	tab.Type("#jitterSeconds", "30")
	tab.Type("#timezone", "Asia/Kolkata")
	preview()
	tab.WaitText("#preview", ":30:00 IST", alive)
	s.want(http.StatusOK, nil, http.MethodPut, path, `{"everySeconds":600,"job":{"type":"SIMULATION","maxRetries":2}}`)
	tab.Click(store)
	tab.WaitText("main > .note", "Another caller changed this schedule", alive)
	look("what another caller stored")
	var now struct {
		Cron, Timezone string
		Version        int
		JitterSeconds  int
		EverySeconds   int
		Job            struct {
			MaxRetries int
			Payload    struct{ Steps []struct{ Message string } }
		}
	}
	if s.want(http.StatusOK, &now, http.MethodGet, path, ""); now.EverySeconds != 600 || now.Version != 2 {
		t.Errorf("it was overwritten: %+v", now)
	}
	tab.Click(store)
	tab.WaitText("main > .note", "The schedule is stored as version 3", alive)
	now.EverySeconds = 0
	s.want(http.StatusOK, &now, http.MethodGet, path, "")
	if now.Cron != "30 * * * *" || now.Timezone != "Asia/Kolkata" || now.JitterSeconds != 30 || now.Job.MaxRetries != 2 ||
		len(now.Job.Payload.Steps) != 1 || now.Job.Payload.Steps[0].Message != "<b>" {
		t.Errorf("stored is %+v", now)
	}
	a := s.ask(http.MethodGet, "/admin/audit?limit=100", "")
	if n := strings.Count(a.body, `"target":"hourly"`); n != 3 {
		t.Errorf("%d changes are noted: %s", n, a.body)
	}
}
