package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A worker's key that submits, with a prefix of queues and a bound of leases, works on two processes: it declares its
// queue, submits into it and nowhere else, sees its own jobs only, and all its workers together hold no more leases
// than it may.
func TestWorkerKeyThatSubmits(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery")
	boss := s.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	other := c.start("TIERQ_ROLES=api")
	made := s.makeKey(boss.Key, http.MethodPost, "/admin/keys",
		`{"name":"both","role":"worker","queues":["images*"],"submits":true,"leases":3}`)
	claim := func(s *server, worker, members string) answer {
		return s.asks(made.Key, http.MethodPost, "/api/worker/claim",
			`{"worker":"`+worker+`","queues":["images:thumbs"]`+members+`}`)
	}
	for _, s := range []*server{s, other} {
		testkit.Eventually(t, 20*time.Second, "the process knows the key and its queue", func() (bool, string) {
			a := claim(s, "w", "")
			return a.status == http.StatusOK, string(a.body)
		})
	}
	var ids []string
	for i := range 8 {
		a := []*server{s, other}[i%2].asks(made.Key, http.MethodPost, "/paid/submit",
			`{"type":"RESIZE","queue":"images:thumbs","payload":{}}`)
		ids = append(ids, accepted(t, a))
	}
	wants(t, s.asks(made.Key, http.MethodPost, "/paid/submit", `{}`), 403, "FORBIDDEN")
	wants(t, s.asks(made.Key, http.MethodGet, "/admin/jobs", ""), 403, "FORBIDDEN")
	foreign := accepted(t, s.asks(boss.Key, http.MethodPost, "/paid/submit",
		`{"type":"RESIZE","queue":"images:thumbs","payload":{},"delaySeconds":3600}`))
	wants(t, s.asks(made.Key, http.MethodGet, "/result/poll?jobId="+foreign, ""), 404, "JOB_NOT_FOUND")
	wants(t, s.asks(made.Key, http.MethodGet, "/result/poll?jobId="+ids[0], ""), 200, "")

	type claimed struct {
		Jobs []struct{ JobID, Lease string }
	}
	var one, two claimed
	read := func(a answer, into *claimed) {
		t.Helper()
		if err := json.Unmarshal(a.body, into); err != nil || a.status != http.StatusOK {
			t.Fatalf("%v: %d %s", err, a.status, a.body)
		}
	}
	read(claim(s, "w1", `,"max":2`), &one)
	read(claim(other, "w2", `,"max":5`), &two)
	if len(one.Jobs) != 2 || len(two.Jobs) != 1 {
		t.Fatalf("%d and %d leases, want 2 and 1", len(one.Jobs), len(two.Jobs))
	}
	for _, s := range []*server{s, other} {
		a := claim(s, "w3", `,"wait":"20s"`)
		wants(t, a, 429, "RATE_LIMITED")
		if a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "run 3 jobs") {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	wants(t, other.asks(made.Key, http.MethodPost, "/api/worker/complete",
		fmt.Sprintf(`{"lease":%q,"result":{}}`, one.Jobs[0].Lease)), 200, "")
	var three claimed
	read(claim(s, "w3", `,"max":5`), &three)
	if len(three.Jobs) != 1 {
		t.Errorf("after one end %d leases", len(three.Jobs))
	}
	wants(t, s.asks(made.Key, http.MethodPost, "/api/jobs/"+ids[7]+"/cancel", ""), 200, "")
}
