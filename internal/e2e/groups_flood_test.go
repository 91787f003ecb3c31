package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Callers fill a Redis of 64 MiB with what waits in SQL: WAITING jobs of flows, jobs that a batch owes, batches that
// are open or end at once. Their limits refuse them. No PAID submit is refused meanwhile, each of its jobs runs, and
// the server does not grow by what it refuses.
func TestFloodOfGroups(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	heavy(t)
	// It grows by 180 MiB if the test runs alone. Beside other tests the collector is late.
	const redisMemory, growth = 64 << 20, 300 << 20
	c := newCluster(t)
	c.limitMemory(redisMemory)
	s := c.start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_EGRESS_ALLOW=127.0.0.0/8")
	if a := s.asks(theAdmin, http.MethodPut, "/admin/queues/idle", `{"limit":100000}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	keyOf := func(body string) string { return s.makeKey(theAdmin, http.MethodPost, "/admin/keys", body).Key }
	paying := keyOf(`{"name":"ann","role":"submit","tiers":["PAID"]}`)
	payload := `{"pad":"` + strings.Repeat("x", 60_000) + `"}`
	node := func(after string) map[string]any {
		n := map[string]any{
			"type": "X", "queue": "idle", "tier": "public", "payload": json.RawMessage(payload), "delaySeconds": 3600,
		}
		if after != "" {
			delete(n, "delaySeconds")
			n["after"] = []string{after}
		}
		return n
	}
	jobs := map[string]any{"first": node("")}
	for n := range 200 { // 12 MB in all
		jobs[fmt.Sprint("n", n)] = node("first")
	}
	flow, err := json.Marshal(map[string]any{"jobs": jobs})
	if err != nil {
		t.Fatal(err)
	}
	then := `"tier":"public","callbackUrl":"http://127.0.0.1:9/","then":{"type":"X","queue":"idle","payload":` +
		payload + `}`
	empty := `{"name":"n","sealed":true,` + then + `}`
	floods := map[string]struct {
		key, path, body string
		callers         int
	}{
		"flows":                {keyOf(`{"name":"a","role":"submit"}`), "/api/flows", string(flow), 2},
		"open batches":         {keyOf(`{"name":"b","role":"submit"}`), "/api/batches", `{"name":"n",` + then + `}`, 6},
		"empty batches":        {keyOf(`{"name":"c","role":"submit"}`), "/api/batches", empty, 6},
		"empty ones, quota 2":  {keyOf(`{"name":"d","role":"submit","inFlight":2}`), "/api/batches", empty, 6},
		"bare batches, unused": {keyOf(`{"name":"e","role":"submit"}`), "/api/batches", `{"name":"n"}`, 6},
	}
	before := s.memory()
	most, refused, made := before, atomic.Int64{}, atomic.Int64{}
	end := time.Now().Add(15 * time.Second)
	var group sync.WaitGroup
	for name, f := range floods {
		for range f.callers {
			group.Go(func() {
				for time.Now().Before(end) {
					a, err := try(http.MethodPost, s.base+f.path, f.body, "Authorization", "Bearer "+f.key)
					switch {
					case err != nil:
						t.Errorf("%s: %v", name, err)
					case a.status == http.StatusCreated || a.status == http.StatusAccepted:
						made.Add(1)
					case a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
						refused.Add(1)
						<-time.After(20 * time.Millisecond)
					default:
						t.Errorf("%s: %d %s", name, a.status, a.body)
					}
				}
			})
		}
	}
	var paid []string
	for time.Now().Before(end) {
		a, err := try(http.MethodPost, s.base+"/paid/submit", `{"type":"SIMULATION"}`, "Authorization", "Bearer "+paying)
		if err != nil || a.status != http.StatusAccepted {
			t.Errorf("PAID is refused: %d %s %v", a.status, a.body, err)
		} else {
			paid = append(paid, accepted(t, a))
		}
		most = max(most, s.memory())
		<-time.After(50 * time.Millisecond)
	}
	group.Wait()
	t.Logf("evidence: %d accepted, %d refused, %d PAID; the server had %d MiB, and at most %d; Redis has %d of %d MiB",
		made.Load(), refused.Load(), len(paid), before>>20, most>>20, c.usedMemory()>>20, redisMemory>>20)
	if most-before > growth {
		t.Errorf("the server grew from %d to %d MiB", before>>20, most>>20)
	}
	if refused.Load() == 0 || len(paid) < 50 {
		t.Errorf("%d were refused, %d PAID jobs: it was no flood", refused.Load(), len(paid))
	}
	for _, id := range paid {
		s.stateWith(theAdmin, id, "COMPLETED")
	}
}
