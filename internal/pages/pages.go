// Package pages makes what browsers see. A page reads the API, as its caller and in this process, and fills one of
// web's views: who may see and do what, how often, and in which words it is refused, is decided there and nowhere else.
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
	API      http.Handler // answers every request of the pages, as their caller
	Sessions Sessions
	Set      *web.Set
	Hub      *Hub             // the dashboard's stream; nil = none
	Mode     string           // EMBEDDED, EXTERNAL
	Version  string           // of the server
	Demo     Walkthrough      // nil = /demo is not served
	Now      func() time.Time // Redis' clock: ages are counted from it
	Log      *slog.Logger     // optional
}

// Pages are the pages' addresses. They hold nothing of their own: every page is read anew.
type Pages struct {
	o     Options
	forms atomic.Int64 // bytes of forms in memory

	listening atomic.Int64    // streams of /demo
	drained   context.Context // is over once the process ends
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

// Drain ends the streams of /demo: the process is about to end.
func (p *Pages) Drain() { p.drain() }

// Page is an address of the pages. Path is in gin's words (:name).
type Page struct {
	Method, Path string
	Handler      http.Handler
}

// All are the addresses. What is read with GET may be served to HEAD as well; of the static files both are here.
func (p *Pages) All() []Page {
	list := []Page{
		{http.MethodGet, "/", http.HandlerFunc(p.getOverview)},
		{http.MethodGet, "/submit", http.HandlerFunc(p.getSubmit)},
		{http.MethodPost, "/submit", http.HandlerFunc(p.postSubmit)},
		{http.MethodGet, "/poll", http.HandlerFunc(p.getPoll)},
		{http.MethodPost, "/poll/cancel", http.HandlerFunc(p.postCancel)},
		{http.MethodPost, "/poll/requeue", http.HandlerFunc(p.postRequeue)},
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

// Lost is the page of an address that there is not.
func (p *Pages) Lost() http.Handler {
	return p.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.fail(w, r, &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "No page has this address.",
			TraceID: visitOf(r).trace})
	}))
}

// crossOrigin refuses forms that another site's page sends. The API does so too; a page asks it only when something was
// decided already.
var crossOrigin http.CrossOriginProtection

// handle stands around every page.
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

// visit is one request to the pages, with what was found out about it.
type visit struct {
	w        http.ResponseWriter
	trace    string
	me       *caller
	stranger bool  // its cookie opens nothing, and is not shown to the API again
	held     int64 // bytes of its form
}

type visitKey struct{}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// caller is who looks, as the API knows him.
type caller struct {
	Open     bool   `json:"open"` // there are no keys: everybody may do everything
	Name     string `json:"name"` // of his key; "" = he has shown none
	Role     string `json:"role"`
	Admin    bool   `json:"admin"`
	Operator bool   `json:"operator"`
	Submits  bool   `json:"submits"`
	Secure   bool   `json:"secure"` // he came over TLS
	Tiers    []struct {
		Tier                string
		MaxRetries          int
		MaxProcessingTimeMs int64
	} `json:"tiers"` // he may submit to, best first
	Types []string `json:"types"` // of jobs that he may submit
}

const mePath = "/api/me"

// who is who looks; a stranger if the API cannot tell. A session that opens nothing any more is taken away.
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
		p.o.Log.DebugContext(r.Context(), "nobody says who looks", "err", err)
	}
	if me.Open {
		me.Admin, me.Operator, me.Submits = true, true, true
	}
	if v != nil {
		v.me = &me
	}
	return me
}

// frame is what every page has around it.
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

// gate is whether submits are let in; nil = nobody says. Why they are not is for operators.
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
		return &web.Gate{Reason: "the server takes no jobs at present"}
	}
	return nil
}

// base is where this server is reached, as the browser has it, for lines to copy.
func (p *Pages) base(r *http.Request) string {
	scheme, host := "http://", r.Host
	if r.TLS != nil || p.who(r).Secure {
		scheme = "https://"
	}
	for _, c := range host {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune(".-_:[]", c)) {
			host = "" // it would mean something to a shell
			break
		}
	}
	if host == "" {
		host = "localhost"
	}
	return scheme + host
}

const private = "private, no-store"

// show writes a page, whole or not at all.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, status int, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		p.o.Log.ErrorContext(r.Context(), "a page cannot be written", "err", err)
		http.Error(w, "Something went wrong inside. Its cause is in the server's log.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", web.Policy)
	h.Set("Cache-Control", private)
	// With no-referrer a browser calls the origin of our own forms null; without TLS it says nothing else to tell them
	// from another site's.
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = b.WriteTo(w) // a browser that left asks again
	}
}
