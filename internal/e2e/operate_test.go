package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// A delayed job is hastened, and runs. Another one is killed: it is a dead letter until it is dismissed, and runs when
// it is requeued after that. A running job is neither killed nor hastened.
func TestOperate(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{"no journal": nil, "journal": {"TIERQ_JOURNAL=on"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			s := c.start(append(settings, "TIERQ_WORKERS=2")...)
			post := func(path, body string, status int) {
				t.Helper()
				code := map[int]string{http.StatusConflict: "INVALID_STATE_TRANSITION", http.StatusNotFound: "JOB_NOT_FOUND"}
				wants(t, do(t, http.MethodPost, s.base+path, body), status, code[status])
			}
			dead := func() (ids []string) {
				for _, l := range get[sdk.Page](t, s.base+"/admin/dead").Items {
					ids = append(ids, l.JobID)
				}
				return ids
			}
			delayed := `{"delaySeconds":3600}`
			hastened, killed := s.submit("paid", delayed), s.submit("paid", delayed)
			post("/admin/jobs/"+hastened+"/hasten", "", http.StatusOK)
			s.await(hastened, "COMPLETED", 20*time.Second)
			post("/admin/jobs/"+hastened+"/hasten", "", http.StatusConflict)

			for range 2 {
				post("/admin/jobs/"+killed+"/kill", `{"reason":"the customer has left"}`, http.StatusOK)
			}
			testkit.Eventually(t, 20*time.Second, "it is a dead letter", func() (bool, string) {
				return fmt.Sprint(dead()) == fmt.Sprint([]string{killed}), fmt.Sprint(dead())
			})
			j := get[sdk.Job](t, s.base+"/jobs/"+killed)
			if j.Status != sdk.Failed || j.FailureCause != "KILLED" || j.LastError != "the customer has left" || j.Attempts != 0 {
				t.Errorf("%+v", j)
			}
			for range 2 {
				post("/admin/dead/"+killed+"/dismiss", `{"reason":"refunded"}`, http.StatusOK)
			}
			j = get[sdk.Job](t, s.base+"/jobs/"+killed)
			if len(dead()) > 0 || j.Status != sdk.Failed || len(j.Reasons) != 1 || j.Reasons[0].Reason != "refunded" {
				t.Errorf("%v, %+v", dead(), j)
			}
			post("/jobs/"+killed+"/retry", "", http.StatusAccepted)
			s.await(killed, "COMPLETED", 20*time.Second)
			post("/admin/dead/"+killed+"/dismiss", "", http.StatusConflict)

			runs := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":30000}]}}`)
			s.await(runs, "PROCESSING", 20*time.Second)
			post("/admin/jobs/"+runs+"/kill", "", http.StatusConflict)
			post("/admin/jobs/"+runs+"/hasten", "", http.StatusConflict)
			post("/admin/jobs/"+runs[:34]+"ff/kill", "", http.StatusNotFound)
			for _, wrong := range c.audit() {
				t.Error("audit: " + wrong)
			}
		})
	}
}
