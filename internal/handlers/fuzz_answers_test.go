package handlers

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/fuzz"
)

// For every answer of an endpoint, the kept part is small and printable, and the job continues as the contract
// says.
func FuzzAnswers(f *testing.F) {
	f.Attr("proves", "A52")
	known := []DocStatus{docManaged, docSubmitted, docRejected, docBusy, docFailed, docUnknown}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	fuzz.Text(f, func(t *testing.T, text string) {
		status, rest, _ := strings.Cut(text, "\n")
		after, body, _ := strings.Cut(rest, "\n")
		code, _ := strconv.Atoi(status)
		a := Response{Status: code, Header: http.Header{"Retry-After": {after}}, Body: []byte(body),
			Truncated: len(body)%7 == 6}
		value := kept(a)
		if !json.Valid(value) || len(value) > maxKept || !utf8.Valid(value) {
			t.Errorf("kept as %q", value)
		}
		for _, s := range []step{lookedUp(a, now), submitted(a, now)} {
			if !slices.Contains(known, s.Status) || s.wait < 0 || s.wait > time.Hour ||
				s.Status == docBusy && s.wait < time.Second {
				t.Errorf("read as %+v", s)
			}
			if len(s.Detail)+len(s.Said) > 300 || strings.ContainsFunc(s.Detail+s.Said, unicode.IsControl) ||
				!utf8.ValidString(s.Detail) {
				t.Errorf("said as %q, %q", s.Said, s.Detail)
			}
		}
	}, "200\n\n{\"status\":\"MANAGED\",\"detail\":\"done\"}", "503\n120\nbusy", "429\nFri, 01 May 2026 12:01:00 GMT\n{}",
		"200\n\n{\"status\":\"\\u0000\",\"message\":\"a\\r\\nb\"}", "404\n-1\n",
		"200\n99999999999\n"+strings.Repeat("[", 1000), "302\n\n\xff\xfe", "200\n\n"+strings.Repeat("\x01",
			9000), "409\n\n{\"status\":\"try_again_later\"}")
}
