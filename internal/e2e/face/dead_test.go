package face

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// receiver refuses webhooks permanently, until takes is set.
type receiver struct {
	url   string
	takes atomic.Bool
}

func newReceiver(t *testing.T, answer string) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !r.takes.Load() {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer)) // an error means that the server left
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// letters submits jobs of a tier that die because the receiver refuses them, and returns their ids.
func (s *site) letters(r *receiver, tier string, many int) (ids []string) {
	s.t.Helper()
	for range many {
		ids = append(ids, s.submit(tier, fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, r.url)))
	}
	for _, id := range ids {
		s.await(id, "FAILED")
	}
	testkit.Eventually(s.t, alive, "the dead letters are listed", func() (bool, string) {
		body := s.ask(http.MethodGet, "/jobs/dead?size=100", "").body
		for _, id := range ids {
			if !strings.Contains(body, id) {
				return false, body
			}
		}
		return true, ""
	})
	return ids
}

// TestDead_Requeue requeues dead letters by clicks: a single one, the ticked ones, and all that match a filter.
// The page asks before it requeues all, and names their number.
func TestDead_Requeue(t *testing.T) {
	t.Parallel()
	requeueTheDead(t, newSite(t, "TIERQ_EGRESS_ALLOW=127.0.0.0/8"), testkit.StartBrowser(t).Tab(t))
}

func requeueTheDead(t *testing.T, s *site, tab user) {
	t.Helper()
	r := newReceiver(t, "{}")
	public, paid := s.letters(r, "public", 5), s.letters(r, "paid", 3)
	r.takes.Store(true)
	tab.Open(s.base + "/dashboard/dead")
	var export struct {
		Type, Name string
		Lines      []struct{ JobID string }
	}
	tab.Eval(`fetch([...document.querySelectorAll("a")].find(a => a.textContent === "Export").href).then(async r => ({
		type: r.headers.get("Content-Type"), name: r.headers.get("Content-Disposition"), lines: (await r.text()).trim().split("\n").map(l => JSON.parse(l)),
	}))`, &export)
	if !strings.HasPrefix(export.Type, "application/x-ndjson") || !strings.HasPrefix(export.Name, "attachment") ||
		len(export.Lines) != 8 || export.Lines[0].JobID == "" {
		t.Errorf("the export: %+v", export)
	}

	tab.Click(`button[name="one"][value="` + public[0] + `"]`)
	tab.WaitText(".note", "The dead letter was requeued.", alive)
	s.await(public[0], "COMPLETED")

	for _, id := range public[1:3] {
		tab.Click(`input[name="id"][value="` + id + `"]`)
	}
	tab.WaitText("#picked", "2 selected", alive)
	tab.WaitText("#requeue-selected", "Requeue 2 selected", alive)
	tab.Click("#requeue-selected")
	tab.WaitText(".note", "Requeued 2 dead letters.", alive)
	for _, id := range public[1:3] {
		s.await(id, "COMPLETED")
	}

	tab.Open(s.base + "/dashboard/dead?tier=PAID")
	tab.WaitText(".sum", "3 dead letters", alive)
	tab.Click(`button[name="scope"][value="all"]`)
	tab.WaitText("h1", "Requeue 3 dead letters?", alive)
	tab.WaitText(".lead", "Only tier PAID.", alive)
	tab.Click(`button[name="confirmed"]`)
	tab.WaitText(".note", "Requeued 3 dead letters.", alive)
	for _, id := range paid {
		s.await(id, "COMPLETED")
	}
	for _, id := range public[3:] {
		s.await(id, "FAILED")
	}
	testkit.Eventually(t, alive, "two are left", func() (bool, string) {
		tab.Open(s.base + "/dashboard/dead")
		sum := tab.Text(".sum")
		return strings.HasPrefix(sum, "2 dead letters"), sum
	})
	// The live dashboard shows the requeue.
	tab.Open(s.base + "/dashboard")
	tab.WaitText("#feed", "requeued 3 dead letters", alive)
}

// TestTiers_AChange changes a plan by clicks: the page shows the new values beside the old ones, stores them, and
// shows the stored plan.
func TestTiers_AChange(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Open(s.base + "/dashboard/tiers")
	tab.Click(`a[href="/dashboard/tiers/PUBLIC"]`)
	tab.WaitText("h1", "version 1", alive)
	tab.Type("#maxRetries", "7")
	tab.Type("#share", "55")
	choose(t, tab, "#lines", "owner")
	tab.WaitText("#plan-changes", "3 changed", alive)
	tab.WaitText("#plan-changes", "Lines", alive)
	tab.Click("#plan button")
	tab.WaitText(".diff", "55", alive)
	var changes [][2]string
	tab.Eval(`[...document.querySelectorAll(".diff tbody tr")].map(r => [r.querySelector("del").textContent, `+
		`r.querySelector("ins").textContent])`, &changes)
	if len(changes) != 3 || !strings.Contains(fmt.Sprint(changes), "[1 7]") ||
		!strings.Contains(fmt.Sprint(changes), "[60 %") || !strings.Contains(fmt.Sprint(changes), "[off owner]") {
		t.Errorf("what changes: %v", changes)
	}
	plan := func() (p struct {
		Version, MaxRetries, Share int
		Lines                      string
	}) {
		s.want(http.StatusOK, &p, http.MethodGet, "/admin/tiers/PUBLIC", "")
		return p
	}
	if p := plan(); p.Version != 1 || p.MaxRetries != 1 {
		t.Errorf("stored before anybody said so: %+v", p)
	}
	tab.Click(`button[name="confirmed"]`)
	tab.WaitText(".note", "The plan is stored as version 2.", alive)
	tab.WaitText(".t-public", "55 %", alive)
	if p := plan(); p.Version != 2 || p.MaxRetries != 7 || p.Lines != "owner" {
		t.Errorf("stored: %+v", p)
	}
	// The dashboard's lanes use the new plan.
	testkit.Eventually(t, alive, "the new plan is served", func() (bool, string) {
		tab.Open(s.base + "/dashboard")
		chip := tab.Text(`[data-lane="PUBLIC"] .chip`)
		return strings.HasPrefix(chip, "7 retries"), chip
	})
}
