package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// Each answer gives the status that the table of lookedUp and submitted says.
func TestDocStatuses(t *testing.T) {
	t.Attr("proves", "S3-S5 S3-S6 S3-S7 S3-S8 S3-S9 S3-S10")
	const said = `{"status":"%s","detail":"words"}`
	for _, c := range []struct {
		status          int
		body            string
		lookup, submits DocStatus
	}{
		{200, fmt.Sprintf(said, "MANAGED"), docManaged, docManaged},
		{200, fmt.Sprintf(said, "managed"), docManaged, docManaged},
		{201, fmt.Sprintf(said, "SUBMITTED"), docSubmitted, docSubmitted},
		{200, fmt.Sprintf(said, "PROCESSING"), docSubmitted, docSubmitted},
		{200, fmt.Sprintf(said, "REJECTED"), docRejected, docRejected},
		{200, fmt.Sprintf(said, "FAILED"), docRejected, docRejected},
		{200, fmt.Sprintf(said, "NOT_MANAGED"), docUnknown, docFailed},
		{200, fmt.Sprintf(said, "TRY_AGAIN_LATER"), docBusy, docBusy},
		{200, fmt.Sprintf(said, "DONE"), docFailed, docSubmitted},
		{200, `{"status":7}`, docFailed, docSubmitted},
		{204, "", docFailed, docSubmitted},
		{200, "<html>", docFailed, docSubmitted},
		{404, "", docUnknown, docRejected},
		{404, fmt.Sprintf(said, "MANAGED"), docUnknown, docRejected},
		{410, "", docRejected, docRejected},
		{409, "", docRejected, docSubmitted},
		{429, "", docBusy, docBusy},
		{503, fmt.Sprintf(said, "MANAGED"), docBusy, docBusy},
		{408, "", docFailed, docFailed}, {425, "", docFailed, docFailed}, {500, "", docFailed, docFailed},
		{504, "", docFailed, docFailed},
		{400, "", docRejected, docRejected}, {401, "", docRejected, docRejected}, {422, "", docRejected, docRejected},
		{302, "",
			docRejected, docRejected},
	} {
		a := Response{Status: c.status, Body: []byte(c.body), Header: http.Header{"Retry-After": {"9"}}}
		for how, got := range map[string]step{"lookup": lookedUp(a, time.Now()), "submission": submitted(a, time.Now())} {
			want, wait := c.lookup, time.Duration(0)
			if how == "submission" {
				want = c.submits
			}
			if want == docBusy {
				wait = 9 * time.Second
			}
			if got.Status != want || got.wait != wait || !strings.HasPrefix(got.Said, fmt.Sprintf("answered %d", c.status)) ||
				strings.Contains(got.Said, "words") {
				t.Errorf("%s: %d %s: %+v, want %s, wait %v", how, c.status, c.body, got, want, wait)
			}
		}
	}
	if s := read(Response{Status: 429}, time.Now()); s.wait != defaultWait {
		t.Errorf("busy without a time: %v", s.wait)
	}
	if s := read(Response{Status: 200, Body: []byte(`{"status":"MANAGED"}`), Truncated: true},
		time.Now()); s.Status != "" {
		t.Errorf("a cut answer was read: %+v", s)
	}
	long := read(Response{Status: 422, Body: []byte(`{"message":"a\r\nb\u001b` + strings.Repeat("ä", 200) + `"}`)},
		time.Now())
	if !strings.HasPrefix(long.Detail, "a  b ä") || len(long.Detail) > 200 {
		t.Errorf("detail = %q", long.Detail)
	}
	if s := unanswered("h", errors.New("call h: gone")); s.Status != docFailed || s.Said != "gone" {
		t.Errorf("no answer: %+v", s)
	}
	if s := unanswered("h", handler.Permanent(errors.New("refused"))); s.Status != docRejected {
		t.Errorf("refused: %+v", s)
	}
}

func TestForwardRefuses(t *testing.T) {
	t.Attr("proves", "S3-I13")
	r := outgoingTypes(wire{closed: func(url string) error {
		if strings.Contains(url, "private") {
			return errors.New("leads inside")
		}
		return nil
	}})
	payload := func(id, contentType, body, endpoints string) string {
		return fmt.Sprintf(`{"documentId":"%s","contentType":"%s","body":%s,"endpoints":[%s]}`, id, contentType, body,
			endpoints)
	}
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"https://e%d.example/a"`, i))
		}
		return strings.Join(all, ",")
	}
	const one = `"https://example.com/base"`
	for text, field := range map[string]string{
		payload("", "text/plain", "1", one):                                                           "payload.documentId",
		payload("..", "text/plain", "1", one):                                                         "payload.documentId",
		payload(`a\u0000`, "text/plain", "1", one):                                                    "payload.documentId",
		payload(strings.Repeat("x", 201), "text/plain", "1", one):                                     "payload.documentId",
		payload("1", "", "1", one):                                                                    "payload.contentType",
		payload("1", `text/plain\r\nX: y`, "1", one):                                                  "payload.contentType",
		`{"documentId":"1","contentType":"a/b","endpoints":[` + one + `]}`:                            "payload.body",
		payload("1", "a/b", "1", ""):                                                                  "payload.endpoints",
		payload("1", "a/b", "1", many(21)):                                                            "payload.endpoints",
		payload("1", "a/b", "1", one+`,"ftp://example.com"`):                                          "payload.endpoints[1]",
		payload("1", "a/b", "1", `"https://example.com/?a=b"`):                                        "payload.endpoints[0]",
		payload("1", "a/b", "1", `"https://example.com/?"`):                                           "payload.endpoints[0]",
		payload("1", "a/b", "1", one+`,"https://example.com/base/"`):                                  "payload.endpoints[1]",
		payload("1", "a/b", "1", `"https://example.com/`+strings.Repeat("x", maxEndpointURL)+`"`):     "payload.endpoints[0]",
		payload("1", "a/b", "1", one+`,"http://private.example"`):                                     "payload.endpoints[1]",
		payload("1", "a/b", "1", `7`):                                                                 "payload.endpoints",
		`{"documentId":"1","contentType":"a/b","body":1,"endpoints":[` + one + `],"endpoint":"more"}`: "payload",
	} {
		err := r.Check("FORWARD_DOCUMENT", []byte(text))
		var wrong *handler.PayloadError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%.100s: %v, want a PayloadError of %q", text, err, field)
		}
	}
	for _, text := range []string{payload("a/ä b", "text/plain; charset=utf-8", "null", one),
		payload("1", "application/json",
			`{"a":[]}`, many(20))} {
		if err := r.Check("FORWARD_DOCUMENT", []byte(text)); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
	}
	if got := lookupURL("https://e.example/a//", "x/../ä?"); got != "https://e.example/a/documents/x%2F..%2F%C3%A4%3F" {
		t.Errorf("lookup at %s", got)
	}
}

// The checkpoint of a job with the most endpoints and the longest texts fits its limit.
func TestForwardCheckpointFits(t *testing.T) {
	t.Attr("proves", "S3-I13")
	steps := make([]step, maxEndpoints)
	for i := range steps {
		steps[i] = step{Status: docBusy, Said: line(strings.Repeat("\"", 300)), Detail: line(strings.Repeat("<\\", 300))}
	}
	d := deliver(t)
	ctx := handler.WithRun(t.Context(), handler.Run{
		Save: func(_ context.Context, text []byte) error { d.saved = text; return nil },
	})
	if err := save(ctx, steps); err != nil {
		t.Errorf("%d endpoints: %v", len(steps), err)
	}
	if got := saved(d.saved, len(steps)); got[7] != steps[7] {
		t.Errorf("read back %+v", got[7])
	}
	for _, other := range []string{"", "{", `{"a":1}`, `[{},{}]`} {
		if got := saved([]byte(other), 3); len(got) != 3 || got[0] != (step{}) {
			t.Errorf("%q reads as %+v", other, got)
		}
	}
}
