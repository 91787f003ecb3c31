//go:build long

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// While a million jobs wait, every request is answered within the promise for a submit, a PAID job overtakes them
// all, and Redis never runs a command that reads everything.
func TestAMillionWait(t *testing.T) {
	const n, part = 1_000_000, 1000
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery", "TIERQ_CAPACITY=2000000", "TIERQ_CONNECTIONS=512")
	middle := fillDeep(s, n, part)
	began := time.Now()
	soon := func(what, method, path, body string) answer {
		t.Helper()
		a := do(t, method, s.base+path, body)
		t.Logf("%-28s %d %6s", what, a.status, a.took.Round(100*time.Microsecond))
		if a.took > 2*time.Second || a.status >= http.StatusBadRequest {
			t.Errorf("%s: %d after %s: %.300s", what, a.status, a.took, a.body)
		}
		return a
	}
	type page struct {
		Items []row
		Next  *string
	}
	for range 3 {
		soon("submit", http.MethodPost, "/public/submit", `{}`)
		soon("poll, with its position", http.MethodGet, "/result/poll?jobId="+middle, "")
		soon("statistics", http.MethodGet, "/api/stats", "")
		soon("health", http.MethodGet, "/actuator/health", "")
		for what, filter := range map[string]string{"all": "", "a tier": "&tier=PUBLIC", "a type": "&type=SIMULATION",
			"a type that nobody has": "&type=REPORT", "a state": "&status=SCHEDULED", "the failed": "&status=FAILED"} {
			soon("list, "+what, http.MethodGet, "/api/jobs?limit=100"+filter, "")
		}
	}
	list := get[page](t, s.base+"/api/jobs?limit=100")
	for deep := range 20 {
		if len(list.Items) != 100 || list.Next == nil {
			t.Fatalf("page %d: %d jobs", deep, len(list.Items))
		}
		list = get[page](t, s.base+"/api/jobs?limit=100&cursor="+*list.Next)
	}
	polled := get[struct {
		Data struct{ Position int64 } `json:"apiResponseData"`
	}](t, s.base+"/result/poll?jobId="+middle)
	if at := polled.Data.Position; at < n/4 || at > n*3/4 {
		t.Errorf("the one in the middle is at %d", at)
	}
	soon("cancel", http.MethodDelete, "/api/jobs/"+middle, "")
	s.await(middle, "CANCELLED", 10*time.Second)

	worker := c.start("TIERQ_ROLES=worker", "TIERQ_CAPACITY=2000000", "TIERQ_WORKERS=100")
	paid := s.submit("paid", `{}`)
	p := s.await(paid, "COMPLETED", 20*time.Second)
	t.Logf("a PAID job behind %d PUBLIC ones was done %s after it came", n,
		time.Since(p.ArrivedAt).Round(time.Millisecond))
	worker.terminate(60 * time.Second)
	t.Logf("all that took %s", time.Since(began).Round(time.Second))

	stats, err := c.rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(stats) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if slices.Contains([]string{"keys", "smembers", "zunion", "zunionstore", "zdiff", "sort", "flushall"}, name) {
			t.Errorf("Redis was asked for everything: %s", line)
		}
	}
	slow, err := c.rdb.SlowLogGet(t.Context(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	longest := map[string]time.Duration{}
	for _, e := range slow {
		longest[e.Args[0]] = max(longest[e.Args[0]], e.Duration)
	}
	t.Logf("Redis took 10 ms or more %d times, at the longest %v (on a busy machine most of them waited for a core)",
		len(slow), longest)
}

// fillDeep submits PUBLIC jobs in batches until n are accepted, and returns one from the middle. It repeats jobs
// that a busy machine refuses.
func fillDeep(s *server, n, part int) (middle string) {
	s.t.Helper()
	began, entries, refused := time.Now(), slices.Repeat([]string{`{}`}, part), 0
	for there := 0; there < n; {
		answers, _ := s.batch("public", "application/json", entries)
		before := there
		for _, e := range answers {
			if e.ErrorCode == "" {
				there++
			}
			if there == n/2 && middle == "" {
				middle = e.JobID
			}
		}
		if there < before+part {
			refused += before + part - there
			testkit.Eventually(s.t, time.Minute, "the gate is open", func() (bool, string) {
				a := do(s.t, http.MethodGet, s.base+"/readyz", "")
				return a.status == http.StatusOK, string(a.body)
			})
		}
	}
	s.t.Logf("%d jobs in %s, %d refused", n, time.Since(began).Round(time.Second), refused)
	return middle
}
