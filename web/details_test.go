package web

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// drawn is a page's text.
func drawn(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is wrong with no field in particular is said without one.
func TestErrors(t *testing.T) {
	text := drawn(t, func(w io.Writer) error {
		return set.Jobs(w, JobsView{Errors: []FieldError{{"", "is not possible"}, {"tier", "is none"}}})
	})
	for _, want := range []string{`<p class="wrong">is not possible</p>`, `<p class="wrong">tier: is none</p>`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// A watch that runs here says when it looks again; of another nothing is said.
func TestWatches(t *testing.T) {
	s := &Snapshot{At: now, Watches: []Watch{{"crashed", 12, now.Add(2100 * time.Millisecond)}, {"stuck", 5, time.Time{}}}}
	text := drawn(t, func(w io.Writer) error {
		return set.Dashboard(w, DashboardView{Frame: Frame{Now: now}, Snapshot: s})
	})
	for _, want := range []string{
		`<span data-watch="crashed">crashed every <span data-f="every">12 s</span>, next in <span data-f="next">` +
			"\u20073 s</span></span>",
		`<span data-watch="stuck">stuck every <span data-f="every">5 s</span></span>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// The way to the login knows the way back, and what was asked there.
func TestLoginLink(t *testing.T) {
	text := drawn(t, func(w io.Writer) error {
		return set.About(w, AboutView{Frame: Frame{Path: "/poll", Here: `/poll?jobId=a&b="c"`}})
	})
	if want := `href="/login?next=%2fpoll%3fjobId%3da%26b%3d%22c%22"`; !strings.Contains(text, want) {
		t.Errorf("%s is missing", want)
	}
}
