package pages

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	"github.com/tierq/tierq/web"
)

// titles are short texts for users about statuses; for other statuses the status' own name is used.
var titles = map[int]string{
	http.StatusBadRequest:            "The request is not valid",
	http.StatusForbidden:             "You may not do this",
	http.StatusNotFound:              "This page does not exist",
	http.StatusConflict:              "That cannot be done now",
	http.StatusPreconditionFailed:    "Another caller changed this first",
	http.StatusRequestEntityTooLarge: "The request is too large",
	http.StatusUnprocessableEntity:   "The values are not valid",
	http.StatusTooManyRequests:       "Too many requests",
	http.StatusInternalServerError:   "Internal error",
	http.StatusServiceUnavailable:    "Not available now",
	http.StatusGatewayTimeout:        "It may or may not have been done",
}

// fail answers with an error page. A caller without a key is sent to the login, which leads back here. The browser
// tries again by itself if the error may be temporary.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, r.Context().Err()) {
		return // the caller has left
	}
	e := p.refusalIn(r, err)
	if e.Status == http.StatusUnauthorized {
		p.toLogin(w, r, whence(r))
		return
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter/time.Second)))
	}
	v := web.ErrorView{
		Frame: p.frame(r), Status: e.Status, Title: cmp.Or(titles[e.Status], http.StatusText(e.Status)), Detail: e.Detail,
		TraceID: e.TraceID,
		Heals:   e.Status == http.StatusServiceUnavailable && reads(r),
	}
	v.Problem = "" // the page shows only this error
	p.show(w, r, e.Status, func(w io.Writer) error { return p.o.Set.Error(w, v) })
}

// refuse answers one of the pages' scripts, which shows no page.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // otherwise the caller has left
		writeProblem(w, p.refusalIn(r, err))
	}
}

// refusalIn returns what may be shown of an error. The cause of an error that is no refusal is logged.
func (p *Pages) refusalIn(r *http.Request, err error) *apiError {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	e := &apiError{Status: http.StatusInternalServerError, Code: "INTERNAL",
		Detail: "The server's log has the cause under this trace id."}
	if errors.Is(err, context.DeadlineExceeded) {
		e = &apiError{Status: http.StatusServiceUnavailable, Code: "SYSTEM_UNHEALTHY",
			Detail: "The server's own API did not answer in time."}
	}
	if v := visitOf(r); v != nil {
		e.TraceID = v.trace
	}
	p.o.Log.ErrorContext(r.Context(), "a page failed", "path", r.URL.Path, "err", err, "trace_id", e.TraceID)
	return e
}

// toLogin sends the browser to the login, and from there to next.
func (p *Pages) toLogin(w http.ResponseWriter, r *http.Request, next string) {
	if p.who(r).Name != "" { // the caller is logged in: the login would lead back here
		e := &apiError{Status: http.StatusForbidden, Detail: "The key that you logged in with may not do this."}
		p.fail(w, r, e)
		return
	}
	p.back(w, "/login", url.Values{"next": {next}}, "", "")
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// whence returns the page of a request: its own page, or the page with its form.
func whence(r *http.Request) string {
	if !reads(r) {
		return path.Dir(r.URL.Path)
	}
	q := r.URL.Query()
	if !q.Has("done") && !q.Has("trouble") {
		return r.URL.RequestURI() // unchanged
	}
	q.Del("done") // of the last form
	q.Del("trouble")
	u := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: q.Encode()}
	return u.RequestURI()
}
