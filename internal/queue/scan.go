package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// This file is the audit's walk over a Redis. First it walks over every key of every partition, in the server's
// own order: jobs and histories become suspects, keys that must expire get a time to live if they have none, and
// unknown keys are reported. Then it walks over the members of the sets: a member without a record was not met among
// the keys. The walk may meet a job that moves meanwhile twice or not at all; the next walk meets it.

// walked are the sets of a walk, by the scripts' names.
var walked = []string{"queue", "scheduled", "expiries", "heartbeat_deadlines", "run_deadlines", "outbox", "quarantine",
	"tried", "leases", "checkpoints"}

// columns are those of walked that are hashes.
var columns = map[string]bool{"tried": true, "leases": true, "checkpoints": true}

const (
	scanKeys    = 100    // keys per step: each of them may be a job to audit
	scanMembers = 1000   // members per step
	scanMemory  = 100000 // members per step of an embedded server, which sorts the whole set for each step
)

// Scan makes the step of a walk that begins at a cursor; "" begins a new walk.
func (q *Queue) Scan(ctx context.Context, at string) (job.Scanned, error) {
	from, err := q.readStep(at)
	if err != nil {
		return job.Scanned{}, err
	}
	if from.keys {
		return q.scanKeys(ctx, from.cursor, from.address)
	}
	s, next, err := q.scanSet(ctx, from)
	switch {
	case err != nil:
		return job.Scanned{}, err
	case next != 0:
		s.Next = setCursor(from.set, from.partition, next, from.queue)
	case from.partition+1 < q.opts.Partitions:
		s.Next = setCursor(from.set, from.partition+1, 0, from.queue)
	default:
		s.Next = q.nextSet(from)
	}
	return s, nil
}

// nextSet returns the cursor of the set after a step's; after main's come those of the declared queues, by name.
func (q *Queue) nextSet(from step) string {
	if walked[from.set] == "queue" {
		for _, name := range q.opts.Queues.Names() {
			if name > from.queue {
				return setCursor(from.set, 0, 0, name)
			}
		}
	}
	if from.set+1 < len(walked) {
		return setCursor(from.set+1, 0, 0, "")
	}
	return ""
}

// step is the position of a walk: among the keys of a server, or in a set of a partition.
type step struct {
	keys           bool
	address        string
	set, partition int
	cursor         uint64
	queue          string // the declared queue whose set it is; "" = main, or another set
}

func (s step) key() string {
	if s.queue != "" {
		return QueueKey(s.partition, s.queue)
	}
	return Key(s.partition, walked[s.set])
}

func (q *Queue) readStep(at string) (from step, err error) {
	if keys, ok := strings.CutPrefix(at, "keys "); ok || at == "" {
		number, address, _ := strings.Cut(keys, " ")
		cursor, _ := strconv.ParseUint(number, 10, 64)
		return step{keys: true, address: address, cursor: cursor}, nil
	}
	f := strings.SplitN(at, " ", 5)
	_, err = fmt.Sscanf(strings.Join(f[:min(len(f), 4)], " "), "set %d %d %d", &from.set, &from.partition, &from.cursor)
	from.queue = strings.Join(f[min(len(f), 4):], "")
	if from.queue != "" && err == nil && from.set >= 0 && from.set < len(walked) {
		if walked[from.set] != "queue" {
			return step{}, fmt.Errorf("scan: %w: %q", job.ErrBadCursor, at)
		}
		err = job.Queue{Name: from.queue}.Check()
	}
	if err != nil || from.set < 0 || from.set >= len(walked) || from.partition < 0 || from.partition >= q.opts.Partitions {
		return step{}, fmt.Errorf("scan: %w: %q", job.ErrBadCursor, at)
	}
	return from, nil
}

func setCursor(set, partition int, cursor uint64, queue string) string {
	return strings.TrimSuffix(fmt.Sprintf("set %d %d %d %s", set, partition, cursor, queue), " ")
}

// keysCursor returns the cursor of a step among the keys. It has an address only if there are several servers.
func keysCursor(cursor uint64, address string) string {
	return strings.TrimSuffix("keys "+strconv.FormatUint(cursor, 10)+" "+address, " ")
}

// scanKeys walks over the keys of one server after the other, ordered by address. If a server has left, the walk
// goes on with the next address. The keys of a server that joined before the present address are met by the next
// walk.
func (q *Queue) scanKeys(ctx context.Context, cursor uint64, address string) (job.Scanned, error) {
	servers, err := masters(ctx, q.redis.Main, q.opts.Partitions)
	if err != nil {
		return job.Scanned{}, classify("scan", err)
	}
	byAddress := map[string]redis.UniversalClient{}
	for server := range servers {
		byAddress[q.address(server)] = server
	}
	addresses := slices.Sorted(maps.Keys(byAddress))
	at, there := slices.BinarySearch(addresses, address)
	if !there {
		cursor = 0
	}
	if at == len(addresses) {
		return job.Scanned{Next: setCursor(0, 0, 0, "")}, nil
	}
	keys, next, err := byAddress[addresses[at]].Scan(ctx, cursor, "{tierq:*", scanKeys).Result()
	if err != nil {
		return job.Scanned{}, classify("scan", err)
	}
	s := job.Scanned{Next: setCursor(0, 0, 0, "")}
	switch {
	case next != 0:
		s.Next = keysCursor(next, addresses[at])
	case at+1 < len(addresses):
		s.Next = keysCursor(0, addresses[at+1])
	}
	seen := map[job.ID]bool{}
	var ages, slices, uniques, lines []string
	for _, key := range keys {
		partition, suffix := q.splitKey(key)
		kind, id := q.kindOf(suffix)
		switch {
		case partition < 0 || kind == "":
			s.Found = append(s.Found, job.Finding{Partition: partition, Result: job.Reported, Kind: "unknown_key", Detail: key})
		case kind == "ages":
			ages = append(ages, key)
		case kind == "slice":
			slices = append(slices, key)
		case kind == "unique":
			uniques = append(uniques, key)
		case kind == "line":
			lines = append(lines, key)
		case kind == "job" && !seen[id]:
			seen[id] = true
			s.Suspects = append(s.Suspects, job.Suspected{ID: id, Partition: partition})
		}
	}
	mended, err := q.holdAges(ctx, ages)
	s.Found = append(s.Found, mended...)
	if err != nil {
		return s, err
	}
	mended, err = q.holdSlices(ctx, slices)
	s.Found = append(s.Found, mended...)
	if err != nil {
		return s, err
	}
	mended, err = q.holdUniques(ctx, uniques)
	s.Found = append(s.Found, mended...)
	if err != nil {
		return s, err
	}
	for _, key := range lines {
		if err := q.scanLine(ctx, key, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// holdSlices gives those slices a time to live that have none although SQL has all of their jobs. It deletes a key of
// another type in a slice's place: a script did not write it.
func (q *Queue) holdSlices(ctx context.Context, keys []string) (found []job.Finding, err error) {
	for _, key := range keys {
		partition, suffix := q.splitKey(key)
		var kind *redis.StatusCmd
		var ttl *redis.DurationCmd
		var unacked *redis.BoolCmd
		err := inStep(ctx, q.redis.Main, func(p redis.Pipeliner) error {
			kind, ttl = p.Type(ctx, key), p.PTTL(ctx, key)
			unacked = p.HExists(ctx, Key(partition, "unacked"), strings.TrimPrefix(suffix, suffixes["ended"]))
			return nil
		})
		if err != nil {
			return found, classify("scan", err)
		}
		if kind.Val() != "hash" && kind.Val() != "none" { // it fails every script that looks into the slice
			if err := q.redis.Main.Del(ctx, key).Err(); err != nil {
				return found, classify("scan", err)
			}
			found = append(found, job.Finding{Partition: partition, Result: job.Repaired, Kind: "type", Detail: suffix})
			continue
		}
		if ttl.Val() != -1 || unacked.Val() { // -1: it has none; go-redis leaves it without a unit
			continue
		}
		keep := max(q.opts.Retention, q.opts.FailedRetention, time.Minute)
		if err := q.redis.Main.PExpire(ctx, key, keep).Err(); err != nil {
			return found, classify("scan", err)
		}
		found = append(found, job.Finding{Partition: partition, Result: job.Repaired, Kind: "ttl", Detail: suffix})
	}
	return found, nil
}

// splitKey returns the partition and the suffix of a key, or -1 for a key that is not of this queue.
func (q *Queue) splitKey(key string) (partition int, suffix string) {
	number, suffix, ok := strings.Cut(strings.TrimPrefix(key, "{tierq:"), "}:")
	partition, err := strconv.Atoi(number)
	if !ok || err != nil || partition < 0 || partition >= q.opts.Partitions || strconv.Itoa(partition) != number {
		return -1, ""
	}
	return partition, suffix
}

// ageing maps the prefixes of keys that must expire to their times to live.
var ageing = map[string]time.Duration{"claims:": time.Minute, eventsChannel: listenKnown, alarmsChannel: listenKnown,
	heldPrefix: heldFor, suffixes["lines"] + lineSpent: 2 * spentWindow, suffixes["rate"]: 24 * time.Hour,
	suffixes["probe"]: time.Minute}

// kindOf classifies a key of a partition: "job" (with the job's id), "ages" (it must expire), "slice", "unique",
// "line" or "fixed"; "" = unknown.
func (q *Queue) kindOf(suffix string) (kind string, id job.ID) {
	for _, prefix := range []string{suffixes["job"], suffixes["attempts"], suffixes["logs"]} {
		if id, ok := strings.CutPrefix(suffix, prefix); ok {
			return "job", job.ID(id)
		}
	}
	if strings.HasPrefix(suffix, suffixes["idempotency"]) {
		return "ages", ""
	}
	if strings.HasPrefix(suffix, suffixes["ended"]) {
		return "slice", ""
	}
	if strings.HasPrefix(suffix, suffixes["unique"]) {
		return "unique", ""
	}
	for prefix := range ageing {
		if strings.HasPrefix(suffix, prefix) {
			return "ages", ""
		}
	}
	for _, w := range []job.Watch{job.Crashed, job.Stuck} {
		if suffix == suspectsSuffix(w) {
			return "fixed", ""
		}
	}
	for _, known := range suffixes {
		if suffix == known {
			return "fixed", ""
		}
	}
	if name, ok := strings.CutPrefix(suffix, suffixes["lines"]); ok {
		return kindOfLine(name), ""
	}
	for _, name := range q.opts.Queues.Names() {
		if suffix == suffixes["queues"]+name || suffix == suffixes["doorbell"]+":"+name {
			return "fixed", ""
		}
	}
	return "", ""
}

// holdAges sets a time to live on those of the keys that have none, and reports each as repaired.
func (q *Queue) holdAges(ctx context.Context, keys []string) (found []job.Finding, err error) {
	ttls := make([]*redis.DurationCmd, len(keys))
	_, err = q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			ttls[i] = p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return found, classify("scan", err)
	}
	for i, key := range keys {
		if ttls[i].Val() != -1 { // -1: the key has none; go-redis returns -1 without a unit
			continue
		}
		partition, suffix := q.splitKey(key)
		keep := q.opts.KeepKeys
		for prefix, d := range ageing {
			if strings.HasPrefix(suffix, prefix) {
				keep = d
			}
		}
		if err := q.redis.Main.PExpire(ctx, key, keep).Err(); err != nil {
			return found, classify("scan", err)
		}
		found = append(found, job.Finding{Partition: partition, Result: job.Repaired, Kind: "ttl", Detail: suffix})
	}
	return found, nil
}

// withoutRecord returns the ids that the walk over the keys does not meet.
func (q *Queue) withoutRecord(ctx context.Context, partition int, ids []job.ID) (unseen []job.ID, err error) {
	records := make([]*redis.IntCmd, len(ids))
	_, err = q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			records[i] = p.Exists(ctx, Key(partition, "job")+string(id))
		}
		return nil
	})
	if err != nil {
		return nil, classify("scan", err)
	}
	for i, id := range ids {
		if records[i].Val() == 0 {
			unseen = append(unseen, id)
		}
	}
	return unseen, nil
}

// scanSet reads members of a set, or of a hash with a field per job. Members without a record become suspects.
// s.Ask has the ids about which SQL is asked: those that Redis does not know otherwise, and all jobs that wait.
func (q *Queue) scanSet(ctx context.Context, from step) (s job.Scanned, next uint64, err error) {
	set, partition := walked[from.set], from.partition
	count := int64(scanMembers)
	if q.opts.Embedded {
		count = scanMemory
	}
	read := q.redis.Main.ZScan
	if columns[set] {
		read, count = q.redis.Main.HScan, min(count, scanKeys) // with values of up to 16 KiB
	}
	pairs, next, err := read(ctx, from.key(), from.cursor, "", count).Result()
	if err != nil {
		return s, 0, classify("scan", err)
	}
	ids := make([]job.ID, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if isLine(pairs[i]) {
			s.Suspects = append(s.Suspects, job.Suspected{ID: job.ID(pairs[i]), Partition: partition, MetIn: from.queue})
			continue
		}
		ids = append(ids, job.ID(pairs[i][:min(len(pairs[i]), idLength)]))
	}
	ask := set == "queue" || set == "scheduled"
	return s, next, q.suspect(ctx, &s, partition, ids, ask, from.queue)
}

// suspect adds the ids of a set to what is looked at: those without a record, and to what SQL is asked about all of
// them or, unless ask is set, those that Redis does not know otherwise.
func (q *Queue) suspect(ctx context.Context, s *job.Scanned, partition int, ids []job.ID, ask bool,
	metIn string) error {
	for first := 0; first < len(ids); first += job.MaxBatch {
		batch := ids[first:min(first+job.MaxBatch, len(ids))]
		unseen, err := q.withoutRecord(ctx, partition, batch)
		if err != nil {
			return err
		}
		for _, id := range unseen {
			s.Suspects = append(s.Suspects, job.Suspected{ID: id, Partition: partition, MetIn: metIn})
		}
		if !ask {
			if batch, err = q.missing(ctx, partition, unseen); err != nil {
				return err
			}
		}
		for _, id := range batch {
			if id.Partition() == partition { // otherwise the member is not a job id
				s.Ask = append(s.Ask, id)
			}
		}
	}
	return nil
}
