package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// A server is killed between the reserved places of a flow, its transaction and the script that gives Redis the jobs.
// Either the flow is there whole and can end, or nothing is left of it; the counters are right in both cases.
func TestPlaces_Killed(t *testing.T) {
	t.Attr("proves", "A68 F07")
	t.Parallel()
	const flow = `{"jobs":{"a":{"type":"SIMULATION"},"b":{"type":"SIMULATION","after":["a"]},` +
		`"c":{"type":"SIMULATION","after":["b"]}}}`
	const batch = `{"name":"n","sealed":true,"jobs":[{"type":"SIMULATION"},{"type":"SIMULATION"}],` +
		`"then":{"type":"SIMULATION"}}`
	for _, c := range []struct {
		point, path, body string
		jobs              int // that are there after all
	}{
		{"reserve.after", "/api/flows", flow, 0}, {"release.after", "/api/flows", flow, 3},
		{"requeue.after", "/api/flows", flow, 3}, {"reserve.after", "/api/batches", batch, 0},
		{"release.after", "/api/batches", batch, 3},
	} {
		t.Run(c.point+" "+c.path, func(t *testing.T) {
			t.Parallel()
			l := newCluster(t)
			first := l.start("TIERQ_FAILPOINTS=" + c.point + "=kill@1")
			if a, err := try(http.MethodPost, first.base+c.path, c.body); err == nil {
				t.Errorf("answered: %d %s", a.status, a.body)
			}
			testkit.Eventually(t, 10*time.Second, "the server is dead", func() (bool, string) {
				return first.Exited(), ""
			})
			if n := l.rdb.HLen(t.Context(), queue.Key(0, "reserved")).Val(); n == 0 && c.point != "requeue.after" {
				t.Error("nothing was reserved")
			}
			s := l.start()
			testkit.Eventually(t, 60*time.Second, "all is done", func() (bool, string) {
				young := l.rdb.ZCard(t.Context(), queue.Key(0, "reserving")).Val()
				left := l.rdb.HLen(t.Context(), queue.Key(0, "reserved")).Val()
				return young == 0 && left == 0 && l.ended() == c.jobs, fmt.Sprint(young, left, l.ended())
			})
			if found := append(l.audit(), l.findingsOf(s, "")...); len(found) > 0 {
				t.Errorf("the audits found %q", found)
			}
			n, _ := l.counted()
			for _, field := range []string{"fresh", "delayed", "bytes", "delayedbytes"} {
				if n[field] != 0 {
					t.Errorf("left is %s = %d", field, n[field])
				}
			}
		})
	}
}
