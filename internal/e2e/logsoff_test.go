package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// Lines of jobs in a queue whose logs are off are not stored, whether the pool or a worker of another program runs the
// jobs. The logs of another queue, and of the same queue after a change, are there.
func TestLogsOff(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,worker,recovery", "TIERQ_QUEUES=silent,films")
	s.changes(http.MethodPut, "/admin/queues/silent", `{"logs":"off"}`, 200)
	s.changes(http.MethodPut, "/admin/queues/mute", `{"types":["RESIZE"],"logs":"off"}`, 200)
	s.changes(http.MethodPut, "/admin/queues/films", "", 200)
	s.changes(http.MethodPut, "/admin/queues/pictures", `{"types":["CROP"]}`, 200)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	to := sdk.New(s.base)
	defer to.Close()
	log := func(id string) string {
		page, err := to.Logs(ctx, id, sdk.LogFilter{})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, l := range page.Items {
			texts = append(texts, l.Text)
		}
		return strings.Join(texts, ", ")
	}
	says := func(queue, off string) { // the process has read the declaration
		t.Helper()
		testkit.Eventually(t, 20*time.Second, "the logs of "+queue+" are "+off, func() (bool, string) {
			a := do(t, http.MethodGet, s.base+"/admin/queues/"+queue, "")
			return a.status == 200 && strings.Contains(string(a.body), `"logs":"`+off+`"`), string(a.body)
		})
	}
	says("silent", "off")
	says("mute", "off")
	says("films", "on")
	says("pictures", "on")

	byPool := func(queue string) string {
		id := s.submit("paid", `{"queue":"`+queue+`","payload":{"steps":[{"type":"LOG","message":"begins"}]}}`)
		s.await(id, "COMPLETED", 30*time.Second)
		return log(id)
	}
	if got := byPool("silent"); got != "" {
		t.Errorf("the log of a job in a queue without logs: %q", got)
	}
	if got := byPool("films"); got != "begins" {
		t.Errorf("the log of a job in another queue: %q", got)
	}

	mute := s.submit("paid", `{"type":"RESIZE"}`)
	loud := s.submit("paid", `{"type":"CROP"}`)
	leases := append(s.claims("", "w", `"queues":["mute"],"wait":"10s"`),
		s.claims("", "w", `"queues":["pictures"],"wait":"10s"`)...)
	if len(leases) != 2 || leases[0].JobID != mute || leases[1].JobID != loud {
		t.Fatalf("claimed %+v", leases)
	}
	a := do(t, http.MethodPost, s.base+"/api/worker/log", `{"logs":[{"lease":"`+leases[0].Lease+
		`","from":1,"lines":["a"]},{"lease":"`+leases[1].Lease+`","from":1,"lines":["b"]}]}`)
	if want := `{"logs":[{"outcome":"OFF"},{"outcome":"OK"}]}`; strings.TrimSpace(string(a.body)) != want {
		t.Errorf("the lines of two leases: %d %s, want %s", a.status, a.body, want)
	}
	for _, l := range leases {
		if got := s.reports("", "complete", l.Lease, `,"result":1`); got != "COMPLETED" {
			t.Errorf("completed: %s", got)
		}
	}
	if quiet, said := log(mute), log(loud); quiet != "" || said != "b" {
		t.Errorf("the logs are %q without and %q with", quiet, said)
	}

	s.changes(http.MethodPut, "/admin/queues/silent", `{"logs":"on"}`, 200)
	says("silent", "on")
	if got := byPool("silent"); got != "begins" {
		t.Errorf("the log of a job after the logs were on again: %q", got)
	}
}
