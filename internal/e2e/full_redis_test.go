package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// Redis is full and its limit stays. Jobs with callbacks end and their memory is freed, and every callback is
// sent.
func TestFullRedisWithCallbacks(t *testing.T) {
	t.Attr("proves", "F22 S4-P8")
	t.Parallel()
	const jobs, pad = 50, 16 << 10
	c := newCluster(t)
	r := newReceiver(t, nil)
	s := c.start(append(outward, "TIERQ_WORKERS=64")...)
	entries := make([]string, jobs)
	for i := range entries {
		entries[i] = fmt.Sprintf(
			`{"type":"CHAOS","payload":{"key":"%d","file":%q,"sleepMs":2500,"fail":1,"pad":%q},"maxRetries":0,"callbackUrl":%q}`,
			i, t.TempDir()+"/runs", strings.Repeat("x", pad), r.URL)
	}
	s.batch("paid", "application/json", entries)
	testkit.Eventually(t, 10*time.Second, "all run", func() (bool, string) {
		n := c.rdb.ZCard(t.Context(), "{tierq:0}:processing:by-heartbeat").Val()
		return n == jobs, fmt.Sprint(n)
	})
	// The limit is below the used memory by half of the payloads' size: there is free memory again after the dead
	// letters are in SQL.
	c.limitMemory(c.usedMemory() - jobs*pad/2)
	testkit.Eventually(t, 40*time.Second, "every callback is sent", func() (bool, string) {
		n := len(r.heard())
		return n >= jobs, fmt.Sprintf("%d of %d, %d in the outbox", n, jobs, c.outbox())
	})
}

// Redis is full, its limit stays, and it refuses the callbacks' jobs. Dead letters and cancels still reach SQL,
// with a callback and without, and SQL keeps the callbacks' rows.
func TestFullRedisRecordsAll(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	const called, others = 1000, 20
	c := newCluster(t)
	s := c.start(append(outward, "TIERQ_WORKERS=64")...)
	const fails = `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0,"delaySeconds":%d%s}`
	submit := func(n, delay int, more string) (ids []string) {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf(fails, delay, more)
		}
		all, _ := s.batch("paid", "application/json", entries)
		for _, e := range all {
			ids = append(ids, e.JobID)
		}
		return ids
	}
	submit(called, 2, `,"callbackUrl":"http://127.0.0.1:1/"`)
	dead, cancelled := submit(others, 4, ""), submit(others, 3600, "")
	c.limitMemory(1)
	for _, id := range cancelled {
		wants(t, do(t, http.MethodDelete, s.base+"/api/jobs/"+id, ""), http.StatusOK, "")
	}
	testkit.Eventually(t, 60*time.Second, "all are in SQL and acknowledged", func() (bool, string) {
		all, missing := c.outcomes(), 0
		for _, id := range append(dead, cancelled...) {
			if all[id] == "" {
				missing++
			}
		}
		n := c.outbox()
		over := missing == 0 && n == 0 && len(all) == called+2*others
		return over, fmt.Sprintf("%d are missing, %d in the outbox, %d in SQL", missing, n, len(all))
	})
	c.counts(called, "SELECT COUNT(*) FROM accepted_jobs")
	wants(t, s.ask("paid", `{}`), http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY")
	if a := do(t, http.MethodGet, s.base+"/readyz", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("ready, and Redis is full: %d %s", a.status, a.body)
	}
}

// A server that starts while Redis is full writes the outcomes in Redis to SQL, which frees memory. That matters
// when all earlier processes have died.
func TestStartOnAFullRedis(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	c := newCluster(t)
	first := c.start("TIERQ_ROLES=api,worker")
	id := first.submit("paid", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`)
	testkit.Eventually(t, 10*time.Second, "its end is in the outbox", func() (bool, string) {
		n := c.outbox()
		return n == 1, fmt.Sprint(n)
	})
	first.changes(http.MethodPut, "/admin/queues/films", "", 200)
	c.limitMemory(1)
	c.rdb.Del(t.Context(), "{tierq}:system:config:queues") // a Redis that was emptied, and is full before it has all again
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	second := c.start()
	wants(t, do(t, http.MethodGet, second.base+"/admin/queues/films", ""), 200, "")
	testkit.Eventually(t, 20*time.Second, "its end is in SQL and acknowledged", func() (bool, string) {
		n := c.outbox()
		return n == 0 && c.outcomes()[id] == "FAILED", fmt.Sprintf("%d in the outbox", n)
	})
}

// Redis takes twice the jobs that fit into its limit, one batch after the other. The memory of ended jobs is freed
// long before their retention is over, and SQL answers for them.
func TestFullRedisForgetsTheEnded(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	const batch, hold, goal = 100, 3 << 19, 2000 // an ended job takes 1 KiB and more: its result has a key
	c := newCluster(t)
	s := c.start("TIERQ_WORKERS=64")
	entries := make([]string, batch)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"type":"CHAOS","payload":{"key":"%0700d","file":%q}}`, i, t.TempDir()+"/runs")
	}
	var ids []string
	run := func() {
		testkit.Eventually(t, 20*time.Second, "a batch is taken in", func() (bool, string) {
			a := do(t, http.MethodPost, s.base+"/paid/submit/batch", "["+strings.Join(entries, ",")+"]")
			var all struct {
				Data []entry `json:"apiResponseData"`
			}
			if err := json.Unmarshal(a.body, &all); err != nil || a.status != http.StatusAccepted {
				return false, fmt.Sprintf("after %d jobs: %d %.300s", len(ids), a.status, a.body)
			}
			before := len(ids)
			for _, e := range all.Data {
				if e.JobID != "" && e.ErrorCode == "" {
					ids = append(ids, e.JobID)
				}
			}
			return len(ids) > before, fmt.Sprintf("after %d jobs: %+v", len(ids), all.Data[0])
		})
		testkit.Eventually(t, 20*time.Second, "it has drained", func() (bool, string) {
			queued := c.rdb.ZCard(t.Context(), "{tierq:0}:main:queue").Val()
			runs := c.rdb.ZCard(t.Context(), "{tierq:0}:processing:by-heartbeat").Val()
			return queued+runs+c.outbox() == 0, fmt.Sprintf("%d queued, %d run, %d in the outbox", queued, runs, c.outbox())
		})
		c.ageEnds(10 * time.Minute)
	}
	run() // opens the server's connections, which use memory too
	limit := c.usedMemory() + hold
	c.limitMemory(limit)
	for len(ids) < goal {
		run()
		testkit.Eventually(t, 20*time.Second, "a fifth of the memory is free", func() (bool, string) {
			used := c.usedMemory()
			return used < limit/100*81, fmt.Sprintf("after %d jobs: %d bytes of %d", len(ids), used, limit)
		})
	}
	if strings.Contains(s.Output(), "gate closed") {
		t.Error("submits were refused")
	}
	first := ids[0]
	if c.has(first) {
		t.Error("the first job is still in Redis: it was not full")
	}
	if p := s.poll(first); p.Status != "COMPLETED" {
		t.Errorf("a poll of the first job says %s", p.Status)
	}
}

// ageEnds moves the time of the last end of each slice back, if SQL has all jobs of the slice. It works on a full Redis
// too, because the script removes before it adds.
func (c *cluster) ageEnds(d time.Duration) {
	c.t.Helper()
	const script = `
		for _, key in ipairs(KEYS) do
		  local last = redis.call('HGET', key, '-')
		  if last and redis.call('PTTL', key) >= 0 then
		    redis.call('HDEL', key, '-')
		    redis.call('HSET', key, '-', string.format('%d', last - ARGV[1]))
		  end
		end`
	keys, err := c.rdb.Keys(c.t.Context(), "{tierq:0}:ended:*").Result()
	if err == nil && len(keys) > 0 {
		err = c.rdb.Eval(c.t.Context(), script, keys, d.Milliseconds()).Err()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		c.t.Fatal(err)
	}
}

// usedMemory returns Redis' used memory in bytes.
func (c *cluster) usedMemory() int {
	c.t.Helper()
	info, err := c.rdb.Info(c.t.Context(), "memory").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	used, err := strconv.Atoi(strings.TrimPrefix(line(info, "used_memory:"), "used_memory:"))
	if err != nil {
		c.t.Fatal(err)
	}
	return used
}

func (c *cluster) limitMemory(bytes int) {
	c.t.Helper()
	if err := c.rdb.ConfigSet(c.t.Context(), "maxmemory", strconv.Itoa(bytes)).Err(); err != nil {
		c.t.Fatal(err)
	}
}
