// Package pages makes what browsers see. A page calls the API, within this process and with the rights of its
// caller, and fills one of web's views. The API alone decides what a caller may see and do, how often, and with
// which text it is refused.
package pages

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/web"
)

// Options are what the pages need.
type Options struct {
	API      http.Handler // answers every request of the pages, with the caller's rights
	Sessions Sessions
	Set      *web.Set
	Hub      *Hub             // the dashboard's stream; nil = none
	Mode     string           // EMBEDDED, EXTERNAL
	Version  string           // of the server
	Demo     Walkthrough      // nil = /demo is not served
	Now      func() time.Time // Redis' clock, from which ages are computed
	Log      *slog.Logger     // optional
}

// Pages are the handlers of the pages. They store no data: every page calls the API.
type Pages struct {
	o     Options
	forms atomic.Int64 // bytes of forms in memory

	listening atomic.Int64    // open streams of /demo
	drained   context.Context // ends when the process is about to end
	drain     func()
}

// New makes the pages.
func New(o Options) *Pages {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pages{o: o}
	p.drained, p.drain = context.WithCancel(context.Background())
	return p
}

// Drain ends the streams of /demo, because the process is about to end.
func (p *Pages) Drain() { p.drain() }

// Page is the address of a page and its handler. Path has gin's syntax (:name).
type Page struct {
	Method, Path string
	Handler      http.Handler
}

// All returns the pages. An address for GET may be served to HEAD as well; for static files the list has both.
func (p *Pages) All() []Page {
	list := []Page{
		{http.MethodGet, "/", http.HandlerFunc(p.getOverview)},
		{http.MethodGet, "/submit", http.HandlerFunc(p.getSubmit)},
		{http.MethodPost, "/submit", http.HandlerFunc(p.postSubmit)},
		{http.MethodGet, "/poll", http.HandlerFunc(p.getPoll)},
		{http.MethodPost, "/poll/cancel", http.HandlerFunc(p.postCancel)},
		{http.MethodPost, "/poll/requeue", http.HandlerFunc(p.postRequeue)},
		{http.MethodPost, "/poll/kill", http.HandlerFunc(p.postKill)},
		{http.MethodPost, "/poll/hasten", http.HandlerFunc(p.postHasten)},
		{http.MethodPost, "/poll/dismiss", http.HandlerFunc(p.postDismiss)},
		{http.MethodGet, "/about", http.HandlerFunc(p.getAbout)},
		{http.MethodGet, "/login", http.HandlerFunc(p.getLogin)},
		{http.MethodPost, "/login", http.HandlerFunc(p.postLogin)},
		{http.MethodPost, "/logout", http.HandlerFunc(p.postLogout)},
	}
	list = append(list, p.dashboards()...)
	list = append(list, p.demos()...)
	for i := range list {
		list[i].Handler = p.handle(list[i].Handler)
	}
	for _, file := range p.o.Set.Static() {
		list = append(list, Page{http.MethodGet, file.Path, file.Handler}, Page{http.MethodHead, file.Path, file.Handler})
	}
	return list
}

// Lost returns the handler for addresses that do not exist.
func (p *Pages) Lost() http.Handler {
	return p.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "No page has this address.",
			TraceID: visitOf(r).trace})
	}))
}

// crossOrigin refuses forms that another site's page sends. The API does so too, but a page may decide something
// before it calls the API.
var crossOrigin http.CrossOriginProtection

// handle wraps every page.
func (p *Pages) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{w: w, trace: w.Header().Get(traceHeader)}
		defer func() { p.forms.Add(-v.held) }()
		r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
		if crossOrigin.Check(r) != nil {
			p.fail(w, r, &apiError{Status: http.StatusForbidden, Code: "FORBIDDEN",
				Detail: "a page of another site may not do this", TraceID: v.trace})
			return
		}
		next.ServeHTTP(w, r)
	})
}

const traceHeader = "X-Trace-Id"

// visit is one request to the pages, with what is known about it.
type visit struct {
	w        http.ResponseWriter
	trace    string
	me       *caller
	stranger bool  // its cookie is not valid, and is not sent to the API again
	held     int64 // bytes of its form in memory
}

type visitKey struct{}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// caller is the caller of a page, as the API knows them.
type caller struct {
	Open     bool   `json:"open"` // there are no keys: every caller may do everything
	Name     string `json:"name"` // of the caller's key; "" = no key
	Role     string `json:"role"`
	Admin    bool   `json:"admin"`
	Operator bool   `json:"operator"`
	Submits  bool   `json:"submits"`
	Secure   bool   `json:"secure"` // the caller came over TLS
	Tiers    []struct {
		Tier                string
		MaxRetries          int
		MaxProcessingTimeMs int64
	} `json:"tiers"` // the tiers to which the caller may submit, best first
	Types []string `json:"types"` // the types of jobs that the caller may submit
}

const mePath = "/api/me"

// who returns the caller; without rights if the API does not answer. It deletes a session cookie that is no longer
// valid.
func (p *Pages) who(r *http.Request) caller {
	v := visitOf(r)
	if v != nil && v.me != nil {
		return *v.me
	}
	var me caller
	err := p.ask(r, http.MethodGet, mePath, nil, &me)
	refused := refusedWith(err, http.StatusUnauthorized)
	if v != nil && refused && len(r.Header["Authorization"]) == 0 && len(p.sessionsOf(r)) > 0 {
		v.stranger = true
		err = p.ask(r, http.MethodGet, mePath, nil, &me)
		p.setSession(v.w, me.Secure || r.TLS != nil, "", 0)
	}
	if err != nil {
		p.o.Log.DebugContext(r.Context(), "the caller of a page could not be read", "err", err)
	}
	if me.Open {
		me.Admin, me.Operator, me.Submits = true, true, true
	}
	if v != nil {
		v.me = &me
	}
	return me
}

// frame returns what every page has around its content.
func (p *Pages) frame(r *http.Request) web.Frame {
	me := p.who(r)
	f := web.Frame{
		Path: r.URL.Path, Here: whence(r), Now: p.o.Now(), Mode: p.o.Mode, Version: p.o.Version,
		Demo: p.o.Demo != nil && me.Open, Gate: p.gate(r),
		Caller: web.Caller{Open: me.Open, Name: me.Name, Role: me.Role, Change: me.Admin},
		Notice: said(r, "done"), Trouble: said(r, "trouble"),
	}
	if p.o.Hub != nil && me.Operator {
		f.Live = "/dashboard/stream"
	}
	return f
}

// gate returns whether submits are accepted; nil = unknown. Only operators see the reason why not.
func (p *Pages) gate(r *http.Request) *web.Gate {
	var ready struct {
		Status string
		Checks []struct{ Name, Status, Detail string }
	}
	a, err := p.call(r, http.MethodGet, "/readyz?verbose=", nil)
	if err != nil || a.understood(&ready) != nil {
		return nil
	}
	for _, c := range ready.Checks {
		if c.Name == "gate" {
			return &web.Gate{Open: c.Status == "UP", Reason: c.Detail}
		}
	}
	switch ready.Status {
	case "UP", "DEGRADED":
		return &web.Gate{Open: true}
	case "OUT_OF_SERVICE":
		return &web.Gate{Reason: "the server accepts no jobs at present"}
	}
	return nil
}

// base returns this server's address as the browser knows it, for command lines to copy.
func (p *Pages) base(r *http.Request) string {
	scheme, host := "http://", r.Host
	if r.TLS != nil || p.who(r).Secure {
		scheme = "https://"
	}
	for _, c := range host {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune(".-_:[]", c)) {
			host = "" // a shell would interpret it
			break
		}
	}
	if host == "" {
		host = "localhost"
	}
	return scheme + host
}

const private = "private, no-store"

// show writes a whole page, or an error if the page cannot be rendered.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, status int, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		p.o.Log.ErrorContext(r.Context(), "a page could not be written", "err", err)
		http.Error(w, "Internal error. The server's log has the cause.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", web.Policy)
	h.Set("Cache-Control", private)
	// With no-referrer a browser sends Origin: null with our own forms, and without TLS nothing else distinguishes
	// them from another site's.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = b.WriteTo(w) // a browser that left asks again
	}
}
