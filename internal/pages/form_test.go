package pages

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// A form that is no form, or is too large, is refused before anything is done.
func TestForm(t *testing.T) {
	t.Attr("proves", "A24")
	for path := range map[string]bool{"/submit": true, "/poll/cancel": true, "/poll/requeue": true, "/login": true} {
		f := newFace(t, openMe)
		f.do("POST", path, url.Values{"payload": {strings.Repeat("x", mostForm)}}).status(413)
		f.do("POST", path, url.Values{"a": {"b"}}, "Content-Type", "application/json").status(415)
		f.do("POST", path, url.Values{"a": {"b"}}, "Content-Type", "multipart/form-data; boundary=x").status(415)
		r := fromBrowser("Content-Type", "application/x-www-form-urlencoded")
		for _, body := range []io.Reader{iotest.ErrReader(io.ErrUnexpectedEOF), strings.NewReader("a=%zz")} {
			r.Body = io.NopCloser(body)
			rec := httptest.NewRecorder()
			f.at["POST "+path].ServeHTTP(rec, r)
			if rec.Code != 400 {
				t.Errorf("%s: %d", path, rec.Code)
			}
		}
		if got := f.api.changes(); len(got) > 0 {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// All forms together take no more memory than is reserved for them, and release it when they are answered. Small
// forms take none of it.
func TestForm_Memory(t *testing.T) {
	t.Attr("proves", "A24")
	f := newFace(t, openMe).say("POST /paid/submit", problem(400, "INVALID_PAYLOAD", "no"))
	f.pages.forms.Store(formMemory - 64<<10)
	submit := func(size int) url.Values {
		return url.Values{"tier": {"PAID"}, "payload": {`"` + strings.Repeat("x", size) + `"`}}
	}
	f.do("POST", "/submit", submit(60<<10)).status(400)
	s := f.do("POST", "/submit", submit(256<<10)).status(503)
	s.shows(s.main(), "Too many forms are being read; send it again.")
	f.do("POST", "/submit", submit(60<<10)).status(400)
	f.pages.forms.Store(formMemory)
	f.do("POST", "/login", url.Values{"key": {strings.Repeat("x", smallForm-len("key="))}}).status(303)
	if _, err := f.pages.form(fromForm("a=b")); err != nil {
		t.Error(err)
	}
	if got := f.pages.forms.Load(); got != formMemory {
		t.Errorf("%d bytes are held", got-formMemory)
	}
}

// Every form except the submit form is limited to smallForm bytes, whatever length it announces.
func TestForm_Small(t *testing.T) {
	t.Attr("proves", "A24")
	for _, path := range []string{"/login", "/poll/cancel", "/poll/requeue", "/dashboard/dead/requeue",
		"/dashboard/tiers/PAID", "/demo/play"} {
		f := newFace(t, openMe)
		h := f.at["POST "+path]
		if strings.HasPrefix(path, "/dashboard/tiers/") {
			h = f.at["POST /dashboard/tiers/:tier"]
		}
		for size, tooLarge := range map[int]bool{smallForm: false, smallForm + 1: true, 1 << 20: true} {
			for _, said := range []int64{int64(size), -1} {
				r := fromForm("a=" + strings.Repeat("x", size-2))
				r.Method, r.URL.Path, r.ContentLength = "POST", path, said
				rec := httptest.NewRecorder()
				rec.Header().Set(traceHeader, "trace-of-page")
				h.ServeHTTP(rec, r)
				if got := rec.Code == http.StatusRequestEntityTooLarge; got != tooLarge {
					t.Errorf("%s, %d bytes that say they are %d: %d", path, size, said, rec.Code)
				}
			}
		}
	}
}

// Large forms that are never sent completely do not prevent small forms, whether they come with a key or not.
func TestForm_LargeOnesKeepNobodyOut(t *testing.T) {
	t.Attr("proves", "A24")
	for name, c := range map[string]struct{ me, path string }{
		"a stranger's":              {strangerMe, "/login"},
		"a stranger's submits":      {strangerMe, "/submit"},
		"submits on an open server": {openMe, "/submit"},
	} {
		f := newFace(t, c.me).say("with a key", ok(annMe))
		var group sync.WaitGroup
		var open []*io.PipeWriter
		var sent sync.WaitGroup
		for range 40 {
			body, sender := io.Pipe()
			r := fromForm("")
			r.Method, r.URL.Path, r.Body, r.ContentLength = "POST", c.path, body, -1
			open = append(open, sender)
			group.Go(func() {
				rec := httptest.NewRecorder()
				rec.Header().Set(traceHeader, "trace-of-page")
				f.at["POST "+c.path].ServeHTTP(rec, r)
				_ = body.Close() // as net/http does: the sender gets an error
			})
			sent.Go(func() { _, _ = io.WriteString(sender, "payload="+strings.Repeat("x", 1900<<10)) }) // until it is refused
		}
		sent.Wait()
		answered := make(chan *sheet, 1)
		go func() { answered <- f.do("POST", "/login", key(aKey, "/")) }()
		select {
		case s := <-answered:
			s.status(303)
		case <-time.After(30 * time.Second):
			t.Errorf("%s: a login is not answered", name)
		}
		for _, sender := range open {
			_ = sender.Close()
		}
		group.Wait()
		if held := f.pages.forms.Load(); held != 0 {
			t.Errorf("%s: %d bytes are still held", name, held)
		}
	}
}

// On a server with keys, a small form without a key keeps its typed values. For a large form, and for a requeue of
// dead letters, the caller is sent to the login first.
func TestForm_OfAStranger(t *testing.T) {
	t.Attr("proves", "A24")
	f := newFace(t, strangerMe).say("POST /paid/submit", problem(401, "UNAUTHORIZED", "no"))
	f.do("POST", "/submit", url.Values{"tier": {"PAID"}, "payload": {"1"}}).status(401)
	f.do("POST", "/submit", url.Values{"tier": {"PAID"},
		"payload": {strings.Repeat("1", smallForm)}}).leads("/login?next=%2Fsubmit")
	r := fromForm("")
	r.Method, r.URL.Path, r.Body = "POST", "/dashboard/dead/requeue",
		io.NopCloser(iotest.ErrReader(errors.New("it was read")))
	rec := httptest.NewRecorder()
	f.at["POST /dashboard/dead/requeue"].ServeHTTP(rec, r)
	if rec.Code != 303 || rec.Header().Get("Location") != "/login?next=%2Fdashboard%2Fdead" {
		t.Errorf("%d %s", rec.Code, rec.Header())
	}
}

func fromForm(body string) *http.Request {
	r := fromBrowser("Content-Type", "application/x-www-form-urlencoded")
	r.Body = io.NopCloser(strings.NewReader(body))
	return r
}
