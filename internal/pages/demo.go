package pages

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/web"
)

// Walkthrough plays scenarios for /demo. Each session has a queue of its own.
type Walkthrough interface {
	// Play begins a scenario in place of the session's last one. The errors are ErrNoScenario, ErrTooSoon, ErrNoRoom,
	// or any other.
	Play(ctx context.Context, session, scenario string) error
	// Events returns the events behind an id, and a channel that closes at the next event. closed says that there
	// will be no more until the session plays.
	Events(session string, after int64) (events []Told, more <-chan struct{}, closed bool)
	// Scenarios returns all scenarios.
	Scenarios() []web.Scenario
	// Stage returns the slots of all workers together, and the capacity.
	Stage() (slots, capacity int)
}

// Told is an event of a scenario. Its id increases over all scenarios of a session.
type Told struct {
	ID   int64
	Text []byte // JSON, on one line
}

// The reasons why a scenario is not played.
var (
	ErrNoScenario = errors.New("there is no such scenario")
	ErrTooSoon    = errors.New("one scenario a second")
	ErrNoRoom     = errors.New("all sandboxes are taken")
)

const (
	demoCookie  = "tierq_demo" // names the session; it gives no other access
	demoStreams = 64           // the most streams of /demo at once
)

// demos returns the handlers of /demo.
func (p *Pages) demos() []Page {
	if p.o.Demo == nil {
		return nil
	}
	return []Page{
		{http.MethodGet, "/demo", http.HandlerFunc(p.getDemo)},
		{http.MethodPost, "/demo/play", http.HandlerFunc(p.postPlay)},
		{http.MethodGet, "/demo/events", http.HandlerFunc(p.getPlayed)},
	}
}

func (p *Pages) getDemo(w http.ResponseWriter, r *http.Request) {
	p.who(r) // detects a cookie that is no longer valid
	if err := p.plays(r); err != nil {
		p.fail(w, r, err)
		return
	}
	if session(r) == "" {
		http.SetCookie(w, &http.Cookie{
			Name: demoCookie, Value: rand.Text(), Path: "/demo", HttpOnly: true, SameSite: http.SameSiteStrictMode,
			Secure: r.TLS != nil || p.who(r).Secure,
		})
	}
	v := web.DemoView{Frame: p.frame(r), Scenarios: p.o.Demo.Scenarios(), Play: "/demo/play", Events: "/demo/events"}
	v.Slots, v.Capacity = p.o.Demo.Stage()
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Demo(w, v) })
}

// plays returns an error if the demo is not served to this caller. Sandboxes cost the server work and are for
// trying tierq out, so a server with keys has no demo. Each call asks the API for the caller, which counts against
// the rate of the caller's network address.
func (p *Pages) plays(r *http.Request) error {
	var me caller
	if err := p.ask(r, http.MethodGet, mePath, nil, &me); err != nil {
		return err
	}
	if !me.Open {
		return &apiError{
			Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "A server with API keys has no demo.",
			TraceID: visitOf(r).trace,
		}
	}
	return nil
}

// postPlay serves a script, not a form: it answers 204.
func (p *Pages) postPlay(w http.ResponseWriter, r *http.Request) {
	if err := p.plays(r); err != nil {
		p.refuse(w, r, err)
		return
	}
	values, err := p.form(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	name := session(r)
	if name == "" {
		p.refuse(w, r, &apiError{Status: http.StatusBadRequest, Code: "INVALID_REQUEST",
			Detail: "The demo keeps its session in a cookie, which did not come."})
		return
	}
	switch err := p.o.Demo.Play(r.Context(), name, values.Get("scenario")); {
	case err == nil:
		w.Header().Set("Cache-Control", private)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrNoScenario):
		p.refuse(w, r, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "There is no such scenario."})
	case errors.Is(err, ErrTooSoon):
		p.refuse(w, r, &apiError{Status: http.StatusTooManyRequests, Code: "RATE_LIMITED", Detail: "One scenario a second.",
			RetryAfter: time.Second})
	case errors.Is(err, ErrNoRoom):
		p.refuse(w, r, &apiError{Status: http.StatusServiceUnavailable, Code: "SYSTEM_UNHEALTHY",
			Detail: "All sandboxes are taken.", RetryAfter: 5 * time.Second})
	default:
		p.refuse(w, r, err)
	}
}

// getPlayed streams the events of the session's scenarios as Server-Sent Events, behind Last-Event-ID, or else
// behind the parameter after. The answer 204, which ends a browser's EventSource, means that the session has not
// played, or not for too long.
func (p *Pages) getPlayed(w http.ResponseWriter, r *http.Request) {
	if err := p.plays(r); err != nil {
		p.refuse(w, r, err)
		return
	}
	if p.listening.Add(1) > demoStreams {
		p.listening.Add(-1)
		p.refuse(w, r, &apiError{Status: http.StatusServiceUnavailable, Code: "SYSTEM_UNHEALTHY",
			Detail: "Too many watch the demo.", RetryAfter: 5 * time.Second})
		return
	}
	defer p.listening.Add(-1)
	after := lastSeen(r)
	name := session(r)
	if _, _, closed := p.o.Demo.Events(name, after); closed || p.drained.Err() != nil {
		w.Header().Set("Cache-Control", private)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s := newSSE(w)
	if !s.write([]byte("retry: 1000\n\n")) {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		events, more, closed := p.o.Demo.Events(name, after)
		var text []byte
		for _, e := range events {
			text = append(text, event("", strconv.FormatInt(e.ID, 10), e.Text)...)
			after = e.ID
		}
		if !s.write(text) || closed {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-p.drained.Done():
			return
		case <-more:
		case <-ping.C:
			if p.plays(r) != nil || !s.write([]byte(": ping\n\n")) {
				return
			}
		}
	}
}

// lastSeen returns the id behind which a stream continues; 0 = from the beginning.
func lastSeen(r *http.Request) int64 {
	for _, text := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// session returns the name of the browser's sandbox; "" = it has none.
func session(r *http.Request) string {
	c, err := r.Cookie(demoCookie)
	if err != nil || len(c.Value) != 26 || strings.Trim(c.Value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return ""
	}
	return c.Value
}
