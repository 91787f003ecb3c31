package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// record collects the problems of a tab and the addresses that it requested.
type record struct {
	mu       sync.Mutex
	problems []string
	allowed  []string
	asked    []string                     // addresses requested since the last Open
	address  map[network.RequestID]string // of requests under way
}

func newRecord() *record { return &record{address: map[network.RequestID]string{}} }

// Problems returns all problems so far, allowed or not, each as "<kind>: <text>". The kinds are console (an error
// or a failed assertion in it), exception (uncaught), csp (the Content-Security-Policy refused something), request
// (failed, or answered with an error), log (another error of the browser) and crash. Problems inside a
// SharedWorker are not recorded.
func (tab *Tab) Problems() []string {
	tab.t.Helper()
	tab.Eval("0", nil) // events of what the page did before arrive before the answer
	return tab.record.all()
}

// Allow names problems that must not fail the test: all that contain one of these texts, before or after the call.
func (tab *Tab) Allow(parts ...string) { tab.record.allow(parts) }

func (r *record) allow(parts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allowed = append(r.allowed, parts...)
}

// Requests returns the addresses that the page has requested since Open or Reload, in order.
func (tab *Tab) Requests() []string {
	tab.t.Helper()
	tab.Eval("0", nil)
	return tab.record.requests()
}

func (r *record) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// judge fails the test for every problem that was not allowed.
func (r *record) judge(t testing.TB, tab steps) {
	t.Helper()
	if err := tab.eval("0", nil); err != nil {
		t.Errorf("the tab does not answer at its end: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.problems {
		if !slices.ContainsFunc(r.allowed, func(part string) bool { return strings.Contains(p, part) }) {
			t.Error(p)
		}
	}
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.problems)
}

func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = nil
}

// policyBinding is the function by which the kit's isolated world in each page reports what the policy refused.
const policyBinding, policyWorld = "testkitPolicy", "testkit"

// watchPolicy records every refusal of the policy, also one that the page itself would not log. The listener lives
// in an isolated world: the page cannot see the listener, and no policy can block it.
func watchPolicy(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	if _, err := cdp.Call(ctx, t, runtime.AddBinding,
		runtime.AddBindingParams{Name: policyBinding, ExecutionContextName: policyWorld}); err != nil {
		return chromedp.Void{}, err
	}
	_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		WorldName: policyWorld,
		Source: "document.addEventListener('securitypolicyviolation', e => " + policyBinding +
			"(`${e.effectiveDirective} refuses ${e.blockedURI} at ${e.sourceFile}:${e.lineNumber} ${e.sample}`), true)",
	})
	return chromedp.Void{}, err
}

// hear records one event of the tab. The browser's events arrive in order.
func (r *record) hear(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(kind, format string, args ...any) {
		r.problems = append(r.problems, kind+": "+fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "assert" {
			add("console", "%s", said(e.Args))
		}
	case *runtime.EventExceptionThrown:
		add("exception", "%s", thrown(e.ExceptionDetails))
	case *runtime.EventBindingCalled:
		if e.Name == policyBinding {
			add("csp", "%s", e.Payload)
		}
	case *log.EventEntryAdded:
		r.logged(e.Entry, add)
	case *network.EventRequestWillBeSent:
		r.address[e.RequestID] = e.Request.URL
		if !favicon(e.Request.URL) {
			r.asked = append(r.asked, e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && !favicon(e.Response.URL) {
			add("request", "%s: %d %s", e.Response.URL, e.Response.Status, e.Response.StatusText)
		}
	case *network.EventLoadingFinished:
		delete(r.address, e.RequestID)
	case *network.EventLoadingFailed:
		left := e.Canceled || e.ErrorText == "net::ERR_ABORTED" // the page cancelled its own request
		if !left && !favicon(r.address[e.RequestID]) {
			add("request", "%s: %s %s", r.address[e.RequestID], e.ErrorText, e.BlockedReason)
		}
		delete(r.address, e.RequestID)
	case *inspector.EventTargetCrashed:
		add("crash", "the page's process died")
	}
}

// favicon says whether an address is the icon that the browser requests on its own. It does so some time after it
// loaded a page that names no icon, such as an answer in plain text. Neither the request nor its answer counts as
// the page's.
func favicon(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Path == "/favicon.ico"
}

// logged records an error of the browser's own log. It skips network errors: the network's events tell more.
func (r *record) logged(e *log.Entry, add func(kind, format string, args ...any)) {
	switch {
	case e.Level != log.EntryLevelError || e.Source == log.EntrySourceNetwork:
	case e.Source == log.EntrySourceSecurity:
		add("csp", "%s", e.Text)
	default:
		add("log", "%s: %s %s", e.Source, e.Text, e.URL)
	}
}

func said(args []*runtime.RemoteObject) string {
	words := make([]string, 0, len(args))
	for _, a := range args {
		word := a.Description
		if word == "" {
			word = strings.Trim(string(a.Value), `"`)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func thrown(e *runtime.ExceptionDetails) string {
	text := e.Text
	if e.Exception != nil {
		text += " " + said([]*runtime.RemoteObject{e.Exception})
	}
	return fmt.Sprintf("%s (%s:%d)", text, e.URL, e.LineNumber+1)
}

func read(from *runtime.RemoteObject, into any) error {
	if len(from.Value) == 0 {
		return fmt.Errorf("it is %s, nothing that JSON has", from.Type)
	}
	return json.Unmarshal(from.Value, into)
}
