package chaos

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// The faults of this file lose no data of Redis: it stands still, refuses commands, forgets its scripts, or dies
// and comes back with all that it had answered.

// redisStopped returns a fault: SIGSTOP, and SIGCONT after d, as often as times says.
func redisStopped(d time.Duration, times int) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		began := time.Now()
		for n := range times {
			if n > 0 && !hold(ctx, d) {
				break
			}
			if err := w.redis.Freeze(); err != nil {
				return "", err
			}
			hold(ctx, d)
			if err := w.redis.Thaw(); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("pid %d stood still for %s, %d times within %s", w.redis.Pid(), d, times,
			time.Since(began).Round(10*time.Millisecond)), nil
	}
}

// redisKilled returns a fault: kill -9, and a restart from the AOF. If before is not nil, it prepares Redis. If
// broken is not nil, it damages the files while Redis is down.
func redisKilled(before func(context.Context, *wound) error, broken func(*wound) (string, error)) func(context.Context,
	*wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		if before != nil {
			if err := before(ctx, w); err != nil {
				return "", err
			}
		}
		pid := strconv.Itoa(w.redis.Pid())
		if err := w.redis.Kill(); err != nil {
			return "", err
		}
		w.from, w.kills = time.Now(), 1
		evidence := fmt.Sprintf("pid %s is gone: %v", pid, gone(pid))
		var err error
		if broken != nil {
			var how string
			how, err = broken(w)
			evidence += "; " + how
		}
		hold(ctx, w.between(0, 2*time.Second))
		if startErr := w.redis.Restart(); startErr != nil {
			return evidence, startErr
		}
		return evidence, err
	}
}

// everysec makes Redis answer before its AOF is on disk. A restart may then forget what was answered.
func everysec(ctx context.Context, w *wound) error {
	if err := w.rdb.ConfigSet(ctx, "appendfsync", "everysec").Err(); err != nil {
		return fmt.Errorf("set appendfsync: %w", err)
	}
	hold(ctx, 2*time.Second)
	return nil
}

// scriptsFlushed is a fault: SCRIPT FLUSH in a loop.
func scriptsFlushed(ctx context.Context, w *wound) (string, error) {
	return w.redisErrors(ctx, "NOSCRIPT", func() error {
		for range 60 {
			if err := w.rdb.ScriptFlush(context.WithoutCancel(ctx)).Err(); err != nil {
				return fmt.Errorf("flush scripts: %w", err)
			}
			if !hold(ctx, 50*time.Millisecond) {
				break
			}
		}
		return nil
	})
}

// clientsKilled is a fault: CLIENT KILL TYPE normal in a loop. The connection that sends the command stays.
func clientsKilled(ctx context.Context, w *wound) (string, error) {
	killed := 0
	for range 20 {
		n, err := w.rdb.ClientKillByFilter(context.WithoutCancel(ctx), "TYPE", "normal", "SKIPME", "yes").Result()
		if err != nil {
			return "", fmt.Errorf("kill clients: %w", err)
		}
		killed += int(n)
		if !hold(ctx, 100*time.Millisecond) {
			break
		}
	}
	return counted(killed, "connections killed")
}

// full is a fault: maxmemory is reached, and Redis evicts nothing.
func full(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	return w.redisErrors(ctx, "OOM", func() error {
		used, err := w.info(calm, "memory", "used_memory")
		if err != nil {
			return err
		}
		if err := w.rdb.ConfigSet(calm, "maxmemory", strconv.Itoa(used)).Err(); err != nil {
			return fmt.Errorf("set maxmemory: %w", err)
		}
		hold(ctx, w.between(time.Second, 4*time.Second))
		if err := w.rdb.ConfigSet(calm, "maxmemory", "0").Err(); err != nil {
			return fmt.Errorf("set maxmemory: %w", err)
		}
		return nil
	})
}

// replica is a fault: Redis becomes the replica of a master that does not exist, and refuses writes.
func replica(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	nobody, err := testkit.TakePort()
	if err != nil {
		return "", err
	}
	return w.redisErrors(ctx, "READONLY", func() error {
		if err := w.rdb.ReplicaOf(calm, "127.0.0.1", strconv.Itoa(nobody)).Err(); err != nil {
			return fmt.Errorf("replicaof: %w", err)
		}
		hold(ctx, w.between(2*time.Second, 6*time.Second))
		if err := w.rdb.ReplicaOf(calm, "NO", "ONE").Err(); err != nil {
			return fmt.Errorf("replicaof no one: %w", err)
		}
		return nil
	})
}

// writesPaused is a fault: CLIENT PAUSE WRITE delays every script and lets reads through.
func writesPaused(ctx context.Context, w *wound) (string, error) {
	const pause = 3 * time.Second
	if err := w.rdb.Do(ctx, "CLIENT", "PAUSE", pause.Milliseconds(), "WRITE").Err(); err != nil {
		return "", fmt.Errorf("client pause: %w", err)
	}
	hold(ctx, pause/2)
	blocked, err := w.info(context.WithoutCancel(ctx), "clients", "blocked_clients")
	if err != nil {
		return "", err
	}
	hold(ctx, pause/2)
	return counted(blocked, "clients waited")
}

// crowded is a fault: the servers lose their connections, and Redis accepts no new ones.
func crowded(ctx context.Context, w *wound) (string, error) {
	calm := context.WithoutCancel(ctx)
	mine := w.rdb.Conn()
	defer mine.Close()
	before, err := w.info(calm, "stats", "rejected_connections")
	if err != nil {
		return "", err
	}
	if err := mine.Do(calm, "CONFIG", "SET", "maxclients", "3").Err(); err != nil {
		return "", fmt.Errorf("set maxclients: %w", err)
	}
	_ = mine.ClientKillByFilter(calm, "TYPE", "normal", "SKIPME", "yes").Err() // the evidence is counted below
	hold(ctx, w.between(time.Second, 3*time.Second))
	if err := mine.Do(calm, "CONFIG", "SET", "maxclients", "10000").Err(); err != nil {
		return "", fmt.Errorf("set maxclients: %w", err)
	}
	after, err := w.info(calm, "stats", "rejected_connections")
	if err != nil {
		return "", err
	}
	return counted(after-before, "connections refused")
}

// planDeleted is a fault: the plan of a tier is deleted from Redis. A server has to store it again within 10 s.
func planDeleted(ctx context.Context, w *wound) (string, error) {
	defer w.lockAll()() // without a server that lives, no process would have the plan
	calm := context.WithoutCancel(ctx)
	all := plans()
	key := planKey(all[w.rng.IntN(len(all))].Tier)
	before, err := w.rdb.HGetAll(calm, key).Result()
	if err != nil {
		return "", fmt.Errorf("read a plan: %w", err)
	}
	if len(before) == 0 {
		return "it is not there", errMissed
	}
	n, err := w.rdb.Del(calm, key).Result()
	if err != nil {
		return "", fmt.Errorf("delete a plan: %w", err)
	}
	for began := time.Now(); time.Since(began) < 10*time.Second; hold(calm, 20*time.Millisecond) {
		if there, err := w.rdb.Exists(calm, key).Result(); err == nil && there == 1 {
			return fmt.Sprintf("%d deleted, back after %s", n, time.Since(began).Round(10*time.Millisecond)), nil
		}
	}
	for _, s := range w.servers {
		if _, dead := s.died(); !dead {
			return "", fmt.Errorf("nobody stored %s again", key)
		}
	}
	// Poisoned jobs had ended every server that had the plan, and none has started since: the fault itself puts it
	// back.
	if err := w.rdb.HSet(calm, key, before).Err(); err != nil {
		return "", fmt.Errorf("put a plan back: %w", err)
	}
	return "every server had died of a job", errMissed
}

// redisErrors runs do and counts the errors of one name that Redis answered meanwhile.
func (w *wound) redisErrors(ctx context.Context, name string, do func() error) (string, error) {
	calm := context.WithoutCancel(ctx)
	count := func() (int, error) {
		text, err := w.rdb.Info(calm, "errorstats").Result()
		if err != nil {
			return 0, fmt.Errorf("info: %w", err)
		}
		m := regexp.MustCompile(`errorstat_` + name + `:count=(\d+)`).FindStringSubmatch(text)
		if m == nil {
			return 0, nil
		}
		return strconv.Atoi(m[1])
	}
	before, err := count()
	if err != nil {
		return "", err
	}
	if err := do(); err != nil {
		return "", err
	}
	after, err := count()
	if err != nil {
		return "", err
	}
	return counted(after-before, "clients were answered "+name)
}

// info returns one number of INFO.
func (c *cluster) info(ctx context.Context, section, field string) (int, error) {
	text, err := c.rdb.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("info %s: %w", section, err)
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("info %s: no %s", section, field)
}
