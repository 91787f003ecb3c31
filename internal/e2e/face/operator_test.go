package face

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// both runs a test on an embedded server and on one with Redis and MariaDB. Both require keys, and theAdmin is
// one.
func both(t *testing.T, run func(t *testing.T, s *site)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		run(t, newKeyedSite(t))
	})
	t.Run("external", func(t *testing.T) {
		t.Parallel()
		s := newExternal(t, "TIERQ_ADMIN_KEY="+theAdmin).site
		s.key = theAdmin
		run(t, s)
	})
}

// as returns the same server with another key.
func (s *site) as(key string) *site {
	other := *s
	other.key = key
	return &other
}

// form sends a page's form, and returns the address that the answer redirects to. Without a redirect the address
// is empty, and page is the answer.
func (s *site) form(path string, values url.Values) (to *url.URL, page string) {
	s.t.Helper()
	a := s.ask(http.MethodPost, path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	to, err := url.Parse(a.header.Get("Location"))
	if err != nil || a.status != http.StatusSeeOther && a.status != http.StatusOK {
		s.t.Fatalf("POST %s: %d %v %s", path, a.status, err, a.body)
	}
	return to, a.body
}

// detail is what GET /api/jobs/{id} shows of the submit.
type detail struct {
	Owner       *string         `json:"owner"`
	Payload     json.RawMessage `json:"payload"`
	PayloadKept bool            `json:"payloadKept"`
	CallbackURL *string         `json:"callbackUrl"`
	Generation  int             `json:"generation"`
	Status      string          `json:"status"`
	CompletedAt time.Time       `json:"completedAt"`
}

func (s *site) detail(id string) (d detail) {
	s.t.Helper()
	s.want(http.StatusOK, &d, http.MethodGet, "/api/jobs/"+id, "")
	return d
}

// buried waits until a job's failure is in SQL, and returns the job's detail.
func (s *site) buried(id string) detail {
	s.t.Helper()
	s.await(id, "FAILED")
	testkit.Eventually(s.t, alive, "the dead letter is listed", func() (bool, string) {
		a := s.ask(http.MethodGet, "/jobs/dead?size=100", "")
		return strings.Contains(a.body, id), a.body
	})
	return s.detail(id)
}

const failsWith = `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":"%s"}]}}`

// TestDetail_Payload reads the payloads of jobs in each state, as each kind of caller.
func TestDetail_Payload(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		shop, other, reader := s.as(s.newKey(`"role":"submit"`)), s.as(s.newKey(`"role":"submit"`)),
			s.as(s.newKey(`"role":"read-only"`))
		const mail = `{"to":"ann@example.org","subject":"s3cret","body":"b"}`
		waits := shop.submit("paid", `{"type":"SEND_EMAIL","payload":`+mail+
			`,"delaySeconds":3600,"callbackUrl":"https://shop.example/a?b=1"}`)
		bare := shop.submit("paid", `{"delaySeconds":3600}`)
		dead := shop.submit("public", fmt.Sprintf(failsWith, "no"))
		done := shop.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":1}]}}`)
		gone := shop.submit("paid", `{"type":"SEND_EMAIL","payload":`+mail+`,"delaySeconds":3600}`)
		shop.want(http.StatusOK, nil, http.MethodPost, "/api/jobs/"+gone+"/cancel", "")
		s.buried(dead)
		s.await(done, "COMPLETED")

		for name, who := range map[string]*site{"its owner": shop, "an admin": s} {
			if d := who.detail(waits); string(d.Payload) != mail || !d.PayloadKept || d.CallbackURL == nil ||
				*d.CallbackURL != "https://shop.example/a?b=1" || (d.Owner == nil) != (who == shop) {
				t.Errorf("%s, waits: %+v %s", name, d, d.Payload)
			}
			if d := who.detail(bare); string(d.Payload) != "null" || !d.PayloadKept {
				t.Errorf("%s, without one: %+v %s", name, d, d.Payload)
			}
			if d := who.detail(dead); string(d.Payload) != `{"steps":[{"type":"FAIL","message":"no"}]}` || !d.PayloadKept {
				t.Errorf("%s, dead: %+v %s", name, d, d.Payload)
			}
			for _, id := range []string{done, gone} {
				if d := who.detail(id); string(d.Payload) != "null" || d.PayloadKept || d.CallbackURL != nil {
					t.Errorf("%s, %s: %+v %s", name, d.Status, d, d.Payload)
				}
			}
		}
		if d := reader.detail(waits); string(d.Payload) != `{"to":"***","subject":"***","body":"***"}` {
			t.Errorf("who may only look sees %s", d.Payload)
		}
		other.want(http.StatusNotFound, nil, http.MethodGet, "/api/jobs/"+waits, "")
		for id, says := range map[string]string{
			waits: "s3cret", bare: "None: it was submitted without one.", dead: "message",
			done: "Not kept: a job that is completed, cancelled or expired lets its payload go.",
		} {
			if a := shop.ask(http.MethodGet, "/poll?jobId="+id, ""); !strings.Contains(a.body, says) {
				t.Errorf("the page of %s does not say %q", id, says)
			}
		}
		if a := reader.ask(http.MethodGet, "/poll?jobId="+waits, ""); strings.Contains(a.body, "s3cret") ||
			!strings.Contains(a.body, "***") {
			t.Error("who may only look sees the payload on the page")
		}

		s.want(http.StatusAccepted, nil, http.MethodPost, "/jobs/"+dead+"/retry", "")
		testkit.Eventually(t, alive, "its second life has ended", func() (bool, string) {
			d := s.detail(dead)
			return d.Generation == 2 && d.Status == "FAILED" &&
				string(d.Payload) == `{"steps":[{"type":"FAIL","message":"no"}]}`, fmt.Sprintf("%+v %s", d, d.Payload)
		})
	})
}

var jobLink = regexp.MustCompile(`href="(/poll\?jobId=([0-9a-f-]{36}))"`)

// TestSearch finds jobs, living and ended, by each field of the form. Each row links to its job.
func TestSearch(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		waits := s.submit("paid", `{"type":"SEND_EMAIL","payload":{"to":"a@example.org","subject":"s","body":"b"},`+
			`"delaySeconds":3600}`)
		one, two := s.submit("public", fmt.Sprintf(failsWith, "Boom-100%_'x")),
			s.submit("unpaid", fmt.Sprintf(failsWith, "other <b>words</b>"))
		done := s.submit("paid", "")
		gone := s.submit("public", `{"delaySeconds":3600}`)
		s.want(http.StatusOK, nil, http.MethodPost, "/api/jobs/"+gone+"/cancel", "")
		s.buried(one)
		s.buried(two)
		s.await(done, "COMPLETED")
		all := []string{waits, one, two, done, gone}
		for query, want := range map[string][]string{
			"":                                     all,
			"id=" + done:                           {done},
			"id=" + strings.ToUpper(waits):         {waits},
			"id=" + one + "&status=FAILED":         {one},
			"id=" + one + "&status=COMPLETED":      nil,
			"id=" + nobodys:                        nil,
			"tier=PAID":                            {waits, done},
			"tier=PUBLIC&status=FAILED":            {one},
			"type=SEND_EMAIL":                      {waits},
			"type=SIMULATION&tier=UNPAID":          {two},
			"status=SCHEDULED":                     {waits},
			"status=CANCELLED":                     {gone},
			"status=FAILED":                        {one, two},
			"cause=HANDLER_ERROR":                  {one, two},
			"cause=HEARTBEAT_STOPPED":              nil,
			"text=boom-100%25_%27X":                {one},
			"text=%3Cb%3Ewords":                    {two},
			"text=o&tier=UNPAID&status=FAILED":     {two},
			"text=no+such+words":                   nil,
			"text=words&status=COMPLETED":          nil,
			"text=words&type=SEND_EMAIL&tier=PAID": nil,
		} {
			a := s.ask(http.MethodGet, "/dashboard/jobs?"+query, "")
			rows := map[string]string{}
			for _, found := range jobLink.FindAllStringSubmatch(a.body, -1) {
				rows[found[2]] = found[1]
			}
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(rows)); a.status != http.StatusOK || !slices.Equal(got, want) {
				t.Errorf("%q: %d, %q, want %q", query, a.status, got, want)
			}
			for id, link := range rows {
				if a := s.ask(http.MethodGet, link, ""); a.status != http.StatusOK || !strings.Contains(a.body, `id="job-id">`+id) {
					t.Errorf("%s: %d", link, a.status)
				}
			}
		}
	})
}

// TestRequeueAll_From requeues the dead letters from a time on, as the page's filter says, and none of the earlier
// ones.
func TestRequeueAll_From(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, s *site) {
		old := s.submit("public", fmt.Sprintf(failsWith, "old"))
		died := s.buried(old).CompletedAt
		young := old
		var from time.Time
		for !from.After(died) {
			young = s.submit("public", fmt.Sprintf(failsWith, "young"))
			from = s.buried(young).CompletedAt
		}
		filter := url.Values{"scope": {"all"}, "from": {from.Format(time.RFC3339Nano)}}
		_, page := s.form("/dashboard/dead/requeue", filter)
		if !strings.Contains(page, "Requeue 1 dead letter?") {
			t.Fatal(page)
		}
		filter.Set("confirmed", "yes")
		filter.Set("expected", "1")
		to, _ := s.form("/dashboard/dead/requeue", filter)
		q := to.Query()
		if to.Path != "/dashboard/dead" || q.Get("done") != "requeued.1" || q.Get("from") != filter.Get("from") {
			t.Errorf("it leads to %s", to)
		}
		testkit.Eventually(t, alive, "the young one has a second life", func() (bool, string) {
			d := s.detail(young)
			return d.Generation == 2, fmt.Sprintf("%+v", d)
		})
		if d := s.detail(old); d.Generation != 1 || d.Status != "FAILED" {
			t.Errorf("the old one: %+v", d)
		}
	})
}

// TestSubmit_WhatTheCallerMay checks that the page offers the tiers and types that a key, or a caller without one,
// may submit.
func TestSubmit_WhatTheCallerMay(t *testing.T) {
	t.Parallel()
	s := newKeyedSite(t, "TIERQ_ANONYMOUS_RATE=100")
	shop := s.as(s.newKey(`"role":"submit","tiers":["UNPAID","PAID"],"types":["SEND_EMAIL","SIMULATION"]`))
	card, option := regexp.MustCompile(`type="radio" name="tier" value="([A-Z]+)"`),
		regexp.MustCompile(`<option value="([A-Z_]+)"`)
	every := []string{"SIMULATION", "SEND_EMAIL", "SEND_WEBHOOK", "GENERATE_PDF", "REPORT", "FORWARD_DOCUMENT"}
	for name, c := range map[string]struct {
		who          *site
		tiers, types []string
	}{
		"an admin":   {s, []string{"PAID", "UNPAID", "PUBLIC"}, every},
		"a shop":     {shop, []string{"PAID", "UNPAID"}, []string{"SIMULATION", "SEND_EMAIL"}},
		"no key":     {s.as(""), []string{"PUBLIC"}, []string{"SIMULATION", "GENERATE_PDF"}},
		"looks only": {s.as(s.newKey(`"role":"read-only"`)), []string{"PAID", "UNPAID", "PUBLIC"}, every},
	} {
		a := c.who.ask(http.MethodGet, "/submit", "")
		if got := firsts(card, a.body); !slices.Equal(got, c.tiers) {
			t.Errorf("%s: the tiers are %q", name, got)
		}
		if got := firsts(option, a.body); !slices.Equal(got, c.types) {
			t.Errorf("%s: the types are %q", name, got)
		}
	}
	if to, page := shop.form("/submit",
		url.Values{"tier": {"UNPAID"}, "type": {"SIMULATION"}}); !strings.HasPrefix(to.String(), "/poll?jobId=") {
		t.Errorf("it leads to %q: %s", to, page)
	}
}

func firsts(r *regexp.Regexp, text string) (list []string) {
	for _, found := range r.FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	return list
}

// TestLogin_Back follows the link to the login, and returns to the same page with the same query. A second visit
// to the login says that the user is logged in. A user who was refused returns as well.
func TestLogin_Back(t *testing.T) {
	t.Parallel()
	loginAndBack(t, newKeyedSite(t), testkit.StartBrowser(t).Tab(t))
}

func loginAndBack(t *testing.T, s *site, tab user) {
	t.Helper()
	id := s.submit("paid", "")
	for at, page := range map[string]struct{ shows, says string }{
		"/submit?tier=UNPAID&type=SEND_EMAIL&note=//a%5Cb": {"h1", "Submit a job"},
		"/poll?jobId=" + id: {"#job-id", id},
	} {
		tab.Open(s.base + at)
		if strings.HasPrefix(at, "/submit") {
			tab.WaitText(page.shows, page.says, alive)
			tab.Click(`a[href^="/login"]`)
		}
		tab.WaitText("h1", "Log in", alive)
		tab.Type("input[name=key]", theAdmin)
		tab.Press("\r")
		tab.WaitText(".who-name", "", alive)
		tab.WaitText(page.shows, page.says, alive)
		if got := strings.TrimPrefix(tab.URL(), s.base); got != at {
			t.Errorf("back at %s, want %s", got, at)
		}
		tab.Click(".who button")
		tab.WaitText("main", "How a job flows", alive)
	}
	login(tab, s, theAdmin)
	tab.Open(s.base + "/login")
	tab.WaitText("main", "You are logged in already", alive)
	tab.Click(`main a[href="/"]`)
	tab.WaitText("main", "How a job flows", alive)
}

// TestDashboard_Watches checks that the time to the watches' next looks counts down and begins again, and that
// nothing beside it moves.
func TestDashboard_Watches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	tab := testkit.StartBrowser(t).Tab(t)
	tab.Open(s.base + "/dashboard")
	tab.WaitText("#live-text", "live", alive)
	type look struct {
		Text  string
		Right float64 // the left edge of the text after the countdown
	}
	var seen []string
	edges := map[float64]bool{}
	testkit.Eventually(t, alive, "it ran down, and began anew", func() (bool, string) {
		var now look
		tab.Eval(`(() => { const e = document.querySelector('[data-watch="stuck"] [data-f="next"]'); return { Text: `+
			`e.textContent, Right: e.getBoundingClientRect().right }; })()`, &now)
		if len(seen) == 0 || seen[len(seen)-1] != now.Text {
			seen = append(seen, now.Text)
		}
		edges[now.Right] = true
		down, anew := false, false
		for i := 1; i < len(seen); i++ {
			down = down || seen[i] < seen[i-1]
			anew = anew || down && seen[i] > seen[i-1]
		}
		return down && anew, strings.Join(seen, ", ")
	})
	if len(edges) != 1 {
		t.Errorf("what stands behind it was at %v: %q", edges, seen)
	}
}
