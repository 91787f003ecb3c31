package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// busyEndpoint answers every call with "later", in this number of seconds.
func busyEndpoint(t *testing.T, seconds int) *receiver {
	return newReceiver(t, func(w http.ResponseWriter, _ call, _ int) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		w.WriteHeader(http.StatusTooManyRequests)
	})
}

// A flood of documents whose endpoint is busy once escaped every limit. Each document was claimed and delayed
// again, and kept its payload in Redis, until Redis was full and refused PAID. Now the living jobs of PUBLIC count
// against PUBLIC's share, and PAID is admitted.
func TestFloodOfBusyDocuments(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	flood := func(t *testing.T, s *server) {
		t.Helper()
		endpoint := busyEndpoint(t, 3600)
		large := strings.Replace(documents(endpoint, "busy"), "hello", strings.Repeat("x", 60_000), 1)
		refused := answer{}
		testkit.Eventually(t, time.Minute, "PUBLIC is refused", func() (bool, string) {
			for range 20 {
				if refused = s.ask("public", large); refused.status != http.StatusAccepted {
					return true, ""
				}
			}
			return false, "all were accepted"
		})
		wants(t, refused, http.StatusServiceUnavailable, "QUEUE_FULL")
		if !strings.Contains(string(refused.body), "have not ended") {
			t.Errorf("PUBLIC was refused with %s", refused.body)
		}
		for range 3 {
			s.await(s.submit("paid", `{}`), "COMPLETED", 20*time.Second)
		}
		late := s.ask("public", strings.Replace(large, `"type"`, `"delaySeconds":60,"type"`, 1))
		wants(t, late, http.StatusServiceUnavailable, "QUEUE_FULL")
		if n := len(endpoint.heard()); n < 20 {
			t.Errorf("%d documents were claimed, so the flood was another one", n)
		}
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		if err := c.rdb.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(32<<20)).Err(); err != nil {
			t.Fatal(err)
		}
		flood(t, c.start(outward...))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t, append([]string{"TIERQ_LIVING_BYTES=8MiB"}, outward...)...)
		e.start()
		flood(t, e.server)
	})
}

// A job with one retry whose endpoint is always busy is attempted as often as the limit of free "later" endings
// allows, and then once more for its retry.
func TestLaterHasAnEnd(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start(append([]string{"TIERQ_LATER_LIMIT=3"}, outward...)...)
	id := s.submit("public", strings.Replace(documents(busyEndpoint(t, 1), "busy"), `"type"`, `"maxRetries":1,"type"`, 1))
	failed := s.await(id, "FAILED", time.Minute)
	if failed.FailureCause == nil || *failed.FailureCause != "LATER_LIMIT" || failed.RetryCount != 1 {
		t.Errorf("%+v", failed)
	}
	c.settled(20*time.Second, id)
	var attempts int
	var why string
	c.row(`SELECT attempts FROM failed_jobs WHERE failure_cause = 'LATER_LIMIT'`, &attempts)
	c.row(`SELECT last_error FROM failed_jobs WHERE failure_cause = 'LATER_LIMIT'`, &why)
	if attempts != 5 || !strings.HasPrefix(why, "later more than 3 times: 1 of 1 endpoints say TRY_AGAIN_LATER") {
		t.Errorf("%d attempts, because %q", attempts, why)
	}
}
