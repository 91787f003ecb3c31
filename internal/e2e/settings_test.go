package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Two processes differ in settings that should be equal. Each of them logs both values and the other's name, and
// continues. Of a secret the log shows only whether it is set, and a fingerprint.
func TestProcessesWithOtherSettings(t *testing.T) {
	t.Attr("proves", "F59")
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c := newCluster(t)
	one := c.start("TIERQ_SQL_RETENTION=30d", "TIERQ_WEBHOOK_SECRET="+secret)
	two := c.start("TIERQ_ROLES=api,recovery")
	two.waitFor(`"setting":"TIERQ_SQL_RETENTION","here":"90d","there":"30d"`, 10*time.Second)
	two.waitFor(`"setting":"TIERQ_WEBHOOK_SECRET","here":"unset","there":"set, fingerprint `, 10*time.Second)
	three := c.start("TIERQ_SQL_RETENTION=30d", "TIERQ_WEBHOOK_SECRET="+secret, "TIERQ_RETENTION=2h")
	three.waitFor(`"setting":"TIERQ_RETENTION","here":"2h0m0s","there":"24h0m0s"`, 10*time.Second)
	one.waitFor(`"setting":"TIERQ_RETENTION","here":"24h0m0s","there":"2h0m0s"`, 10*time.Second)
	if text, _ := c.doctor(two); !strings.Contains(text, "TIERQ_SQL_RETENTION is 90d here and 30d in ") {
		t.Errorf("the doctor: %s", text)
	}
	for _, s := range []*server{one, two, three} {
		if strings.Contains(s.Output(), secret) {
			t.Error("the log has the secret")
		}
	}
	if a := do(t, http.MethodGet, one.base+"/api/stats", ""); strings.Contains(string(a.body), "fingerprint") {
		t.Errorf("/api/stats tells settings: %s", a.body)
	}
}
