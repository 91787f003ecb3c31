package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// keyed is a COUNT job with a key of lines.
func keyed(key, file string, sleepMs int) string {
	return strings.TrimSuffix(counting(file, sleepMs), "}") + fmt.Sprintf(`,"key":%q}`, key)
}

// linesOf is the answer of GET /admin/lines about one key.
type linesOf struct {
	Items   []struct{ Waiting, Running int }
	Running int
	Limits  struct{ Running, Version int }
}

func (s *server) linesOf(key string) linesOf {
	s.t.Helper()
	return get[linesOf](s.t, s.base+"/admin/lines?key="+key)
}

// limit replaces the limits of a key.
func (s *server) limit(key, limits string) {
	s.t.Helper()
	s.changes(http.MethodPut, "/admin/lines?key="+key, limits, http.StatusOK)
}

// settlesAt waits until so many attempts of a key run, and no more.
func (s *server) settlesAt(key string, running int) {
	s.t.Helper()
	testkit.Eventually(s.t, 20*time.Second, fmt.Sprintf("%d attempts of %s run", running, key), func() (bool, string) {
		now := s.linesOf(key)
		return len(now.Items) > 0 && now.Items[0].Running == running, fmt.Sprintf("%+v", now)
	})
}

// lineRuns reads what COUNT jobs of one key wrote to their file behind an offset: the order in which the jobs started,
// and how many ran at the same time at most. Jobs that ran at the offset are counted, unless their process was killed.
func lineRuns(t *testing.T, file string, from int, killed bool) (order []string, most int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for at, line := range strings.SplitAfter(string(b), "\n") {
		id, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at == from && killed {
			clear(open)
		}
		switch {
		case strings.HasSuffix(mark, " start"):
			open[id] = true
			if at >= from {
				order = append(order, id)
			}
		case strings.HasSuffix(mark, " end"):
			delete(open, id)
		}
		if at >= from {
			most = max(most, len(open))
		}
	}
	return order, most
}

// marks counts the lines of a file of COUNT jobs.
func marks(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// A heavy key has a backlog of minutes, and takes all slots while it has no limit. A light key does not wait for the
// backlog. A limit of the heavy key holds at once, also after everything was restarted and Redis had lost its data, and
// its jobs start in the order of their submits.
func TestLines(t *testing.T) {
	t.Parallel()
	for name, world := range map[string]func(t *testing.T, env ...string) (start func() *server, lose func()){
		"redis, emptied": func(t *testing.T, env ...string) (func() *server, func()) {
			c := newCluster(t)
			return func() *server { return c.start(append(env, "TIERQ_JOURNAL=on")...) }, c.restartRedisEmpty
		},
		"embedded": func(t *testing.T, env ...string) (func() *server, func()) {
			e := newEmbedded(t, env...)
			return func() *server { e.start(); return e.server }, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const soon = 10 * time.Second // a light job waits for one heavy job of a second, and the backlog takes minutes
			start, lose := world(t, "TIERQ_WORKERS=4")
			heavyRuns, lightRuns := filepath.Join(t.TempDir(), "heavy"), filepath.Join(t.TempDir(), "light")
			s := start()
			s.tune("PUBLIC", map[string]any{"lines": "key", "backoff": backoff(0), "maxRetries": 5})
			light := func() {
				t.Helper()
				for range 3 {
					s.await(s.submit("public", keyed("light", lightRuns, 10)), "COMPLETED", soon)
				}
			}
			backlog := make([]string, 800)
			for i := range backlog {
				backlog[i] = keyed("heavy", heavyRuns, 1000)
			}
			answers, _ := s.batch("public", "application/json", backlog)
			var ids []string
			for _, a := range answers {
				ids = append(ids, a.JobID)
			}
			s.settlesAt("heavy", 4)
			light()

			s.limit("heavy", `{"running":2}`)
			s.settlesAt("heavy", 2)
			from := marks(t, heavyRuns)
			light()
			if _, most := lineRuns(t, heavyRuns, from, false); most > 2 {
				t.Errorf("%d heavy jobs ran at once, and 2 may", most)
			}

			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			lose()
			from = marks(t, heavyRuns)
			s = start()
			s.settlesAt("heavy", 2)
			light()
			if _, most := lineRuns(t, heavyRuns, from, true); most > 2 {
				t.Errorf("%d heavy jobs ran at once after the restart, and 2 may", most)
			}
			if now := s.linesOf("heavy"); now.Limits.Running != 2 || now.Limits.Version != 1 {
				t.Errorf("the limits after the restart: %+v", now.Limits)
			}

			s.limit("heavy", `{"running":1}`)
			s.settlesAt("heavy", 1)
			from = marks(t, heavyRuns)
			testkit.Eventually(t, 30*time.Second, "three more heavy jobs start", func() (bool, string) {
				order, _ := lineRuns(t, heavyRuns, from, false)
				return len(order) >= 3, fmt.Sprint(order)
			})
			order, most := lineRuns(t, heavyRuns, from, true) // attempts that were killed have no end
			if at := slices.Index(ids, order[0]); most > 1 || at < 0 || !slices.Equal(order, ids[at:at+len(order)]) {
				t.Errorf("with a limit of 1 %d heavy jobs ran at once, in the order %q", most, order)
			}
			s.limit("heavy", `{"running":3}`)
			s.settlesAt("heavy", 3)
			light()
		})
	}
}

// A worker is killed while a key with a limit of one runs. The key's next attempt starts once the lost one was taken
// back, while another key's jobs run, and no slot of the key stays taken.
func TestLines_KilledWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	api.tune("PUBLIC", map[string]any{
		"lines": "key", "backoff": backoff(0), "maxRetries": 5, "heartbeatTimeoutMs": 3000, "maxProcessingTimeMs": 60_000,
	})
	api.limit("acme", `{"running":1}`)
	file, other := filepath.Join(t.TempDir(), "acme"), filepath.Join(t.TempDir(), "other")
	var ids []string
	for range 3 {
		ids = append(ids, api.submit("public", keyed("acme", file, 1500)))
	}
	worker := c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=4")
	testkit.Eventually(t, 10*time.Second, "the first job runs", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, fmt.Sprint(order)
	})
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	c.start("TIERQ_ROLES=worker", "TIERQ_WORKERS=4")
	ids = append(ids, api.submit("public", keyed("other", other, 10)))
	api.await(ids[3], "COMPLETED", 10*time.Second)
	for _, id := range ids[:3] {
		api.await(id, "COMPLETED", 30*time.Second)
	}
	order, most := lineRuns(t, file, 1, true) // behind the start of the attempt that was killed
	if !slices.Equal(order, ids[:3]) || most > 1 {
		t.Errorf("after the kill %q started, not %q, and %d at once", order, ids[:3], most)
	}
	if p := api.poll(ids[0]); p.RetryCount != 1 { // a crash spends a retry
		t.Errorf("the first job spent %d retries", p.RetryCount)
	}
	c.settled(20*time.Second, ids...)
	if now := api.linesOf("acme"); len(now.Items) > 0 || now.Running != 0 {
		t.Errorf("a slot of the key is still taken: %+v", now)
	}
	for key, text := range c.rdb.HGetAll(t.Context(), "{tierq:0}:lines:keys").Val() {
		if !strings.HasPrefix(text, "0 ") { // how many of its attempts run
			t.Errorf("the key %s has %q", key, text)
		}
	}
}
