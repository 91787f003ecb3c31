package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/testkit"
)

// again calls do every so often until the test calls end.
func again(every time.Duration, do func()) (end func()) {
	stop := make(chan struct{})
	var one sync.WaitGroup
	one.Go(func() {
		for {
			do()
			select {
			case <-stop:
				return
			case <-time.After(every):
			}
		}
	})
	return func() { close(stop); one.Wait() }
}

// Each fault that a running Redis can cause its clients is tested under load, with a job whose lease spans the
// fault.
func TestRedisMisbehaves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		out  time.Duration
		run  func(c *cluster, l *load, out time.Duration)
	}{
		{"F20 forgets its scripts", 1500 * time.Millisecond, scriptsFlushed},
		{"F21 kills its clients", 2000 * time.Millisecond, clientsKilled},
		{"F24 is a replica", 6 * time.Second, replica},
		{"F25 pauses writes", 5 * time.Second, pausedWrites},
		{"F33 has no room for clients", 2500 * time.Millisecond, clientsRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			l := c.underLoad(c.start(), 4, int(tc.out.Milliseconds())+3000)
			tc.run(c, l, tc.out)
			l.end()
		})
	}
}

// scriptsFlushed empties the script cache repeatedly. No client gets an error.
func scriptsFlushed(c *cluster, l *load, out time.Duration) {
	var flushed atomic.Int64
	end := again(2*time.Millisecond, func() {
		if c.rdb.ScriptFlush(c.t.Context()).Err() == nil {
			flushed.Add(1)
		}
	})
	<-time.After(out)
	testkit.Eventually(c.t, 20*time.Second, "many flushes",
		func() (bool, string) { return flushed.Load() >= 50, fmt.Sprint(flushed.Load()) })
	end()
	l.flows("after the fault")
	c.t.Logf("evidence: %d times SCRIPT FLUSH", flushed.Load())
	if l.h.refused > 0 || len(l.h.unknown) > 0 {
		c.t.Errorf("%d refused, %d unknown", l.h.refused, len(l.h.unknown))
	}
}

// clientsKilled cuts all connections repeatedly. The worker waits for the doorbell again each time: no slot is
// idle while jobs wait.
func clientsKilled(c *cluster, l *load, out time.Duration) {
	killed := int64(0)
	l.suffer(func() error {
		end := again(150*time.Millisecond, func() {
			for _, kind := range []string{"normal", "pubsub"} {
				killed += c.rdb.ClientKillByFilter(c.t.Context(), "TYPE", kind, "SKIPME", "yes").Val()
			}
		})
		<-time.After(out)
		end()
		return nil
	}, func() error { return nil }, 0)
	c.t.Logf("evidence: %d connections killed", killed)
	if killed < 20 {
		c.t.Errorf("the fault did not land")
	}
	for range 3 {
		id := l.s.submit("paid", counting(l.file, 0))
		l.s.await(id, "COMPLETED", 3*time.Second)
		l.also = append(l.also, id)
	}
}

// replica turns the Redis into a replica without its primary. Every write is refused with READONLY, and the
// clients close each connection that gets this answer, so that the next one may reach the new primary. The running
// job is stopped before its lease ends, is released at no cost, and runs again.
func replica(c *cluster, l *load, out time.Duration) {
	l.fenced = true
	before := c.connections()
	l.suffer(func() error {
		if err := c.rdb.Do(c.t.Context(), "REPLICAOF", "127.0.0.1", testkit.FreePort(c.t)).Err(); err != nil {
			return err
		}
		err := c.rdb.Set(c.t.Context(), "x", "1", 0).Err()
		if err == nil || !strings.HasPrefix(err.Error(), "READONLY") {
			return fmt.Errorf("it takes writes: %w", err)
		}
		c.t.Logf("evidence: a write is answered %v", err)
		return nil
	}, func() error { return c.rdb.Do(c.t.Context(), "REPLICAOF", "NO", "ONE").Err() }, out)
	if l.h.refused == 0 {
		c.t.Error("no submit was refused")
	}
	after := c.connections()
	left := slices.DeleteFunc(slices.Clone(before), func(id int64) bool { return !slices.Contains(after, id) })
	c.t.Logf("evidence: connections %v before, %v after, in both %v", before, after, left)
	if len(left)*2 > len(before) {
		c.t.Errorf("%d of %d connections are still used", len(left), len(before))
	}
	testkit.Eventually(c.t, 20*time.Second, "the long job began twice", func() (bool, string) {
		order, marks := executions(c.t, l.file)
		order = slices.DeleteFunc(order, func(id string) bool { return id != l.span })
		return len(order) == 2, fmt.Sprint(marks[l.span])
	})
}

// connections returns the ids of all of Redis' connections except the test's own.
func (c *cluster) connections() (ids []int64) {
	c.t.Helper()
	list, err := c.rdb.ClientList(c.t.Context()).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	mine := c.rdb.ClientID(c.t.Context()).Val()
	for entry := range strings.Lines(list) {
		var id int64
		if _, err := fmt.Sscanf(entry, "id=%d ", &id); err == nil && id != mine {
			ids = append(ids, id)
		}
	}
	return ids
}

func pausedWrites(c *cluster, l *load, out time.Duration) {
	l.fenced = true
	l.suffer(func() error {
		return c.rdb.Do(c.t.Context(), "CLIENT", "PAUSE", out.Milliseconds(), "WRITE").Err()
	}, func() error { return c.rdb.Do(c.t.Context(), "CLIENT", "UNPAUSE").Err() }, out)
	if l.h.refused+len(l.h.unknown) == 0 {
		c.t.Error("no submit noticed")
	}
}

// clientsRefused lets other clients take every connection. tierq's connections are cut, and refused when it dials
// again.
func clientsRefused(c *cluster, l *load, out time.Duration) {
	ctx := c.t.Context()
	l.fenced = true
	var others []*redis.Conn
	crowd := redis.NewClient(&redis.Options{Addr: c.redis.Addr(), PoolSize: 20, MaxRetries: -1})
	defer func() { _ = crowd.Close() }()
	l.suffer(func() error {
		for range 10 {
			conn := crowd.Conn()
			if err := conn.Ping(ctx).Err(); err != nil {
				return err
			}
			others = append(others, conn)
		}
		var keep []int64
		for _, conn := range others {
			id, err := conn.ClientID(ctx).Result()
			if err != nil {
				return err
			}
			keep = append(keep, id)
		}
		if err := others[0].ConfigSet(ctx, "maxclients", "10").Err(); err != nil {
			return err
		}
		list, err := others[0].Do(ctx, "CLIENT", "LIST").Text()
		for entry := range strings.Lines(list) {
			var id int64
			if _, err := fmt.Sscanf(entry, "id=%d ", &id); err == nil && !slices.Contains(keep, id) {
				others[0].Do(ctx, "CLIENT", "KILL", "ID", id)
			}
		}
		return err
	}, func() error {
		info, err := others[0].Info(ctx, "stats").Result()
		c.t.Log("evidence: " + line(info, "rejected_connections"))
		err = errors.Join(err, others[0].ConfigSet(ctx, "maxclients", "10000").Err())
		for _, conn := range others {
			_ = conn.Close()
		}
		return err
	}, out)
	if l.h.refused == 0 {
		c.t.Error("no submit was refused")
	}
}

// Redis' memory is full and Redis may not evict. Submits are refused. Running jobs finish, are acknowledged and
// can be cancelled.
func TestRedisFull(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_WORKERS=4")
	l := c.underLoad(s, 2, 5000)
	running := s.submit("public", counting(l.file, 6000))
	s.await(running, "PROCESSING", 5*time.Second)
	waiting := s.submit("public", `{"delaySeconds":3600}`)
	l.also = append(l.also, running)
	l.suffer(func() error { return c.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err() }, func() error {
		if p := s.poll(running); p.Status != "PROCESSING" {
			t.Errorf("a poll of a running job: %+v", p)
		}
		if p := s.await(l.span, "COMPLETED", 5*time.Second); p.RetryCount != 0 {
			t.Errorf("retryCount %d", p.RetryCount)
		}
		testkit.Eventually(t, 5*time.Second, "its outcome is acknowledged", func() (bool, string) {
			n, err := c.rdb.ZCard(t.Context(), "{tierq:0}:outbox").Result()
			return n == 0 && err == nil, fmt.Sprint(n, err)
		})
		wants(t, do(t, "DELETE", s.base+"/admin/jobs/"+waiting, ""), 200, "")
		wants(t, s.ask("paid", `{}`), 503, "SYSTEM_UNHEALTHY")
		if err := c.rdb.Set(context.Background(), "x", "1", 0).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
			t.Errorf("a write is answered %v", err)
		}
		return c.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err()
	}, 3*time.Second)
	if p := s.await(running, "COMPLETED", 10*time.Second); p.RetryCount != 0 {
		t.Errorf("retryCount %d", p.RetryCount)
	}
	l.cancelled = append(l.cancelled, waiting)
	l.end()
}

// Redis alternately refuses and accepts writes, for a second each. The gate does not follow every change.
func TestRedisFlaps(t *testing.T) {
	t.Attr("proves", "F56")
	t.Parallel()
	c := newCluster(t)
	l := c.underLoad(c.start(), 4, 7000)
	l.fenced = true
	const flaps = 3
	for range flaps {
		for _, memory := range []string{"1", "0"} {
			if err := c.rdb.ConfigSet(t.Context(), "maxmemory", memory).Err(); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
	}
	l.flows("after the fault")
	var changes []time.Time
	for text := range strings.Lines(l.s.Output()) {
		if strings.Contains(text, `"msg":"gate `) {
			var entry struct{ Time time.Time }
			if err := json.Unmarshal([]byte(text), &entry); err != nil {
				t.Fatal(err)
			}
			changes = append(changes, entry.Time)
		}
	}
	for i := 1; i < len(changes); i++ {
		if d := changes[i].Sub(changes[i-1]); d < 1900*time.Millisecond {
			t.Errorf("the gate changed twice in %s", d)
		}
	}
	t.Logf("evidence: Redis was full %d times, %d submits were refused; the gate changed %d times", flaps, l.h.refused,
		len(changes))
	if len(changes) < 2 || len(changes) > flaps+2 {
		t.Errorf("the gate changed %d times in %d flaps", len(changes), flaps)
	}
	l.end()
}
