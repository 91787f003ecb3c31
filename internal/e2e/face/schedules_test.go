package face

import (
	"net/http"
	"testing"
)

// Without scripts a schedule is run, paused and resumed, and the page of its job leads back to it.
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
}
