package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// A batch or a flow whose jobs are of several tiers counts as a whole for the quota of its key, as that many submits
// do. A refused one takes nothing of the quota, and another key is not refused.
func TestQuotaOfSeveralTiers(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	stores := map[string]func(t *testing.T) *server{
		"redis": func(t *testing.T) *server {
			return newCluster(t).start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_WORKERS=2")
		},
		"embedded": func(t *testing.T) *server {
			e := newEmbedded(t, "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_WORKERS=2")
			e.start()
			return e.server
		},
	}
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			ann := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit","inFlight":5}`)
			bob := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"bob","role":"submit","inFlight":5}`)
			const paid, public = `{"tier":"paid","delaySeconds":3600}`, `{"tier":"public","delaySeconds":3600}`
			asks := func(key, path, body string, want int) {
				t.Helper()
				a := do(t, http.MethodPost, s.base+path, body, "Authorization", "Bearer "+key)
				if a.status != want {
					t.Errorf("%s is answered with %d %s instead of %d", body, a.status, a.body, want)
				}
			}
			batch := func(key string, want int, jobs string) {
				t.Helper()
				asks(key, "/api/batches", fmt.Sprintf(`{"name":"import","jobs":[%s]}`, jobs), want)
			}
			two := paid + "," + public
			batch(ann.Key, http.StatusCreated, two)
			batch(ann.Key, http.StatusTooManyRequests, two+","+two) // 2 + 4; of each tier 2 + 2
			asks(ann.Key, "/api/flows", `{"jobs":{"a":`+paid+`,"b":`+paid+`,"c":`+public+`,"d":`+public+`}}`,
				http.StatusTooManyRequests)
			batch(bob.Key, http.StatusCreated, two+","+two)
			batch(ann.Key, http.StatusCreated, two+","+paid) // the quota is met, not exceeded
			batch(ann.Key, http.StatusTooManyRequests, paid)
			asks(ann.Key, "/paid/submit", `{}`, http.StatusTooManyRequests)
		})
	}
}
