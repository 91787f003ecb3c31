package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// The reasons of a requeue and a cancel are stored with the job: with a waiting job, with a running one, and after
// further requeues.
func TestReasonsAreKept(t *testing.T) {
	t.Attr("proves", "S3-I16")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_WORKERS=1")
	why := func(id string) string {
		text := ""
		for _, r := range get[sdk.Job](t, s.base+"/jobs/"+id).Reasons {
			text += fmt.Sprintf("%s %d %s. ", r.Action, r.Generation, r.Reason)
		}
		return text
	}
	dead := s.submit("paid", `{"payload":{"steps":[{"type":"FAIL"}]},"maxRetries":0}`)
	c.settled(20*time.Second, dead)
	wants(
		t,
		do(t, http.MethodPost, s.base+"/jobs/"+dead+"/retry", `{"reason":"the bank <is> back"}`),
		http.StatusAccepted,
		"",
	)
	testkit.Eventually(t, 20*time.Second, "the second life has failed too", func() (bool, string) {
		j := get[sdk.Job](t, s.base+"/jobs/"+dead)
		return j.Generation == 2 && j.Status == sdk.Failed, fmt.Sprint(j.Generation, j.Status)
	})
	if got := why(dead); got != "requeue 1 the bank <is> back. " {
		t.Errorf("requeued: %q", got)
	}
	runs := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`)
	waits := s.submit("public", "{}")
	s.await(runs, "PROCESSING", 10*time.Second)
	wants(t, do(t, http.MethodDelete, s.base+"/api/jobs/"+waits+"?reason=ordered+twice", ""), http.StatusOK, "")
	wants(
		t,
		do(t, http.MethodPost, s.base+"/api/jobs/"+runs+"/cancel", `{"reason":"takes too long"}`),
		http.StatusAccepted,
		"",
	)
	for id, want := range map[string]string{waits: "cancel 1 ordered twice. ", runs: "cancel 1 takes too long. "} {
		if got := why(id); got != want {
			t.Errorf("at once: %q, want %q", got, want)
		}
		s.await(id, "CANCELLED", 20*time.Second)
	}
	c.settled(20*time.Second, runs, waits)
	if got := why(runs) + why(waits); got != "cancel 1 takes too long. cancel 1 ordered twice. " {
		t.Errorf("in SQL: %q", got)
	}
	if page := do(t, http.MethodGet, s.base+"/poll?jobId="+dead, "", "Accept", "text/html"); !strings.Contains(
		string(page.body),
		"the bank &lt;is&gt; back",
	) {
		t.Error("the page of the job does not say why, or not escaped")
	}
	log := string(do(t, http.MethodGet, s.base+"/admin/audit", "").body)
	for _, reason := range []string{"the bank <is> back", "ordered twice", "takes too long"} {
		if !strings.Contains(log, reason) {
			t.Errorf("the log of changes does not say %q: %s", reason, log)
		}
	}
}
