package pages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/web"
)

// walkthrough is a fake Walkthrough: every session sees the same events.
type walkthrough struct {
	mu     sync.Mutex
	plays  []string // session and scenario
	refuse error
	told   []Told
	more   chan struct{}
	closed bool
}

func (w *walkthrough) Play(_ context.Context, session, scenario string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plays = append(w.plays, session+" "+scenario)
	return w.refuse
}

func (w *walkthrough) Events(_ string, after int64) (told []Told, more <-chan struct{}, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.told {
		if e.ID > after {
			told = append(told, e)
		}
	}
	if w.more == nil {
		w.more = make(chan struct{})
	}
	return told, w.more, w.closed
}

func (*walkthrough) Scenarios() []web.Scenario {
	return []web.Scenario{{ID: "happy", Title: "The <happy> path", About: "What one sees."}}
}
func (*walkthrough) Stage() (slots, capacity int) { return 3, 12 }

// tell adds events and wakes the listeners.
func (w *walkthrough) tell(n int, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		id := int64(len(w.told) + 1)
		w.told = append(w.told, Told{id, fmt.Appendf(nil, `{"id":%d}`, id)})
	}
	w.closed = closed
	if w.more != nil {
		close(w.more)
		w.more = nil
	}
}

const (
	demoSession = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	open        = `{"open":true}`
	strange     = `{"open":false}`
	keyed       = `{"open":false,"name":"shop","role":"submit","submits":true}`
)

func TestDemo_Page(t *testing.T) {
	f := newFace(t, `{"open":true}`)
	page := f.do("GET", "/demo", nil)
	cookie := page.Header().Get("Set-Cookie")
	if page.Code != 200 || !strings.HasPrefix(cookie, "tierq_demo=") ||
		!strings.Contains(cookie, "Path=/demo; HttpOnly; SameSite=Strict") {
		t.Errorf("%d, cookie %q", page.Code, cookie)
	}
	if !strings.Contains(page.Body.String(), "The &lt;happy&gt; path") {
		t.Error(page.Body.String())
	}
	if again := f.do("GET", "/demo", nil, "Cookie", "tierq_demo="+demoSession); again.Header().Get("Set-Cookie") != "" {
		t.Errorf("a session is replaced: %v", again.Header())
	}
	if forged := f.do("GET", "/demo", nil, "Cookie",
		"tierq_demo=../../"+demoSession[6:]); forged.Header().Get("Set-Cookie") == "" {
		t.Error("a session that is none of ours stays")
	}
}

// A server with keys has no demo for any key: no page, no link to it, no scenario and no stream.
func TestDemo_WithKeys(t *testing.T) {
	for name, me := range map[string]string{
		"a stranger": strange, "a key": keyed,
		"an admin":       `{"open":false,"name":"boss","role":"admin","admin":true,"operator":true,"submits":true}`,
		"a worker's key": `{"open":false,"name":"remote","role":"worker"}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, me)
			cookie := []string{"Cookie", "tierq_demo=" + demoSession}
			page := f.do("GET", "/demo", nil, cookie...)
			if page.Code != 404 || strings.Contains(page.Body.String(), "data-scenario") {
				t.Errorf("the page: %d\n%s", page.Code, page.Body)
			}
			play := f.do("POST", "/demo/play", url.Values{"scenario": {"happy"}}, cookie...)
			if play.Code != 404 || len(f.played.plays) > 0 {
				t.Errorf("a scenario: %d, played %q", play.Code, f.played.plays)
			}
			if stream := f.do("GET", "/demo/events", nil, cookie...); stream.Code != 404 {
				t.Errorf("the stream: %d", stream.Code)
			}
			if about := f.do("GET", "/about", nil); about.Code != 200 || strings.Contains(about.Body.String(), `"/demo"`) {
				t.Errorf("another page leads to it: %d\n%s", about.Code, about.Body)
			}
		})
	}
	if about := newFace(t, `{"open":true}`).do("GET", "/about", nil); !strings.Contains(about.Body.String(), `"/demo"`) {
		t.Error("no page leads to it on an open server")
	}
}

// Each part of the demo asks the API for the caller, which counts against the caller's rate. Over the rate nothing
// is played.
func TestDemo_CountsAgainstTheRate(t *testing.T) {
	f := newFace(t, `{"open":true}`).say("GET /api/me", problem(429, "RATE_LIMITED", "too many"))
	for method, path := range map[string]string{"GET": "/demo", "POST": "/demo/play"} {
		got := f.do(method, path, url.Values{"scenario": {"happy"}}, "Cookie", "tierq_demo="+demoSession)
		if asked, _ := f.api.asked("GET", "/api/me"); got.Code != 429 || len(f.played.plays) > 0 || len(asked) == 0 {
			t.Errorf("%s %s: %d, played %q", method, path, got.Code, f.played.plays)
		}
	}
}

func TestDemo_Play(t *testing.T) {
	form := url.Values{"scenario": {"happy"}}
	for name, c := range map[string]struct {
		me, cookie string
		refuse     error
		status     int
		code       string
		retry      string
	}{
		"open":    {open, demoSession, nil, 204, "", ""},
		"session": {open, "", nil, 400, "INVALID_REQUEST", ""},
		"unknown": {open, demoSession, ErrNoScenario, 404, "NOT_FOUND", ""},
		"quick":   {open, demoSession, ErrTooSoon, 429, "RATE_LIMITED", "1"},
		"full":    {open, demoSession, ErrNoRoom, 503, "SYSTEM_UNHEALTHY", "5"},
		"broken":  {open, demoSession, errors.New("hunter2"), 500, "INTERNAL", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFace(t, c.me)
			f.played.refuse = c.refuse
			got := f.do("POST", "/demo/play", form, "Cookie", "tierq_demo="+c.cookie)
			if got.Code != c.status || !strings.Contains(got.Body.String(), c.code) ||
				got.Header().Get("Retry-After") != c.retry || strings.Contains(got.Body.String(), "hunter2") {
				t.Errorf("%d %v\n%s", got.Code, got.Header(), got.Body.String())
			}
			if played := len(f.played.plays) > 0; played != (c.status == 204 || c.refuse != nil) ||
				played && f.played.plays[0] != demoSession+" happy" {
				t.Errorf("played %q", f.played.plays)
			}
		})
	}
	f := newFace(t, `{"open":true}`)
	if got := f.do("POST", "/demo/play", form, "Cookie", "tierq_demo="+demoSession, "Sec-Fetch-Site",
		"cross-site"); got.Code != 403 || len(f.played.plays) > 0 {
		t.Errorf("another site's page plays: %d", got.Code)
	}
}

// watchDemo opens the stream of the demo on a real server.
func watchDemo(t *testing.T, server *httptest.Server, lastID string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/demo/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Cookie", "tierq_demo="+demoSession)
	if lastID != "" {
		q.Header.Set("Last-Event-ID", lastID)
	}
	r, err := server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Body.Close() })
	return r
}

// demoServer serves the pages' handler of the stream.
func demoServer(t *testing.T, f *face) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(f.at["GET /demo/events"])
	t.Cleanup(func() { f.pages.Drain(); server.Close() })
	return server
}

func TestDemo_Events(t *testing.T) {
	f := newFace(t, open)
	server := demoServer(t, f)
	f.played.closed = true
	if r := watchDemo(t, server, ""); r.StatusCode != 204 {
		t.Errorf("nothing was played, and the stream says %d", r.StatusCode)
	}
	f.played.tell(2, false)
	r := watchDemo(t, server, "")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", r.StatusCode, r.Header)
	}
	lines := bufio.NewScanner(r.Body)
	want := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "id: ") {
			}
			if lines.Text() != "id: "+id || !lines.Scan() || lines.Text() != `data: {"id":`+id+`}` {
				t.Fatalf("%q, want event %s: %v", lines.Text(), id, lines.Err())
			}
		}
	}
	want("1", "2")
	f.played.tell(1, false)
	want("3")
	late := watchDemo(t, server, "2")
	f.played.tell(1, true)
	want("4")
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("after the end: %q", lines.Text())
		}
	}
	lines = bufio.NewScanner(late.Body)
	want("3", "4")
}

// The number of streams is bounded, and all of them end when the process ends.
func TestDemo_Streams(t *testing.T) {
	t.Attr("proves", "A24")
	f := newFace(t, `{"open":true}`)
	server := demoServer(t, f)
	f.played.tell(1, false)
	var open []*http.Response
	for range demoStreams {
		open = append(open, watchDemo(t, server, ""))
	}
	if r := watchDemo(t, server, ""); r.StatusCode != 503 || r.Header.Get("Retry-After") != "5" {
		t.Errorf("one more: %d", r.StatusCode)
	}
	_ = open[0].Body.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		r := watchDemo(t, server, "")
		if r.StatusCode == 200 {
			open[0] = r
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of one who left is not free")
		}
	}
	f.pages.Drain()
	for _, r := range open {
		for lines := bufio.NewScanner(r.Body); lines.Scan(); { // every stream ends, or the test hangs
		}
	}
	if r := watchDemo(t, server, ""); r.StatusCode != 204 {
		t.Errorf("after the drain: %d", r.StatusCode)
	}
}
