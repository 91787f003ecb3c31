package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
)

// Whatever callers put into their requests, a log record stays one line with its control characters escaped, at
// the most detailed level and in both formats.
func TestLogInjection(t *testing.T) {
	t.Attr("proves", "A54")
	t.Parallel()
	const evil = "x\r\nlevel=ERROR msg=\"all is lost\"\r\n{\"level\":\"ERROR\",\"msg\":\"all is " +
		"lost\"}\x1b[31m\x1b]0;title\x07\x00\u009b1m"
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			s := c.start("TIERQ_LOG_LEVEL=debug", "TIERQ_LOG_FORMAT="+format, "TIERQ_WORKERS=2")
			before := len(s.Output())
			raw := func(text string) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				_, _ = io.WriteString(conn, text)
				_, _ = bufio.NewReader(conn).ReadString('\n')
			}
			ids := []string{
				s.submit("paid", `{"payload":{"steps":[{"type":"LOG","message":`+string(quoted)+`}]}}`),
				s.submit("paid", `{"maxRetries":0,"payload":{"steps":[{"type":"FAIL","message":`+string(quoted)+`}]}}`),
			}
			for _, body := range []string{
				`{"type":` + string(quoted) + `}`, `{` + string(quoted) + `:1}`, `{"callbackUrl":` + string(quoted) + `}`,
				`{"payload":{` + string(quoted) + `:1}}`,
				`{"type":"SEND_EMAIL","payload":{"to":` + string(quoted) + `,"subject":` + string(quoted) + `,"body":"x"}}`,
				"{\"type\":\"" + evil + "\"}",
			} {
				if a := s.ask("paid", body); a.status < 400 {
					t.Errorf("%.40q: %d", body, a.status)
				}
			}
			const escaped = "%0d%0alevel=ERROR%1b%5b31m%00"
			for _, path := range []string{"/" + escaped, "/" + escaped + "/submit", "/api/jobs/" + escaped,
				"/result/poll?jobId=" + escaped, "/admin/jobs?cursor=" + escaped, "/debug/pprof/" + escaped} {
				for _, method := range []string{"GET", "POST", "E\x1bIL", "EVIL"} {
					raw(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
				}
			}
			for _, name := range []string{"User-Agent", "Idempotency-Key", "X-Trace-Id", "Traceparent", "X-Forwarded-For",
				"Authorization", "Last-Event-ID", "Origin", "Host", "Referer"} {
				for _, value := range []string{"x\x1b[31mred", "x\r\n folded: level=ERROR", "x\rlevel=ERROR", "x\x00y",
					"x\u009b31m", strings.Repeat("y", 9000)} {
					raw("POST /paid/submit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n" + name + ": " + value + "\r\n\r\n")
				}
			}
			raw("\x1b[31m GET / HTTP/1.1\r\n\r\n")
			for _, id := range ids {
				s.ended(id, 15*time.Second)
			}
			wants(t, do(t, http.MethodGet, s.base+"/livez", ""), http.StatusOK, "")
			log := s.Output()[before:]
			log = log[:strings.LastIndexByte(log, '\n')+1]
			records := 0
			for line := range strings.Lines(log) {
				records++
				line = strings.TrimSuffix(line, "\n")
				if problem := brokenRecord(format, line); problem != "" {
					t.Errorf("%s: %.300q", problem, line)
				}
			}
			if !strings.Contains(log, "all is lost") {
				t.Error("nothing of it is in the log: the test tries nothing")
			}
			t.Logf("evidence: %d records, each one line", records)
		})
	}
}

// brokenRecord returns the error in one line of a log; "" if there is none.
func brokenRecord(format, line string) string {
	for _, r := range line {
		if r < ' ' || r == 0x7f || format == "text" && unicode.IsControl(r) {
			return fmt.Sprintf("a control character %U", r)
		}
	}
	if format == "text" {
		if !strings.HasPrefix(line, "time=") {
			return "not the beginning of a record"
		}
		return ""
	}
	var record struct{ Time, Level, Msg string }
	if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "" || record.Msg == "all is lost" {
		return "not a record of ours"
	}
	return ""
}

// ended waits until a job has ended, in any way.
func (s *server) ended(id string, within time.Duration) {
	s.t.Helper()
	a := do(s.t, http.MethodGet, fmt.Sprintf("%s/result/poll?jobId=%s&wait=%s", s.base, id, min(within, 9*time.Second)),
		"")
	if !strings.Contains(string(a.body), `"COMPLETED"`) && !strings.Contains(string(a.body), `"FAILED"`) {
		s.t.Fatalf("%s has not ended: %s", id, a.body)
	}
}
