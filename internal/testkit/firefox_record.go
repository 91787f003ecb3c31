package testkit

import (
	"encoding/json"
	"fmt"
)

// Problems returns all problems so far, as Tab.Problems does: console, exception, csp and request. Problems inside
// a SharedWorker are not recorded.
func (tab *FirefoxTab) Problems() []string {
	tab.t.Helper()
	tab.Eval("0", nil) // events of what the page did before arrive before the answer
	return tab.record.all()
}

// Allow is Tab.Allow.
func (tab *FirefoxTab) Allow(parts ...string) { tab.record.allow(parts) }

// Requests returns the addresses that the page has requested since Open or Reload, in order.
func (tab *FirefoxTab) Requests() []string {
	tab.t.Helper()
	tab.Eval("0", nil)
	return tab.record.requests()
}

// hearFirefox records one event of the tab. The browser's events arrive in order.
func (r *record) hearFirefox(method string, params json.RawMessage) {
	var e struct {
		Level, Type, Text string // of the log
		Channel           string // of the kit's isolated world
		Data              struct{ Value string }
		Request           struct{ URL string }
		Response          struct {
			Status     int
			StatusText string
		}
		ErrorText  string
		StackTrace struct {
			CallFrames []struct {
				URL        string
				LineNumber int
			}
		}
	}
	if err := json.Unmarshal(params, &e); err != nil {
		e.Type, e.Level, e.Text = "testkit", "error", fmt.Sprintf("%s cannot be read: %v", method, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(kind, format string, args ...any) {
		r.problems = append(r.problems, kind+": "+fmt.Sprintf(format, args...))
	}
	ours := !favicon(e.Request.URL)
	switch {
	case method == "log.entryAdded" && e.Level == "error" && e.Type == "console":
		add("console", "%s", e.Text)
	case method == "log.entryAdded" && e.Level == "error":
		at := ""
		if frames := e.StackTrace.CallFrames; len(frames) > 0 {
			at = fmt.Sprintf(" (%s:%d)", frames[0].URL, frames[0].LineNumber+1)
		}
		add("exception", "%s%s", e.Text, at)
	case method == "script.message" && e.Channel == policyBinding:
		add("csp", "%s", e.Data.Value)
	case method == "network.beforeRequestSent" && ours:
		r.asked = append(r.asked, e.Request.URL)
	case method == "network.responseCompleted" && ours && e.Response.Status >= 400:
		add("request", "%s: %d %s", e.Request.URL, e.Response.Status, e.Response.StatusText)
	case method == "network.fetchError" && ours && e.ErrorText != "NS_BINDING_ABORTED": // the page cancelled it by leaving
		add("request", "%s: %s", e.Request.URL, e.ErrorText)
	}
}
