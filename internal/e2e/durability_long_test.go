//go:build long

package e2e

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/testkit"
)

// setUps are the rows of the durability table in docs/operations/DURABILITY.md.
var setUps = []struct {
	name    string
	redis   []string
	journal bool
}{
	{"no persistence", []string{"--appendonly", "no", "--save", ""}, false},
	{"a snapshot a second", []string{"--appendonly", "no", "--save", "1 1"}, false},
	{"AOF everysec", []string{"--appendfsync", "everysec"}, false},
	{"AOF always", nil, false},
	{"no persistence, journal", []string{"--appendonly", "no", "--save", ""}, true},
	{"AOF everysec, journal", []string{"--appendfsync", "everysec"}, true},
	{"AOF always, journal", nil, true},
}

// losses are the table's columns. certain reports whether this set-up may lose no job even without a journal.
var losses = []struct {
	name    string
	inflict func(c *cluster, s *server) (evidence string)
	certain func(setUp string) bool
	applies func(setUp string) bool
}{
	{"tierq killed", func(c *cluster, s *server) string {
		_ = s.Kill()
		return fmt.Sprint("pid ", s.Pid(), " killed")
	}, func(string) bool { return true }, func(string) bool { return true }},
	{"Redis killed", func(c *cluster, _ *server) string {
		c.must(c.redis.Kill(), c.redis.Restart())
		return fmt.Sprint(c.jobsInRedis(), " jobs there after the restart")
	}, func(setUp string) bool { return strings.HasPrefix(setUp, "AOF always") }, func(string) bool { return true }},
	{"AOF tail cut", func(c *cluster, _ *server) string {
		c.must(c.redis.Kill())
		log := aof(c.t, c.redis)
		size, err := os.Stat(log)
		c.must(err)
		to := size.Size() - 1 - rand.Int64N(size.Size()/4)
		c.must(os.Truncate(log, to), c.redis.Restart())
		return fmt.Sprintf("cut from %d to %d bytes, %d jobs there", size.Size(), to, c.jobsInRedis())
	}, func(string) bool { return false }, func(setUp string) bool { return strings.HasPrefix(setUp, "AOF") }},
	{"Redis wiped", func(c *cluster, _ *server) string {
		c.must(c.rdb.FlushAll(c.t.Context()).Err())
		return "FLUSHALL"
	}, func(string) bool { return false }, func(string) bool { return true }},
}

// TestDurabilityTable measures each cell: the accepted jobs that have no outcome after everything has come to
// rest. It prints the table.
func TestDurabilityTable(t *testing.T) {
	t.Attr("proves", "F15 F16 F17 F19")
	var mu sync.Mutex
	cells := map[string]string{}
	t.Run("cells", func(t *testing.T) {
		for _, s := range setUps {
			for _, l := range losses {
				if !l.applies(s.name) {
					continue
				}
				t.Run(s.name+"/"+l.name, func(t *testing.T) {
					t.Parallel()
					c := clusterOn(t, testkit.NewRedis(t, s.redis...), databasetest.Migrated(t))
					lost, accepted := c.measure(s.journal, l.inflict)
					mu.Lock()
					defer mu.Unlock()
					cells[s.name+"/"+l.name] = fmt.Sprintf("%d of %d", lost, accepted)
					if lost > 0 && (s.journal || l.certain(s.name)) {
						t.Errorf("%d of %d lost", lost, accepted)
					}
				})
			}
		}
	})
	var b strings.Builder
	for _, s := range setUps {
		fmt.Fprintf(&b, "\n| %s |", s.name)
		for _, l := range losses {
			cell := cells[s.name+"/"+l.name]
			if cell == "" {
				cell = "-"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
	}
	t.Log(b.String())
}

// measure runs a load, inflicts a loss in its middle, waits until everything has come to rest, and counts the
// jobs.
func (c *cluster) measure(journal bool, inflict func(*cluster, *server) string) (lost, accepted int) {
	env := []string{"TIERQ_WORKERS=4"}
	if journal {
		env = append(env, "TIERQ_JOURNAL=on")
	}
	file := filepath.Join(c.t.TempDir(), "runs")
	doomed, stays := c.start(env...), c.start(env...)
	var mu sync.Mutex
	ids := map[string]bool{}
	over := make(chan struct{})
	var load sync.WaitGroup
	for n := range 4 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond):
				}
				base := []*server{stays, stays, stays, doomed}[n].base
				body := counting(file, i%30)
				if i%4 == 0 { // these jobs wait through the loss
					body = strings.TrimSuffix(body, "}") + `,"delaySeconds":3}`
				}
				a, err := try(http.MethodPost, base+"/paid/submit", body)
				if err == nil && a.status == http.StatusAccepted {
					mu.Lock()
					ids[jobOf(a)] = true
					mu.Unlock()
				}
			}
		})
	}
	<-time.After(1500 * time.Millisecond)
	c.t.Log("evidence: " + inflict(c, doomed))
	<-time.After(1500 * time.Millisecond)
	close(over)
	load.Wait()
	c.rest(90 * time.Second)
	outcomes := c.outcomes()
	for id := range ids {
		if outcomes[id] == "" {
			lost++
		}
	}
	return lost, len(ids)
}

func jobOf(a answer) string {
	_, rest, _ := strings.Cut(string(a.body), `"jobId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// rest waits until no job waits or runs and no outcome is left to write, twice in a row.
func (c *cluster) rest(within time.Duration) {
	c.t.Helper()
	calm := 0
	testkit.Eventually(c.t, within, "everything is at rest", func() (bool, string) {
		total := int64(0)
		for _, set := range []string{"main:queue", "scheduled", "processing:by-heartbeat", "processing:by-maxtime",
			"outbox"} {
			n, err := c.rdb.ZCard(c.t.Context(), "{tierq:0}:"+set).Result()
			if err != nil {
				return false, err.Error()
			}
			total += n
		}
		var rows sql.NullInt64
		c.row(`SELECT COUNT(*) FROM accepted_jobs`, &rows)
		if calm++; total > 0 || rows.Int64 > 0 {
			calm = 0
		}
		return calm > 40, fmt.Sprintf("%d in sets, %d in the journal", total, rows.Int64)
	})
}

func (c *cluster) must(errs ...error) {
	c.t.Helper()
	for _, err := range errs {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}
