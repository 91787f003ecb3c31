package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// idleJob is a job of a queue that no worker claims from.
const idleJob = `{"type":"X","queue":"idle"}`

// waysIn are the ways in which jobs enter. A request of each asks for one job or for several, all of one tier.
func waysIn(n int) map[string]struct{ method, path, body string } {
	later := strings.TrimSuffix(idleJob, "}") + `,"delaySeconds":3600}`
	then := `"tier":"paid","then":` + idleJob
	return map[string]struct{ method, path, body string }{
		"submit":  {http.MethodPost, "/paid/submit", idleJob},
		"delayed": {http.MethodPost, "/paid/submit", later},
		"bulk":    {http.MethodPost, "/paid/submit/batch", "[" + idleJob + "," + later + "]"},
		"flow": {http.MethodPost, "/api/flows",
			`{"jobs":{"a":` + asNode() + `,"b":` + asNode("a") + `,"c":` + asNode("a", "b") + `}}`},
		"batch": {http.MethodPost, "/api/batches",
			`{"name":"n","jobs":[` + idleJob + "," + later + "]," + then + "}"},
		"open batch":    {http.MethodPost, "/api/batches", `{"name":"n",` + then + `,"callbackUrl":"http://127.0.0.1:9/"}`},
		"empty, sealed": {http.MethodPost, "/api/batches", `{"name":"n","sealed":true,` + then + `}`},
		"schedule":      {http.MethodPost, fmt.Sprintf("/admin/schedules/s%d/run", n%4), ""},
	}
}

func asNode(after ...string) string {
	paid := strings.TrimSuffix(idleJob, "}") + `,"tier":"paid"`
	if len(after) == 0 {
		return paid + "}"
	}
	list, _ := json.Marshal(after)
	return paid + `,"after":` + string(list) + "}"
}

// counted reads the counters of all partitions, and how many places each owner has taken.
func (c *cluster) counted() (n map[string]int, owners map[string]int) {
	c.t.Helper()
	read := func(key string) map[string]int {
		all := map[string]int{}
		for p := range max(c.partitions, 1) {
			for field, text := range c.rdb.HGetAll(c.t.Context(), queue.Key(p, key)).Val() {
				one, _ := strconv.Atoi(text)
				all[field] += one
			}
		}
		return all
	}
	return read("counters"), read("owners")
}

func living(n map[string]int) int {
	return n["PAID:ready"] + n["PAID:scheduled"] + n["PAID:running"] + n["PAID:reserved"]
}

// Every way in, from 24 connections at once, against every limit: never one job more than the limit allows, and the
// limit is reached. The counters are those of a recount afterwards; after Redis was emptied, with the journal on,
// nothing comes in beyond the limit either.
func TestWaysIn_Limits(t *testing.T) {
	t.Attr("proves", "A68 F54")
	t.Parallel()
	const limit = 12
	for name, l := range map[string]struct {
		env   string
		key   string
		queue string
		taken func(n, owners map[string]int) int
	}{
		"quota": {key: `,"inFlight":12`, taken: func(_, owners map[string]int) (sum int) {
			for _, n := range owners {
				sum += n
			}
			return sum
		}},
		"capacity": {env: "TIERQ_CAPACITY=12", queue: `{"limit":1000}`,
			taken: func(n, _ map[string]int) int { return n["fresh"] }},
		"delayed": {env: "TIERQ_SCHEDULED_LIMIT=12", taken: func(n, _ map[string]int) int { return n["delayed"] }},
		"living":  {env: "TIERQ_LIVING_LIMIT=12", taken: func(n, _ map[string]int) int { return living(n) }},
		"queue": {queue: `{"limit":12}`,
			taken: func(n, _ map[string]int) int { return max(n["@idle:fresh"], n["@idle:delayed"]) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heavy(t)
			c := newCluster(t)
			env := []string{"TIERQ_ADMIN_KEY=" + theAdmin, "TIERQ_JOURNAL=on", "TIERQ_EGRESS_ALLOW=127.0.0.0/8"}
			if l.env != "" {
				env = append(env, l.env)
			}
			s := c.start(env...)
			must := func(a answer, status int) {
				t.Helper()
				if a.status != status {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			declared := l.queue
			if declared == "" {
				declared = `{"limit":1000}`
			}
			must(s.asks(theAdmin, http.MethodPut, "/admin/queues/idle", declared), http.StatusOK)
			key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"admin"`+l.key+`}`).Key
			for n := range 4 {
				must(s.asks(key, http.MethodPut, fmt.Sprintf("/admin/schedules/s%d", n),
					`{"cron":"0 0 1 1 *","overlap":"allow","job":{"tier":"paid","queue":"idle","type":"X"}}`), http.StatusOK)
			}
			storm := func(whole bool) {
				t.Helper()
				var group sync.WaitGroup
				for n := range 24 {
					group.Go(func() {
						for range 3 {
							for way, ask := range waysIn(n) {
								a, err := try(ask.method, s.base+ask.path, ask.body, "Authorization", "Bearer "+key)
								if err != nil || a.status >= 500 && a.status != http.StatusServiceUnavailable {
									t.Errorf("%s: %d %s %v", way, a.status, a.body, err)
								}
							}
							n, owners := c.counted()
							if taken := l.taken(n, owners); whole && taken > limit {
								t.Errorf("%d are taken of %d", taken, limit)
							}
						}
					})
				}
				group.Wait()
				n, owners := c.counted()
				if taken := l.taken(n, owners); taken < limit || whole && taken > limit {
					t.Errorf("%d are taken of %d: %v", taken, limit, n)
				}
			}
			storm(true)
			if found := append(c.audit(), c.findings(s)...); len(found) > 0 {
				t.Errorf("the audits found %q", found)
			}
			if err := c.rdb.FlushAll(t.Context()).Err(); err != nil { // allowed: the server belongs to this test
				t.Fatal(err)
			}
			storm(false) // a submit that was under way may have a place beside its row, until that is looked up
			testkit.Eventually(t, 40*time.Second, "SQL has confirmed all places", func() (bool, string) {
				young := c.rdb.ZCard(t.Context(), queue.Key(0, "reserving")).Val()
				return young == 0, fmt.Sprint(young)
			})
			n, owners := c.counted()
			if taken := l.taken(n, owners); taken > limit || taken < limit-1 {
				t.Errorf("after the loss %d are taken of %d: %v", taken, limit, n)
			}
			if found := append(c.audit(), c.findings(s)...); len(found) > 0 {
				t.Errorf("after the loss the audits found %q", found)
			}
		})
	}
}

// With several partitions each has its part of a limit. All parts together are the limit, except that of a quota, whose
// parts are rounded up: an owner may have one job less than there are partitions beyond it.
func TestWaysIn_Partitions(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	heavy(t)
	const partitions = 4
	c := newCluster(t)
	c.partitions = partitions
	s := c.start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_EGRESS_ALLOW=127.0.0.0/8", fmt.Sprint("TIERQ_PARTITIONS=", partitions),
		"TIERQ_CAPACITY=40", "TIERQ_SCHEDULED_LIMIT=60", "TIERQ_LIVING_LIMIT=80")
	if a := s.asks(theAdmin, http.MethodPut, "/admin/queues/idle", `{"limit":1000}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	limits := func(when string, n, owners map[string]int, least bool) {
		t.Helper()
		for name, l := range map[string]struct{ taken, most int }{
			"fresh": {n["fresh"], 40}, "delayed": {n["delayed"], 60}, "living": {living(n), 80},
		} {
			if l.taken > l.most {
				t.Errorf("%s: %d of %d %s", when, l.taken, l.most, name)
			}
		}
		for owner, taken := range owners {
			if most := 10 + partitions - 1; taken > most || least && taken < 10-each {
				t.Errorf("%s: %s has %d living jobs, at most %d", when, owner, taken, most)
			}
		}
	}
	var group sync.WaitGroup
	for range 6 {
		key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit","inFlight":10}`).Key
		for n := range 4 {
			group.Go(func() {
				for range 3 {
					for way, ask := range waysIn(n) {
						if way == "schedule" { // an operator's
							continue
						}
						a, err := try(ask.method, s.base+ask.path, ask.body, "Authorization", "Bearer "+key)
						if err != nil || a.status >= 500 && a.status != http.StatusServiceUnavailable {
							t.Errorf("%s: %d %s %v", way, a.status, a.body, err)
						}
					}
					n, owners := c.counted()
					limits("under way", n, owners, false)
				}
			})
		}
	}
	group.Wait()
	n, owners := c.counted()
	limits("afterwards", n, owners, true)
	t.Logf("evidence: %v, %v", n, owners)
	if found := c.findings(s); len(found) > 0 {
		t.Errorf("the audit found %q", found)
	}
}

// each is how many jobs the largest call of waysIn brings.
const each = 3

// Jobs with callbacks come in from 24 connections, run and are told of: their owner never has more living jobs than its
// quota, also between the end of a job and the moment at which its callback is in Redis. Nothing is left at the end.
func TestWaysIn_Callbacks(t *testing.T) {
	t.Attr("proves", "A68")
	t.Parallel()
	heavy(t)
	const quota = 12
	var told atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		told.Add(1)
		<-time.After(20 * time.Millisecond)
	}))
	t.Cleanup(receiver.Close)
	c := newCluster(t)
	s := c.start("TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_EGRESS_ALLOW=127.0.0.0/8")
	key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit","inFlight":12}`).Key
	body := `{"type":"SIMULATION","maxRetries":0,"callbackUrl":"` + receiver.URL + `"}`
	var group sync.WaitGroup
	var most, accepted atomic.Int64
	end := time.Now().Add(4 * time.Second)
	for range 24 {
		group.Go(func() {
			for time.Now().Before(end) {
				a, err := try(http.MethodPost, s.base+"/paid/submit", body, "Authorization", "Bearer "+key)
				switch {
				case err != nil || a.status != http.StatusAccepted && a.status != http.StatusTooManyRequests:
					t.Errorf("%d %s %v", a.status, a.body, err)
				case a.status == http.StatusAccepted:
					accepted.Add(1)
				}
				_, owners := c.counted()
				for _, n := range owners {
					if int64(n) > most.Load() {
						most.Store(int64(n))
					}
				}
			}
		})
	}
	group.Wait()
	if most.Load() != quota || accepted.Load() < 3*quota || told.Load() < quota {
		t.Errorf("%d living jobs of %d; %d were accepted, %d calls", most.Load(), quota, accepted.Load(), told.Load())
	}
	testkit.Eventually(t, 40*time.Second, "all have ended", func() (bool, string) {
		n, owners := c.counted()
		return len(owners) == 0 && living(n) == 0, fmt.Sprint(n, owners)
	})
	if found := append(c.audit(), c.findings(s)...); len(found) > 0 {
		t.Errorf("the audits found %q", found)
	}
}

// findings makes a pass of the audit, and returns what it found.
func (c *cluster) findings(s *server) (found []string) { return c.findingsOf(s, theAdmin) }

// findingsOf is findings with a key.
func (c *cluster) findingsOf(s *server, key string) (found []string) {
	c.t.Helper()
	a := s.asks(key, http.MethodPost, "/admin/consistency", "")
	var said struct {
		Report struct {
			Whole    bool
			Findings []struct{ Kind, Detail string }
		}
	}
	if err := json.Unmarshal(a.body, &said); err != nil || a.status != http.StatusOK || !said.Report.Whole {
		c.t.Fatalf("%d %s", a.status, a.body)
	}
	for _, f := range said.Report.Findings {
		found = append(found, f.Kind+" "+f.Detail)
	}
	return found
}
