package queuetest

import (
	"context"
	_ "embed" // the snapshot script
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

//go:embed snapshot.lua
var snapshotSource string

var snapshotScript = redis.NewScript(snapshotSource)

// Snapshot has everything that one partition holds, read in one step. Keys has all keys; the other fields are the
// parts of them that tests need most.
type Snapshot struct {
	Keys map[string]Value             // by the key without its hash tag
	Jobs map[string]map[string]string // id -> its fields, see fieldsOf
	// the sorted sets by the scripts' names: queue, scheduled, heartbeat_deadlines, run_deadlines, ... -> id -> score; a
	// declared queue is queue:<name>
	Sets      map[string]map[string]float64
	Outbox    []string                     // the members of the outbox, sorted
	Columns   map[string]map[string]string // leases, tried, checkpoints -> id -> text
	Records   map[string]string            // id -> text
	Ends      map[string]string            // id -> what is kept of the ended job
	Slices    map[string]time.Duration     // slice -> its time to live, negative = none
	Unacked   map[string]int64             // slice -> how many of its jobs SQL lacks
	Reserved  map[string]string            // id -> the job's place
	Reserving map[string]string            // id -> since when SQL has not confirmed the place
	Counters  map[string]int64             // zero ones left out
	Owners    map[string]int64             // the counted living jobs of each owner
	Histories map[string][]string          // id -> lines
	Logs      map[string][]string          // id -> lines
	Doorbell  int
}

// Value is one key: its type, its time to live (negative = none) and its items as texts. The items of a hash
// ("field=value") and of a sorted set ("member@score") are sorted; those of a list keep their order.
type Value struct {
	Type  string
	TTL   time.Duration
	Items []string
}

// columnNames are the hashes that have a field per job.
var columnNames = []string{"leases", "tried", "checkpoints"}

// setNames are the sorted sets that a job can be in, by the scripts' names.
var setNames = []string{"queue", "scheduled", "heartbeat_deadlines", "run_deadlines", "outbox", "quarantine",
	"expiries"}

// Read takes a snapshot of a partition.
func Read(ctx context.Context, c redis.UniversalClient, partition int) (Snapshot, error) {
	s := Snapshot{Keys: map[string]Value{}, Jobs: map[string]map[string]string{}, Sets: map[string]map[string]float64{},
		Counters: map[string]int64{}, Owners: map[string]int64{},
		Histories: map[string][]string{}, Logs: map[string][]string{},
		Columns: map[string]map[string]string{}, Records: map[string]string{}, Ends: map[string]string{},
		Slices: map[string]time.Duration{}, Unacked: map[string]int64{}}
	for _, name := range setNames {
		s.Sets[name] = map[string]float64{}
	}
	reply, err := snapshotScript.Run(ctx, c, []string{tag(partition)}).Slice()
	if err != nil {
		return s, fmt.Errorf("snapshot: %w", err)
	}
	for _, item := range reply {
		key := item.([]any)
		s.add(key[0].(string), key[1].(string), key[2].(string), texts(key[3]))
	}
	for _, texts := range []map[string]string{s.Records, s.Columns["leases"], s.Columns["tried"], s.Ends} {
		for id := range texts {
			if s.Jobs[id] == nil {
				s.Jobs[id] = s.fieldsOf(id)
			}
		}
	}
	return s, nil
}

// Queue returns the ready jobs of a queue with their scores.
func (s Snapshot) Queue(name string) map[string]float64 { return s.Sets[setOfQueue(name)] }

// setOfQueue returns the name of a queue's set in Sets.
func setOfQueue(name string) string {
	if name == job.MainQueue {
		return "queue"
	}
	return suffix("queues") + name
}

// tag returns the beginning that all keys of a partition share.
func tag(partition int) string {
	return strings.TrimSuffix(queue.Key(partition, "queue"), "main:queue")
}

func texts(reply any) []string {
	var list []string
	for _, item := range reply.([]any) {
		text, _ := item.(string)
		list = append(list, text)
	}
	return list
}

func (s *Snapshot) add(key, kind, ttl string, flat []string) {
	left, _ := strconv.ParseInt(ttl, 10, 64)
	v := Value{Type: kind, TTL: time.Duration(left) * time.Millisecond, Items: flat}
	pairs := map[string]string{}
	if kind == "hash" || kind == "zset" {
		v.Items = nil
		for i := 0; i+1 < len(flat); i += 2 {
			pairs[flat[i]] = flat[i+1]
			v.Items = append(v.Items, flat[i]+map[string]string{"hash": "=", "zset": "@"}[kind]+flat[i+1])
		}
		slices.Sort(v.Items)
	}
	s.Keys[key] = v
	for _, name := range setNames {
		if key == suffix(name) {
			for member, score := range pairs {
				s.Sets[name][member[:min(len(member), idLength)]], _ = strconv.ParseFloat(score, 64)
			}
		}
	}
	if strings.HasPrefix(key, suffix("queues")) || strings.HasPrefix(key, suffix("lines")+"jobs:") {
		s.Sets[key] = map[string]float64{}
		for id, score := range pairs {
			s.Sets[key][id], _ = strconv.ParseFloat(score, 64)
		}
	}
	for _, name := range columnNames {
		if key == suffix(name) {
			s.Columns[name] = pairs
		}
	}
	if id, ok := strings.CutPrefix(key, suffix("job")); ok {
		s.Records[id] = strings.Join(flat, "")
	}
	if slice, ok := strings.CutPrefix(key, suffix("ended")); ok {
		s.Slices[slice] = v.TTL
		for id, text := range pairs {
			if id != "-" {
				s.Ends[id] = text
			}
		}
	}
	if id, ok := strings.CutPrefix(key, suffix("attempts")); ok {
		s.Histories[id] = flat
	}
	if id, ok := strings.CutPrefix(key, suffix("logs")); ok {
		s.Logs[id] = flat
	}
	switch key {
	case suffix("outbox"):
		s.Outbox = slices.Sorted(maps.Keys(pairs))
	case suffix("unacked"):
		for slice, text := range pairs {
			s.Unacked[slice], _ = strconv.ParseInt(text, 10, 64)
		}
	case suffix("counters"):
		for field, text := range pairs {
			if n, _ := strconv.ParseInt(text, 10, 64); n != 0 {
				s.Counters[field] = n
			}
		}
	case suffix("owners"):
		for owner, text := range pairs {
			s.Owners[owner], _ = strconv.ParseInt(text, 10, 64)
		}
	case suffix("reserved"):
		s.Reserved = pairs
	case suffix("reserving"):
		s.Reserving = pairs
	case suffix("doorbell"):
		s.Doorbell = len(flat)
	}
}

// suffix returns a key by its name in the scripts, without the hash tag.
func suffix(name string) string { return strings.TrimPrefix(queue.Key(0, name), tag(0)) }

// idLength is how many characters an id has.
const idLength = 36

// SliceOf returns the slice that keeps the end of a job: the first 11 characters of its id.
func SliceOf(id string) string { return id[:min(len(id), 11)] }

// TTL returns the time to live of an ended job's slice; negative = none.
func (s Snapshot) TTL(id string) time.Duration {
	if ttl, ok := s.Slices[SliceOf(id)]; ok {
		return ttl
	}
	return -1
}

// Acknowledged says whether a job has ended and SQL has it.
func (s Snapshot) Acknowledged(id string) bool {
	_, ended := s.Ends[id]
	_, waits := s.Sets["outbox"][id]
	return ended && !waits
}

// Lines returns the whole snapshot as text, one line per item, sorted by key. Of a time to live a line says only
// that it exists, because it changes with time.
func (s Snapshot) Lines() []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.Keys)) {
		v := s.Keys[key]
		head := key + " (" + v.Type
		if v.TTL >= 0 {
			head += ", with a ttl"
		}
		lines = append(lines, head+")")
		for _, item := range v.Items {
			lines = append(lines, key+" "+item)
		}
	}
	return lines
}

var times = regexp.MustCompile(`\b[1-9]\d{12,15}\b`)

// Shape returns Lines without the times and the scores made of times, to compare two executions of the same steps.
func (s Snapshot) Shape() []string {
	lines := s.Lines()
	for i := range lines {
		lines[i] = times.ReplaceAllString(lines[i], "T")
	}
	return lines
}

// Diff returns the lines that two lists of lines do not have in common.
func Diff(before, after []string) []string {
	var diff []string
	was, is := setOf(before), setOf(after)
	for _, line := range before {
		if !is[line] {
			diff = append(diff, "- "+line)
		}
	}
	for _, line := range after {
		if !was[line] {
			diff = append(diff, "+ "+line)
		}
	}
	return diff
}

func setOf(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		set[line] = true
	}
	return set
}

// State returns a job's status, "" if Redis has nothing of it.
func (s Snapshot) State(id job.ID) job.Status { return job.Status(s.Jobs[string(id)]["state"]) }
