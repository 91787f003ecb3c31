package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// schemaVersion is the version of the layout of keys and texts. A process that writes another layout must not join.
const schemaVersion = 2

const schemaField = "schemaVersion"

// howToDrain tells an operator what to do about jobs in another layout.
const howToDrain = "run the other build without new submits until no job waits or runs and the outbox is empty, stop " +
	"it, empty this Redis database and start this build (docs/operations/DEPLOY.md, From layout 1)"

// CheckSetup stores the values that all processes of the cluster must agree on, unless they are stored. If this
// process' values differ from the stored ones, the error is job.ErrWrongSetup and names each difference.
func (q *Queue) CheckSetup(ctx context.Context) error {
	ours := []setUp{
		{schemaField, "this build's schema version", strconv.Itoa(schemaVersion)},
		{"partitions", "TIERQ_PARTITIONS", strconv.Itoa(q.opts.Partitions)},
		{"priorityBase", "TIERQ_PRIORITY_BASE", strconv.FormatInt(q.opts.PriorityBase, 10)},
		{"capacity", "TIERQ_CAPACITY", strconv.Itoa(q.opts.Capacity)},
		{"scheduledLimit", "TIERQ_SCHEDULED_LIMIT", strconv.Itoa(q.opts.ScheduledLimit)},
		{"heartbeatMs", "TIERQ_HEARTBEAT_INTERVAL", ms(q.opts.HeartbeatInterval)},
		{"journal", "TIERQ_JOURNAL", map[bool]string{true: "on", false: "off"}[q.opts.Journal]},
	}
	// Values that are stored are only read, so that a process can start while Redis is full and refuses writes.
	stored, err := q.redis.Main.HGetAll(ctx, configKey).Result()
	missing := stored[sealField] == ""
	for _, o := range ours {
		missing = missing || stored[o.field] == ""
	}
	if err == nil && missing {
		stored, err = q.storeSetup(ctx, ours)
	}
	if err != nil {
		return classify("set-up", err)
	}
	known := q.sealing.Load()
	if q.sealWith(stored[sealField], stored[sealEarlier]) {
		if err := q.redis.Main.HSet(ctx, configKey, sealEarlier, known.stored).Err(); err != nil {
			return classify("set-up", err)
		}
	}
	if got := stored[schemaField]; got != strconv.Itoa(schemaVersion) {
		return fmt.Errorf("%w: this build's schema version is %d here and %s in Redis: %s", job.ErrWrongSetup, schemaVersion,
			got, howToDrain)
	}
	var differences []string
	for _, o := range ours {
		if got := stored[o.field]; got != o.value {
			differences = append(differences, fmt.Sprintf("%s is %s here and %s in Redis", o.setting, o.value, got))
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w: %s (to change it: stop every process, HDEL %s the field, start again)", job.ErrWrongSetup,
			strings.Join(differences, "; "), configKey)
	}
	return nil
}

// setUp is one value that every process of the cluster must agree on.
type setUp struct{ field, setting, value string }

// storeSetup stores the values that are missing, and returns all stored values. It is one transaction: of two
// processes that start at once, one stores all of its values and the other none.
func (q *Queue) storeSetup(ctx context.Context, ours []setUp) (map[string]string, error) {
	var stored *redis.MapStringStringCmd
	_, err := q.redis.Main.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, o := range ours {
			pipe.HSetNX(ctx, configKey, o.field, o.value)
		}
		pipe.HSetNX(ctx, configKey, sealField, q.proposedKey())
		stored = pipe.HGetAll(ctx, configKey)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stored.Val(), nil
}

// Durability describes which data the server keeps through a crash, as far as it reports that; in a cluster, the
// weakest setting of all servers.
type Durability struct {
	// Known is false if CONFIG is forbidden (managed services, minimal rights). Then the values come from INFO, which
	// has no Fsync and no Save.
	Known    bool
	AOF      bool
	Fsync    string // always, everysec, no
	Save     bool   // snapshots
	Eviction string // maxmemory-policy
	Version  string
	Server   string // in a cluster, the server that may evict
}

// ReadDurability asks every server for its persistence and eviction settings, including replicas, which become
// masters in a failover. It reports a server that may evict even if others do not answer.
func (v *View) ReadDurability(ctx context.Context) (Durability, error) {
	order, _, err := v.inOrder(ctx)
	problems := []error{err}
	var worst *Durability
	add := func(server redis.UniversalClient, must bool) {
		d, err := durabilityOf(ctx, server)
		d.Server = v.address(server)
		switch {
		case err != nil && must:
			problems = append(problems, err)
		case err != nil: // a replica that does not answer may be gone for good
		case worst == nil:
			worst = &d
		default:
			*worst = worst.orWorse(d)
		}
	}
	for _, server := range order {
		add(server, true)
	}
	if cluster, ok := v.redis.Main.(*redis.ClusterClient); ok {
		var one sync.Mutex
		_ = cluster.ForEachSlave(ctx, func(_ context.Context, replica *redis.Client) error {
			one.Lock()
			defer one.Unlock()
			add(replica, false)
			return nil
		})
	}
	err = errors.Join(problems...)
	if worst != nil && (err == nil || evicts(worst.Eviction)) {
		if !evicts(worst.Eviction) {
			worst.Server = ""
		}
		return *worst, nil
	}
	return Durability{}, classify("durability", err)
}

func evicts(policy string) bool { return policy != "" && policy != "noeviction" }

// orWorse returns the weaker of the two in each setting.
func (d Durability) orWorse(e Durability) Durability {
	weakness := []string{"no", "everysec", "always"}
	if slices.Index(weakness, e.Fsync) < slices.Index(weakness, d.Fsync) {
		d.Fsync = e.Fsync
	}
	if evicts(e.Eviction) && !evicts(d.Eviction) || e.Eviction == "" && d.Eviction == "noeviction" {
		d.Eviction, d.Server = e.Eviction, e.Server
	}
	d.Known, d.AOF, d.Save = d.Known && e.Known, d.AOF && e.AOF, d.Save && e.Save
	return d
}

func durabilityOf(ctx context.Context, server redis.UniversalClient) (Durability, error) {
	var d Durability
	settings := map[string]string{}
	names := []string{"appendonly", "appendfsync", "save", "maxmemory-policy"}
	for _, name := range names {
		got, err := server.ConfigGet(ctx, name).Result()
		if replied(err) {
			return durabilityOfInfo(ctx, server)
		}
		if err != nil {
			return d, err
		}
		settings[name] = got[name]
	}
	d.Known = true
	d.AOF, d.Fsync, d.Save, d.Eviction = settings["appendonly"] == "yes", settings["appendfsync"], settings["save"] != "",
		settings["maxmemory-policy"]
	if info, err := server.Info(ctx, "server").Result(); err == nil {
		for line := range strings.Lines(info) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
				d.Version = v
			}
		}
	}
	return d, nil
}

// durabilityOfInfo reads the settings that INFO has, for servers where CONFIG is forbidden. If INFO is forbidden
// too, nothing is known.
func durabilityOfInfo(ctx context.Context, server redis.UniversalClient) (d Durability, err error) {
	info, err := server.InfoMap(ctx).Result()
	if err != nil && !replied(err) {
		return d, err
	}
	d.AOF = info["Persistence"]["aof_enabled"] == "1"
	d.Eviction, d.Version = info["Memory"]["maxmemory_policy"], info["Server"]["redis_version"]
	return d, nil
}
