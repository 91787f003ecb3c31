package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A payload of the largest size is accepted and run. One byte more is refused and leaves nothing behind.
func TestPayloadAtItsLimit(t *testing.T) {
	t.Attr("proves", "F49")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	const limit = 64 << 10
	mail := func(size int) string {
		frame := `{"to":"a@example.com","subject":"x","body":""}`
		return `{"type":"SEND_EMAIL","payload":` +
			strings.Replace(frame, `""`, `"`+strings.Repeat("y", size-len(frame))+`"`, 1) + `}`
	}
	wants(t, s.ask("paid", mail(limit+1)), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	if n := c.jobsInRedis(); n != 0 {
		t.Errorf("a refused payload left %d jobs", n)
	}
	id := s.submit("paid", mail(limit))
	s.await(id, "COMPLETED", 10*time.Second)
	if got := c.settled(10*time.Second, id); len(got) != 1 {
		t.Errorf("outcomes %v", got)
	}
}

// A result of 50 MB ends its job at once, whatever retries it has. A result of the largest allowed size is kept
// whole.
func TestResultTooLarge(t *testing.T) {
	t.Attr("proves", "F50")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	const limit = 64 << 10
	big := func(bytes int) string {
		return fmt.Sprintf(`{"type":"BIG","payload":{"bytes":%d},"maxRetries":5}`, bytes)
	}
	kept, over, huge := s.submit("paid", big(limit)), s.submit("paid", big(limit+1)), s.submit("paid", big(50<<20))
	if p := s.await(kept, "COMPLETED", 10*time.Second); len(p.Result) != limit {
		t.Errorf("a result of %d bytes, want %d", len(p.Result), limit)
	}
	for _, id := range []string{over, huge} {
		p := s.await(id, "FAILED", 20*time.Second)
		if p.FailureCause == nil || *p.FailureCause != "RESULT_TOO_LARGE" || p.RetryCount != 0 {
			t.Errorf("%+v", p)
		}
	}
	c.settled(10*time.Second, kept, over, huge)
	var rows int
	c.row(`SELECT COUNT(*) FROM failed_jobs WHERE failure_cause = 'RESULT_TOO_LARGE' AND attempts = 1`, &rows)
	if rows != 2 {
		t.Errorf("%d dead letters after one attempt, want 2", rows)
	}
	testkit.Eventually(t, 5*time.Second, "the server still works", func() (bool, string) {
		p := s.poll(s.submit("paid", `{}`))
		return p.Status != "FAILED", p.Status
	})
}
