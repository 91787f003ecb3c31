package face

import (
	"net/http"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// film is a worker of another program. It has one lease.
type film struct {
	s         *site
	id, lease string
}

// queue declares the queue of the film's jobs.
func (s *site) queue() {
	s.t.Helper()
	s.want(http.StatusOK, nil, http.MethodPut, "/admin/queues/pictures", "{}")
}

// film claims a job of the queue pictures.
func (s *site) film() film {
	s.t.Helper()
	var got struct {
		Jobs []struct{ JobID, Lease string }
	}
	s.want(http.StatusOK, &got, http.MethodPost, "/api/worker/claim",
		`{"worker":"film.1","queues":["pictures"],"leaseSeconds":600,"wait":"30s"}`)
	if len(got.Jobs) != 1 {
		s.t.Fatalf("claimed %+v", got)
	}
	return film{s, got.Jobs[0].JobID, got.Jobs[0].Lease}
}

// told is a job that runs for 600 s, and has told the progress 45,000 of 90,000.
func (s *site) told() film {
	s.t.Helper()
	s.queue()
	s.submit("paid", `{"type":"RESIZE","queue":"pictures"}`)
	f := s.film()
	f.tells(`{"done":45000,"total":90000,"note":"rows of the first half"}`)
	return f
}

// tells says how far the job is.
func (f film) tells(progress string) {
	f.s.t.Helper()
	var got struct{ Leases []struct{ Word string } }
	f.s.want(http.StatusOK, &got, http.MethodPost, "/api/worker/heartbeat",
		`{"worker":"film.1","leases":[{"lease":"`+f.lease+`","extendSeconds":600,"progress":`+progress+`}]}`)
	if len(got.Leases) != 1 || got.Leases[0].Word != "OK" {
		f.s.t.Fatalf("the heartbeat: %+v", got)
	}
}

func (f film) completes() {
	f.s.t.Helper()
	f.s.want(http.StatusOK, nil, http.MethodPost, "/api/worker/complete", `{"lease":"`+f.lease+`"}`)
}

// moving makes a flow whose second job runs on.
func (s *site) moving() string {
	s.t.Helper()
	var made struct {
		FlowID string
		Jobs   map[string]string
	}
	s.want(http.StatusCreated, &made, http.MethodPost, "/api/flows", `{"name":"picture 4712","jobs":{"split":`+
		`{"tier":"PAID"},"scan":{"tier":"PAID","after":["split"],"payload":{"steps":[{"type":"SLEEP","durationMs":`+
		`300000}]}},"publish":{"tier":"PAID","after":["scan"]}}}`)
	s.await(made.Jobs["scan"], "PROCESSING")
	return made.FlowID
}

// The dashboard shows how far a running job is, and follows it. A flow's page follows its flow without a reload, and
// leaves focus, typed text and scroll as they are. It asks no more when the flow has ended.
func TestProgressAndFlow_Live(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	progressAndFlowLive(t, s, tab)

	// The form of a schedule shows the next occurrences while it is filled in.
	tab.Open(s.base + "/dashboard/schedules/new")
	tab.Type("#name", "hourly")
	tab.Type("#cron", "30 * * * *")
	tab.WaitText("#preview", ":30:00", alive)
	tab.Type("#cron", "99 * * * *")
	tab.WaitText("#preview", "Not known: cron", alive)
}

func progressAndFlowLive(t *testing.T, s *site, tab user) {
	t.Helper()
	f := s.told()
	tab.Open(s.base + "/dashboard")
	reads(t, tab, "#live-text", "live")
	reads(t, tab, `#leases [data-f="howtext"]`, "50 %")
	f.tells(`{"done":81000,"total":90000}`)
	reads(t, tab, `#leases [data-f="howtext"]`, "90 %")
	var width string
	if tab.Eval(`document.querySelector('#leases [data-f="howbar"]').getAttribute("width")`, &width); width != "90.0" {
		t.Errorf("the bar is %s wide", width)
	}
	f.tells(`{"done":81000}`)
	reads(t, tab, `#leases [data-f="howtext"]`, "81,000 done")
	f.completes()

	var made struct{ FlowID string }
	s.want(http.StatusCreated, &made, http.MethodPost, "/api/flows", `{"jobs":{"split":{"type":"CUT","queue":"pictures"},`+
		`"publish":{"type":"PUBLISH","queue":"pictures","after":["split/*"]},"mail":{"after":["publish"]}}}`)
	tab.View(390, 500, false)
	tab.Open(s.base + "/flows/" + made.FlowID)
	reads(t, tab, "#following", "following")
	stays(tab)
	tab.Type(".why", "a reason")
	const place = `(() => { const p = document.querySelector("[data-key=drawing]"); return [document.activeElement.name,
		document.activeElement.value, p.scrollLeft, scrollY].join(); })()`
	var was, now string
	tab.Eval(`(document.querySelector("[data-key=drawing]").scrollLeft = 70, scrollTo(0, 90), 0)`, nil)
	tab.Eval(place, &was)
	if was != "reason,a reason,70,90" {
		t.Fatalf("before: %s", was)
	}
	split := s.film()
	s.want(http.StatusOK, nil, http.MethodPost, "/api/flows/"+made.FlowID+"/jobs", `{"lease":"`+split.lease+
		`","jobs":{"split/1":{"type":"CUT","queue":"pictures"}}}`)
	tab.WaitText("[data-key=jobs]", "split/1", alive)
	split.completes()
	tab.WaitText("[data-key=head]", "1 of 4 completed", alive)
	s.film().completes()
	tab.WaitText("[data-key=head]", "2 of 4 completed", alive)
	if tab.Eval(place, &now); now != was {
		t.Errorf("before: %s, now: %s", was, now)
	}
	var names string
	tab.Eval(`[...document.querySelectorAll(".flowname")].map((e) => e.textContent).join()`, &names)
	if names != "split,split/1,publish,mail" {
		t.Errorf("the rows are %s", names)
	}
	s.want(http.StatusOK, nil, http.MethodPost, "/api/flows/"+made.FlowID+"/cancel", "")
	tab.WaitText(".st", "CANCELLED", alive)
	stayed(t, tab)
	const asked = `performance.getEntriesByType("resource").filter((e) => e.name === location.href).length`
	var before, after int
	tab.Eval(asked, &before)
	// The page of a living flow reads the flow at once when the page comes to the front.
	tab.Eval(`(document.dispatchEvent(new Event("visibilitychange")), fetch("/livez").then(() => 0))`, nil)
	if tab.Eval(asked, &after); before == 0 || after != before {
		t.Errorf("the page of an ended flow asked %d times, then %d", before, after)
	}
	if tab.Text("#following") != "" {
		t.Error("an ended flow is followed")
	}
}
