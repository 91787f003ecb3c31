package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// No line of the log, at its most detailed level and in both modes, contains payloads, results, keys or addresses:
// for jobs that complete, that fail with their payload in the error, that exceed their time, that are refused,
// cancelled or requeued. (The message of a SIMULATION's LOG step is logged, because that is its purpose.)
func TestNoSecretInTheLog(t *testing.T) {
	t.Attr("proves", "A11 A47")
	t.Parallel()
	bin := testkit.BuildTierq(t)
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		noSecretInTheLog(t, startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir(),
			"TIERQ_LOG_LEVEL=debug"))
	})
	t.Run("external", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		noSecretInTheLog(t, c.start("TIERQ_LOG_LEVEL=debug", "TIERQ_JOURNAL=on"))
	})
}

func noSecretInTheLog(t *testing.T, s *server) {
	t.Helper()
	const hush = "hush-7f3a"
	s.tune("PAID", map[string]any{"maxRetries": 1, "backoff": backoff(10)})
	closed := "http://127.0.0.1:1/" + hush
	ends := map[string]string{}
	for body, end := range map[string]string{
		`{"payload":{"steps":[{"type":"FAIL","message":"no such card: ` + hush +
			`"}]}}`: "FAILED",
		`{"type":"GENERATE_PDF","payload":{"title":"` + hush + `","paragraphs":["` + hush +
			`"]}}`: "COMPLETED",
		`{"type":"SEND_EMAIL","payload":{"to":"` + hush + `@example.org","subject":"` + hush + `","body":"` + hush +
			`"}}`: "COMPLETED",
		`{"type":"SEND_WEBHOOK","payload":{"url":"https://` + hush + `.invalid/x","headers":{"X-Key":"` + hush +
			`"},"body":"` + hush + `"}}`: "FAILED",
	} {
		a := s.ask("paid", body, "Idempotency-Key", hush+end+body[:14])
		if a.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
		ends[accepted(t, a)] = end
	}
	for _, body := range []string{
		`{"payload":{"steps":[{"type":"` + hush + `"}]}}`, `{"` + hush + `":1}`, `{"payload":"` + hush,
		`{"type":"` + hush + `"}`, `{"callbackUrl":"` + closed + `"}`,
		`{"type":"SEND_EMAIL","payload":{"to":"` + hush + `"}}`,
	} {
		if a := s.ask("paid", body); a.status < 400 {
			t.Errorf("%s: %d", body, a.status)
		}
	}
	for _, path := range []string{"/" + hush, "/jobs/" + hush, "/result/poll?jobId=" + hush, "/admin/jobs?cursor=" + hush,
		"/livez?" + hush} {
		do(t, http.MethodGet, s.base+path, "", "Authorization", "Bearer tq_"+hush, "X-Api-Key", hush, "Cookie", hush)
	}
	var failed string
	for id, end := range ends {
		s.await(id, end, 30*time.Second)
		if end == "FAILED" {
			failed = id
			testkit.Eventually(t, 10*time.Second, "the dead letter can be requeued", func() (bool, string) {
				a := do(t, http.MethodPost, s.base+"/jobs/"+id+"/retry", "")
				return a.status == http.StatusAccepted, string(a.body)
			})
		}
	}
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	log := s.Output()
	for line := range strings.Lines(log) {
		if strings.Contains(line, hush) {
			t.Errorf("the log says: %s", line)
		}
	}
	if !strings.Contains(log, failed) || !strings.Contains(log, `"request"`) {
		t.Error("the log does not talk")
	}
}
