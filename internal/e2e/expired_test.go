package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// copies writes n running jobs like the given one, all with leases that ended an hour ago, and before them m
// leases of jobs that do not exist.
var copies = redis.NewScript(`
local like, tag, from, n, poison = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == 'yes'
local now = redis.call('TIME')[1] * 1000
local record = redis.call('GET', tag .. 'job:metadata:' .. like)
local lease = redis.call('HGET', tag .. 'leases', like)
for i = from, from + n - 1 do
  local id = string.format('019de340-0000-7%03x-8000-%010x00', poison and 1 or 2, i)
  local deadline = now - (poison and 7200000 or 3600000) + i % 1000
  redis.call('ZADD', tag .. 'processing:by-heartbeat', string.format('%d', deadline), id)
  redis.call('ZADD', tag .. 'processing:by-maxtime', string.format('%d', now + 3600000), id)
  if not poison then
    redis.call('SET', tag .. 'job:metadata:' .. id, record)
    redis.call('HSET', tag .. 'leases', id, lease)
  end
end
if not poison then redis.call('HINCRBY', tag .. 'counters', 'PAID:running', n) end
return redis.call('ZCARD', tag .. 'processing:by-heartbeat')`)

// After a long outage all running jobs have expired, with broken entries at the head. The watch works through the
// whole backlog with small scripts of some milliseconds each, according to Redis' own statistics.
func TestExpiredBacklog(t *testing.T) {
	t.Attr("proves", "F57")
	t.Parallel()
	heavy(t)
	c := newCluster(t)
	ctx := t.Context()
	worker := c.start("TIERQ_WORKERS=1")
	like := worker.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`)
	worker.await(like, "PROCESSING", 5*time.Second)
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	const slice = 1000
	for kind, many := range map[string]int{"yes": poisoned, "no": expired} {
		for from := 0; from < many; from += slice {
			if err := copies.Run(ctx, c.rdb, nil, like, "{tierq:0}:", from, min(slice, many-from), kind).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, set := range [][]any{{"CONFIG", "SET", "slowlog-log-slower-than", "50000", "slowlog-max-len", "10000"},
		{"SLOWLOG", "RESET"}, {"CONFIG", "RESETSTAT"}} {
		if err := c.rdb.Do(ctx, set...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	c.start("TIERQ_ROLES=recovery")
	testkit.Eventually(t, 3*time.Minute, "all are taken back", func() (bool, string) {
		n, err := c.rdb.ZCard(ctx, "{tierq:0}:main:queue").Result()
		return n >= expired && err == nil, fmt.Sprint(n, err)
	})
	took := time.Since(began)
	if n := c.rdb.ZCard(ctx, "{tierq:0}:quarantine").Val(); n != poisoned {
		t.Errorf("%d of %d ruins are in quarantine", n, poisoned)
	}
	slow, err := c.rdb.SlowLogGet(ctx, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	worst := time.Duration(0)
	for _, entry := range slow {
		worst = max(worst, entry.Duration)
	}
	calls, each := perCall(c.rdb.Info(ctx, "commandstats").Val(), "evalsha")
	t.Logf("evidence: %d leases and %d ruins after %s; %d script calls of %s each, %d above 50 ms, the longest %s",
		expired, poisoned, took.Round(time.Millisecond),
		calls, each, len(slow), worst)
	// The times are those of Redis' own clock, and a busy machine makes them several times longer. A script that
	// handled more than a hundred jobs would be called less often; one that handled all of them would take seconds.
	if least := (expired + poisoned) / 100; each > 50*time.Millisecond || len(slow)*2 > calls ||
		worst > 2*time.Second ||
		calls < least {
		t.Errorf(
			"%d script calls, %d at the least, of %s each; %d above 50 ms, the longest %s",
			calls,
			least,
			each,
			len(slow),
			worst,
		)
	}
	for _, pair := range [][2]string{{"main:queue", "PAID:ready"}, {"processing:by-heartbeat", "PAID:running"},
		{"processing:by-maxtime", "PAID:running"}} {
		set := c.rdb.ZCard(ctx, "{tierq:0}:"+pair[0]).Val()
		if n, err := c.rdb.HGet(ctx, "{tierq:0}:counters", pair[1]).Int64(); err != nil || n != set {
			t.Errorf("%s has %d, %s says %d: %v", pair[0], set, pair[1], n, err)
		}
	}
}

// perCall reads a command's line of INFO commandstats.
func perCall(info, command string) (calls int, each time.Duration) {
	for part := range strings.SplitSeq(strings.TrimPrefix(line(info, "cmdstat_"+command+":"), "cmdstat_"+command+":"),
		",") {
		name, value, _ := strings.Cut(part, "=")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "calls":
			calls = int(n)
		case "usec_per_call":
			each = time.Duration(n * float64(time.Microsecond))
		}
	}
	return calls, each
}
