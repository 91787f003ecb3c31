package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// schemaVersion is the layout of keys and job hashes; a process that writes another one must not join.
const schemaVersion = 1

// CheckSetup stores what every process of the cluster must agree on, if nobody has yet, and returns job.ErrWrongSetup, naming each difference,
// if this process disagrees.
func (q *Queue) CheckSetup(ctx context.Context) error {
	ours := []struct{ field, setting, value string }{
		{"schemaVersion", "this build's schema version", strconv.Itoa(schemaVersion)},
		{"partitions", "TIERQ_PARTITIONS", strconv.Itoa(q.opts.Partitions)},
		{"priorityBase", "TIERQ_PRIORITY_BASE", strconv.FormatInt(q.opts.PriorityBase, 10)},
		{"capacity", "TIERQ_CAPACITY", strconv.Itoa(q.opts.Capacity)},
		{"scheduledLimit", "TIERQ_SCHEDULED_LIMIT", strconv.Itoa(q.opts.ScheduledLimit)},
		{"heartbeatMs", "TIERQ_HEARTBEAT_INTERVAL", ms(q.opts.HeartbeatInterval)},
	}
	var stored *redis.MapStringStringCmd
	// In one step: of two processes that start at once, one stores all of its values and the other none.
	_, err := q.redis.Main.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, o := range ours {
			pipe.HSetNX(ctx, configKey, o.field, o.value)
		}
		stored = pipe.HGetAll(ctx, configKey)
		return nil
	})
	if err != nil {
		return classify("set-up", err)
	}
	var differences []string
	for _, o := range ours {
		if got := stored.Val()[o.field]; got != o.value {
			differences = append(differences, fmt.Sprintf("%s is %s here and %s in Redis", o.setting, o.value, got))
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w: %s (to change it: stop every process, HDEL %s the field, start again)", job.ErrWrongSetup, strings.Join(differences, "; "), configKey)
	}
	return nil
}

// Durability is what the server keeps through a crash, as far as it tells.
type Durability struct {
	Known    bool // false: CONFIG is forbidden (managed services, least rights), and what INFO says is all: not Fsync, not Save
	AOF      bool
	Fsync    string // always, everysec, no
	Save     bool   // snapshots
	Eviction string // maxmemory-policy
	Version  string
}

// ReadDurability asks the server for its persistence and eviction settings.
func (q *Queue) ReadDurability(ctx context.Context) (Durability, error) {
	var d Durability
	settings := map[string]string{}
	for _, name := range []string{"appendonly", "appendfsync", "save", "maxmemory-policy"} {
		got, err := q.redis.Main.ConfigGet(ctx, name).Result()
		if replied(err) {
			return q.durabilityOfInfo(ctx)
		}
		if err != nil {
			return d, classify("durability", err)
		}
		settings[name] = got[name]
	}
	d.Known = true
	d.AOF, d.Fsync, d.Save, d.Eviction = settings["appendonly"] == "yes", settings["appendfsync"], settings["save"] != "", settings["maxmemory-policy"]
	if info, err := q.redis.Main.Info(ctx, "server").Result(); err == nil {
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
				d.Version = v
			}
		}
	}
	return d, nil
}

// durabilityOfInfo is what is left where CONFIG is forbidden; nothing, where INFO is too.
func (q *Queue) durabilityOfInfo(ctx context.Context) (d Durability, err error) {
	info, err := q.redis.Main.InfoMap(ctx).Result()
	if err != nil && !replied(err) {
		return d, classify("durability", err)
	}
	d.AOF = info["Persistence"]["aof_enabled"] == "1"
	d.Eviction, d.Version = info["Memory"]["maxmemory_policy"], info["Server"]["redis_version"]
	return d, nil
}
