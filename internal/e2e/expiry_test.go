package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// finishedExpired is what a process counts that ended one of two jobs, or both: a Redis that is emptied right after the
// first end gets that job again.
var finishedExpired = regexp.MustCompile(`tierq_jobs_finished_total\{outcome="EXPIRED",tier="PUBLIC"\} [12]\n`)

// A job behind a paused tier expires, also after a restart of everything with an empty Redis in between. It is listed
// and counted, it never ran and cannot be requeued, and its callback comes. Jobs that were claimed in time complete.
func TestExpiry(t *testing.T) {
	t.Parallel()
	bin := testkit.BuildTierq(t, "failpoint")
	for name, world := range map[string]func(t *testing.T) (start func() *server, lose func()){
		"redis, emptied": func(t *testing.T) (func() *server, func()) {
			c := newCluster(t)
			return func() *server { return c.start(append(outward, "TIERQ_JOURNAL=on")...) }, c.restartRedisEmpty
		},
		"embedded": func(t *testing.T) (func() *server, func()) {
			dir := t.TempDir()
			return func() *server {
				return startServer(t, bin, append(outward, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir)...)
			}, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, nil)
			start, lose := world(t)
			s := start()
			s.changes(http.MethodPut, "/admin/paused/tier:public", `{"reason":"a migration"}`, 200)
			s.paused()
			in := func(seconds int) string {
				return fmt.Sprintf(`{"expiresIn":%d,"callbackUrl":%q}`, seconds, r.URL+"/told")
			}
			soon, later := s.submit("public", in(2)), s.submit("public", in(12))
			why := do(t, http.MethodGet, s.base+"/api/jobs/"+later+"/why", "")
			if !strings.Contains(string(why.body), "it expires at ") || !strings.Contains(string(why.body), "is paused since") {
				t.Errorf("why: %s", why.body)
			}
			held := do(t, http.MethodGet, s.base+"/result/poll?wait=10s&jobId="+soon, "") // it hears of the end
			if !strings.Contains(string(held.body), `"currentJobStatus":"EXPIRED"`) {
				t.Errorf("a poll that waits: %d %s", held.status, held.body)
			}
			s.await(s.submit("paid", in(60)), "COMPLETED", 10*time.Second)

			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			lose()
			s = start()
			s.await(later, "EXPIRED", 40*time.Second)
			testkit.Eventually(t, 20*time.Second, "SQL has both", func() (bool, string) {
				list := do(t, http.MethodGet, s.base+"/api/jobs?status=EXPIRED&tier=PUBLIC", "")
				body := string(list.body)
				return strings.Contains(body, soon) && strings.Contains(body, later), body
			})
			for _, id := range []string{soon, later} {
				if a := do(t, http.MethodPost, s.base+"/jobs/"+id+"/retry", ""); a.status != http.StatusConflict {
					t.Errorf("a retry of an expired job: %d %s", a.status, a.body)
				}
				job := do(t, http.MethodGet, s.base+"/jobs/"+id, "")
				if body := string(job.body); !strings.Contains(body, `"attempts":0`) || !strings.Contains(body, `"history":[]`) {
					t.Errorf("an expired job: %s", job.body)
				}
			}
			metrics := string(do(t, http.MethodGet, s.base+"/metrics", "").body)
			if !finishedExpired.MatchString(metrics) {
				t.Error("the counter does not have the job that this process ended, or more than both")
			}
			s.changes(http.MethodDelete, "/admin/paused/tier:PUBLIC", "", 204) // callbacks run in the tier of their job
			testkit.Eventually(t, 20*time.Second, "the callbacks", func() (bool, string) {
				told := map[string]string{}
				for _, c := range r.of(http.MethodPost, "/told") {
					var e struct {
						Type string
						Data struct{ JobID, Status string }
					}
					if err := json.Unmarshal(c.body, &e); err != nil {
						t.Fatal(err)
					}
					told[e.Data.JobID] = e.Type + " " + e.Data.Status
				}
				const want = "job.expired EXPIRED"
				return told[soon] == want && told[later] == want && len(told) == 3, fmt.Sprint(told)
			})
		})
	}
}
