package httpapi

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// asksUnique submits a body with a member unique, and returns the submission.
func asksUnique(t *testing.T, path, member string, headers ...string) job.Submission {
	t.Helper()
	r := newRooms(t)
	if rec := r.json("POST", path, `{"type":"SIMULATION","unique":`+member+`}`, headers...); rec.Code != 202 {
		t.Fatalf("%s: %d %s", member, rec.Code, rec.Body)
	}
	return r.submitted[0]
}

func TestUnique_IsRead(t *testing.T) {
	t.Parallel()
	s := asksUnique(t, "/paid/submit", `{"key":"report 7"}`)
	hash := s.UniqueHash()
	if len(hash) != 32 || !hexadecimal(hash) || s.Unique != hash+".l" || s.UniqueOn != job.UniqueReturn || s.MaxWait != 0 {
		t.Errorf("by default: %+v", s)
	}
	for member, want := range map[string]struct {
		while string
		on    job.UniqueOn
		wait  time.Duration
	}{
		`{"key":"report 7","while":"waiting","on":"refuse"}`:              {"w", job.UniqueRefuse, 0},
		`{"key":"report 7","while":"living","on":"replace","maxWait":60}`: {"l", job.UniqueReplace, time.Minute},
		`{"key":"report 7","while":2592000,"on":"return"}`:                {"s2592000", job.UniqueReturn, 0},
		`{"on":"after","key":"report 7"}`:                                 {"l", job.UniqueAfter, 0},
	} {
		if s := asksUnique(t, "/unpaid/submit", member); s.Unique != hash+"."+want.while || s.UniqueOn != want.on ||
			s.MaxWait != want.wait {
			t.Errorf("%s: %+v", member, s)
		}
	}
	if other := asksUnique(t, "/paid/submit", `{"key":"report 8"}`); other.UniqueHash() == hash {
		t.Error("another key has the same hash")
	}
	ann := &job.Caller{Key: job.Key{ID: "ann"}}
	bob := &job.Caller{Address: netip.MustParseAddr("192.0.2.7")}
	report, x := &uniqueAsked{key: "report 7"}, &uniqueAsked{key: "x"}
	if uniqueHash(ann, report) == uniqueHash(bob, report) || ownKey("ann", "x") == uniqueHash(ann, x) {
		t.Error("two callers, or two kinds of keys, have one hash")
	}
}

// A bad member says which part of it is wrong, and nothing is submitted.
func TestUnique_IsChecked(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		`"report 7"`: `"field":"unique","reason":"must be an object`,
		`{}`:         `"field":"unique.key","reason":"is missing"`,
		`{"key":""}`: `"field":"unique.key","reason":"must be a text`,
		`{"key":7}`:  `"field":"unique.key","reason":"must be a text`,
		`{"key":"` + strings.Repeat("x", 129) + `"}`: `"field":"unique.key"`,
		`{"key":"a","while":"running"}`:              `"field":"unique.while"`,
		`{"key":"a","while":0}`:                      `"field":"unique.while"`,
		`{"key":"a","while":2592001}`:                `"field":"unique.while"`,
		`{"key":"a","while":1.5}`:                    `"field":"unique.while"`,
		`{"key":"a","on":"drop"}`:                    `"field":"unique.on"`,
		`{"key":"a","on":"after","while":60}`:        `"field":"unique.on","reason":"must be return or refuse`,
		`{"key":"a","on":"replace","while":60}`:      `"field":"unique.on"`,
		`{"key":"a","maxWait":60}`:                   `"field":"unique.maxWait"`,
		`{"key":"a","on":"replace","maxWait":0}`:     `"field":"unique.maxWait"`,
		`{"key":"a","scope":"type"}`:                 `"field":"unique.scope","reason":"unknown field"`,
	} {
		r := newRooms(t)
		rec := r.json("POST", "/paid/submit", `{"unique":`+member+`}`)
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), want) || len(r.submitted) > 0 {
			t.Errorf("%s: %d %s", member, rec.Code, rec.Body)
		}
	}
}

// The answers say which job stands for the submit, and whether that job runs already.
func TestUnique_Answers(t *testing.T) {
	t.Parallel()
	other := job.ID("019de340-01fe-7a58-be69-567cd7d6b700")
	for name, c := range map[string]struct {
		accepted job.Accepted
		err      error
		code     int
		want     []string
	}{
		"held":   {accepted: job.Accepted{ID: other, Held: true}, code: 202, want: []string{`"HELD"`}},
		"return": {accepted: job.Accepted{ID: other, Deduplicated: true}, code: 202, want: []string{`"deduplicated":true`}},
		"replaced": {accepted: job.Accepted{ID: other, Deduplicated: true, Replaced: true}, code: 202,
			want: []string{`"deduplicated":true`, `"replaced":true`}},
		"refuse": {err: &job.TakenError{ID: other}, code: 409, want: []string{`"errorCode":"UNIQUE_TAKEN"`}},
	} {
		for path, body := range map[string]string{
			"/paid/submit": `{"unique":{"key":"a"}}`,
			"/jobs":        `{"type":"SIMULATION","tier":"PAID","unique":{"key":"a"}}`,
			"/api/jobs":    `{"jobType":"SIMULATION","tier":"PAID","unique":{"key":"a"}}`,
		} {
			r := newRooms(t)
			r.submit = func(context.Context, job.Submission) (job.Accepted, error) { return c.accepted, c.err }
			rec := r.json("POST", path, body)
			text := rec.Body.String()
			if rec.Code != c.code || !strings.Contains(text, string(other)) {
				t.Errorf("%s, %s: %d %s", name, path, rec.Code, text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) && !(want == `"HELD"` && path == "/api/jobs") {
					t.Errorf("%s, %s: %s, want %s", name, path, text, want)
				}
			}
		}
	}
}

// With a unique key the submit goes to the unique key's partition, and its Idempotency-Key counts for that key alone.
func TestUnique_AndIdempotencyKey(t *testing.T) {
	t.Parallel()
	key := []string{"Idempotency-Key", "order-7"}
	a, b := asksUnique(t, "/paid/submit", `{"key":"a"}`, key...), asksUnique(t, "/paid/submit", `{"key":"b"}`, key...)
	again := asksUnique(t, "/paid/submit", `{"key":"a","on":"refuse"}`, key...)
	plain := keyed(t, "/paid/submit", "order-7", `{"type":"SIMULATION"}`)
	for _, s := range []job.Submission{a, b} {
		if job.Home(s.Idempotency.Key, 256) != job.Home(s.UniqueHash(), 256) || len(s.Idempotency.Key) != 32 {
			t.Errorf("the keys lie apart: %+v", s)
		}
	}
	if a.Idempotency.Key == b.Idempotency.Key || a.Idempotency.Key == plain.Key {
		t.Error("one Idempotency-Key for two unique keys")
	}
	if again.Idempotency.Key != a.Idempotency.Key || again.Idempotency.Body == a.Idempotency.Body {
		t.Errorf("another on is the same body: %+v", again.Idempotency)
	}
}

func TestUnique_WhyAHeldJobWaits(t *testing.T) {
	t.Parallel()
	w := Why{Job: job.Job{Status: job.Held}, Holder: "the-holder"}
	if got := strings.Join(w.reasons(), "; "); got != "it waits for job the-holder, which has its unique key" {
		t.Error(got)
	}
	w.Holder = ""
	if got := strings.Join(w.reasons(), "; "); got != "it waits for the job that has its unique key" {
		t.Error(got)
	}
}
