package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"
)

// Lines are shown without the characters that a terminal obeys, page after page, and a gap says how many lines are
// lost.
func TestJobsLogs(t *testing.T) {
	f := newFake(t)
	var asked []string
	f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.URL.Path != "/api/jobs/"+doneID+"/logs" {
			return false
		}
		asked = append(asked, r.URL.RawQuery)
		line := obj{"seq": 1000001, "attempt": 1, "at": fixedNow, "level": "WARN", "text": hostile,
			"attrs": obj{hostile: hostile}}
		more := len(asked)%2 == 1
		if !more {
			line = obj{"seq": 1000009, "attempt": 1, "at": fixedNow, "level": "GAP", "text": "", "lost": 7}
		}
		reply(w, http.StatusOK, obj{"items": []obj{line}, "after": line["seq"], "more": more, "ended": true})
		return true
	})
	end := f.cli(t, world{}, "jobs", "logs", doneID, "--level", "warn", "--attempt", "1")
	lines := strings.Split(strings.TrimSpace(end.stdout), "\n")
	if end.code != 0 || len(lines) != 2 || !strings.Contains(lines[0], "WARN") || !strings.Contains(lines[0], "red") ||
		!strings.Contains(lines[1], "GAP    7 lines are lost") {
		t.Errorf("%+v", end)
	}
	for _, c := range strings.Join(lines, "") {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			t.Errorf("the terminal gets %q: %q", c, lines)
		}
	}
	if len(asked) != 2 || !strings.Contains(asked[0], "level=WARN") || !strings.Contains(asked[1], "after=1000001") {
		t.Errorf("asked %q", asked)
	}
	end = f.cli(t, world{}, "jobs", "logs", doneID, "-o", "ndjson")
	for line := range strings.Lines(end.stdout) {
		if !json.Valid([]byte(line)) || strings.ContainsFunc(strings.TrimSpace(line), unicode.IsControl) {
			t.Errorf("no JSON, or a control character: %q", line)
		}
	}
	asked = nil
	for _, wrong := range [][]string{{"--attempt", "-1"}, {"--after", "-1"}, {"-f", "-o", "json"}} {
		end := f.cli(t, world{}, append([]string{"jobs", "logs", doneID}, wrong...)...)
		if end.code != 2 || len(asked) > 0 {
			t.Errorf("%v: %+v, asked %q", wrong, end, asked)
		}
	}
}
