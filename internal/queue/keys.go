package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file spells the names of all Redis keys. docs/KEYS.md describes the content of each key.

// prefix returns the hash tag that all keys of a partition share, so that a partition lives in one cluster slot.
func prefix(partition int) string { return "{tierq:" + strconv.Itoa(partition) + "}:" }

// suffixes gives the names in the scripts' KEYS headers their keys. job, attempts, logs, ended, idempotency, unique,
// rate and queues are prefixes: an id, a slice, a hash or the name of a queue follows. claims, suspects, watched,
// other, events and alarms depend on the caller, see claimsSuffix, watchSuffixes and channelSuffix.
var suffixes = map[string]string{
	"queue":               "main:queue",
	"queues":              "queue:",
	"scheduled":           "scheduled",
	"expiries":            "expiries",
	"heartbeat_deadlines": "processing:by-heartbeat",
	"run_deadlines":       "processing:by-maxtime",
	"outbox":              "outbox",
	"counters":            "counters",
	"owners":              "owners",
	"clock":               "clock",
	"doorbell":            "doorbell",
	"quarantine":          "quarantine",
	"job":                 "job:metadata:",
	"attempts":            "job:attempts:",
	"logs":                "job:log:",
	"tried":               "tried",
	"leases":              "leases",
	"checkpoints":         "checkpoints",
	"ended":               "ended:",
	"unacked":             "unacked",
	"reserved":            "reserved",
	"reserving":           "reserving",
	"lines":               "lines:",

	"idempotency": "idempotency:",
	"unique":      "unique:",
	"epoch":       "epoch",
	"rate":        "rate:",
	"probe":       "probe",
}

// The channels of a partition: eventsChannel has every move of a job, alarmsChannel only those that operators hear
// of.
const (
	eventsChannel = "events"
	alarmsChannel = "alarms"
)

// channelSuffix names a channel and the key that says whether a process listens to it. All databases of a server
// share its channels, unlike its keys, so the name carries the database.
func channelSuffix(channel string, c redis.UniversalClient) string {
	if single, ok := c.(*redis.Client); ok && single.Options().DB != 0 {
		return channel + ":" + strconv.Itoa(single.Options().DB)
	}
	return channel
}

func claimsSuffix(nonce string) string { return "claims:" + nonce }

// watchSuffixes maps the key names of reclaim.lua for a watch.
func watchSuffixes(w job.Watch) map[string]string {
	watched, other := suffixes["heartbeat_deadlines"], suffixes["run_deadlines"]
	if w == job.Stuck {
		watched, other = other, watched
	}
	return map[string]string{"watched": watched, "other": other, "suspects": suspectsSuffix(w)}
}

func suspectsSuffix(w job.Watch) string { return "suspects:" + string(w) }

// keysFor returns the KEYS of a script for one partition. special overrides suffixes.
func keysFor(names []string, partition int, special map[string]string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		suffix, ok := special[name]
		if !ok {
			suffix, ok = suffixes[name]
		}
		if !ok {
			panic("queue: a script's header names an unknown key: " + name)
		}
		keys[i] = prefix(partition) + suffix
	}
	return keys
}

// Key returns one of a partition's keys by its name in the scripts' headers, for tests and tools that look inside.
func Key(partition int, name string) string { return keysFor([]string{name}, partition, nil)[0] }

// QueueKey returns the key of a queue: the set of its ready jobs.
func QueueKey(partition int, name string) string {
	return ofQueue(partition, name, "queue", "queues", "")
}

// LineKey returns the key of a line: the set of its ready jobs. name is "tier:key:queue".
func LineKey(partition int, name string) string { return Key(partition, "lines") + lineJobs + name }

// What follows the prefix of the keys of lines. lua/lines.lua says what each key has.
const (
	lineJobs    = "jobs:"
	lineTags    = "tags:"
	lineWaiting = "waiting"
	lineVirtual = "virtual"
	lineKeys    = "keys"
	lineLimits  = "limits"
	lineParked  = "parked"
	lineSpent   = "spent:"
)

// lineName returns the name of the line in which a job waits when it is ready.
func lineName(j *job.Job) string { return string(j.Tier) + ":" + j.Line + ":" + j.QueueName() }

// readyKey returns the key of the set in which a job stands when it is ready: its queue, or its line.
func readyKey(partition int, j *job.Job) string {
	if j.Line != "" {
		return LineKey(partition, lineName(j))
	}
	return QueueKey(partition, j.QueueName())
}

// bellKey returns the key of a queue's doorbell.
func bellKey(partition int, name string) string {
	return ofQueue(partition, name, "doorbell", "doorbell", ":")
}

// ofQueue spells a key of a queue as key_of in lua/prelude.lua does.
func ofQueue(partition int, name, main, prefix, colon string) string {
	if name == job.MainQueue {
		return Key(partition, main)
	}
	return Key(partition, prefix) + colon + name
}

// JobKey returns the key of a job's record.
func JobKey(id job.ID) string { return Key(id.Partition(), "job") + string(id) }

// slice returns the name of the slice in which a job's end is kept: the 256 ms of its id's time.
func slice(id job.ID) string { return string(id[:min(len(id), 11)]) }

// EndedKey returns the key of the slice in which a job's end is kept.
func EndedKey(id job.ID) string { return Key(id.Partition(), "ended") + slice(id) }

// The keys outside partitions.
const (
	configKey = "{tierq}:system:config"
	queuesKey = configKey + ":queues"
	pausedKey = "{tierq}:paused"
	probeKey  = "{tierq}:probe"
	workerKey = "{tierq}:workers"

	// faktoryKey has what Faktory clients are told of the whole cluster.
	faktoryKey = "{tierq}:faktory"

	leasePrefix = "{tierq}:lease:"
	auditKey    = "{tierq}:audit"
)

// heldPrefix begins the keys of the leases that Faktory workers hold.
const heldPrefix = "faktory:"

func (s *shared) heldKey(key, worker string) string { return HeldKey(s.opts.Partitions, key, worker) }

// HeldKey returns the key of the leases that a Faktory worker holds. Neither its own name nor that of its API key is a
// part of the key.
func HeldKey(partitions int, key, worker string) string {
	sum := sha256.Sum256([]byte(key + " " + worker))
	return prefix(int(sum[0])%partitions) + heldPrefix + hex.EncodeToString(sum[:16])
}

func statsKey(resolution string, bucket int64) string {
	return "{tierq}:stats:" + resolution + ":" + strconv.FormatInt(bucket, 10)
}

func sessionsKey(keyID string) string { return "{tierq}:sessions:" + keyID }

func seatsKey(keyID string) string { return "{tierq}:seats:" + keyID }

func planKey(t job.Tier) string { return configKey + ":tier:" + string(t) }
