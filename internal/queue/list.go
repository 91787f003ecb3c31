package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// A list reads the sets that hold living jobs one after the other, each in its own order: running jobs, ready
// jobs, those in lines, scheduled jobs, and ended jobs that are not in SQL yet. It reads at most maxLook jobs per page,
// lookStep at once.
const (
	maxLook  = 1000
	lookStep = 100
)

var sources = []struct {
	set      string
	statuses []job.Status // the statuses that its jobs can have
}{
	{"run_deadlines", []job.Status{job.Processing}}, // its scores are constant, those of heartbeat_deadlines are not
	{"queue", []job.Status{job.Pending}},
	{"lines", []job.Status{job.Pending}},                 // a set for each line
	{"scheduled", []job.Status{job.Scheduled, job.Held}}, // the HELD ones last
	{"outbox", []job.Status{job.Completed, job.Failed, job.Cancelled, job.Expired}},
}

// place is the position in a list at which a page ended: a set of a partition, and the last entry that was read.
type place struct {
	source, partition int
	score             float64
	member            string
	// the declared queue whose ready jobs are read, or the name of the line; "" = main, another set, or before the first
	// line
	queue string
}

func (p place) String() string {
	score := strconv.FormatFloat(p.score, 'f', -1, 64)
	text := fmt.Sprintf("%d.%d.%s.%s", p.source, p.partition, score, strings.ReplaceAll(p.member, ".", dot))
	if p.queue != "" {
		text += "." + p.queue
	}
	return text
}

// dot stands for a '.' in a member that is a line. The names of keys do not have it.
const dot = "%2E"

// isIn says whether the place is in a set, by its name in the scripts.
func (p place) isIn(set string) bool { return sources[p.source].set == set }

// key returns the key of the place's set.
func (p place) key() string {
	if p.isIn("lines") {
		return LineKey(p.partition, p.queue)
	}
	if p.queue != "" {
		return QueueKey(p.partition, p.queue)
	}
	return Key(p.partition, sources[p.source].set)
}

func (v *View) readPlace(cursor string) (place, error) {
	start := place{score: math.Inf(-1)}
	if cursor == "" {
		return start, nil
	}
	f := strings.SplitN(cursor, ".", 5)
	if len(f) < 4 {
		return start, job.ErrBadCursor
	}
	queue := strings.Join(f[4:], "")
	source, err1 := strconv.Atoi(f[0])
	partition, err2 := strconv.Atoi(f[1])
	score, err3 := strconv.ParseFloat(f[2], 64)
	if err1 != nil || err2 != nil || err3 != nil || math.IsNaN(score) || source < 0 || source >= len(sources) ||
		partition < 0 || partition >= v.opts.Partitions {
		return start, job.ErrBadCursor
	}
	p := place{source, partition, score, strings.ReplaceAll(f[3], dot, "."), queue}
	if _, err := job.ParseID(f[3]); f[3] != "" && err != nil && !(p.isIn("queue") && isLine(f[3])) {
		return start, job.ErrBadCursor
	}
	_, isLineName := readLineName(queue)
	switch {
	case queue == "", p.isIn("queue") && (job.Queue{Name: queue}).Check() == nil, p.isIn("lines") && isLineName:
	default:
		return start, job.ErrBadCursor
	}
	if p.String() != cursor { // only one spelling of each number is accepted
		return start, job.ErrBadCursor
	}
	return p, nil
}

// List reads living jobs, and ended jobs that SQL does not have yet, without payloads and results. A page may be
// shorter than limit, even empty, and still have a next cursor; next = "" means the end. A job that moves while a
// list is read may appear twice or not at all. The error for an unknown cursor is job.ErrBadCursor.
func (v *View) List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string,
	err error) {
	if f.Owner == nil {
		return v.list(ctx, f, cursor, limit)
	}
	s, err := v.sealed(ctx)
	if err == nil && cursor != "" {
		cursor, err = s.open(cursor, *f.Owner)
	}
	if err != nil {
		return nil, "", err
	}
	if items, next, err = v.list(ctx, f, cursor, limit); next != "" {
		next = s.close(next, *f.Owner)
	}
	return items, next, err
}

func (v *View) list(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string,
	err error) {
	at, err := v.readPlace(cursor)
	if err != nil {
		return nil, "", err
	}
	names := map[int][]string{} // of the lines of a partition, sorted
	for looked := 0; looked < maxLook && len(items) < limit; {
		if at.source == len(sources) {
			return items, "", nil
		}
		found, err := v.look(ctx, f, &at)
		if err != nil {
			return nil, "", err
		}
		if found == nil { // the set has no more entries
			if at, err = v.after(ctx, at, names); err != nil {
				return nil, "", err
			}
			continue
		}
		for i := range found {
			looked++
			at.score, at.member = found[i].score, string(found[i].ID)
			if found[i].there && f.Takes(&found[i].Job) {
				if items = append(items, found[i].Job); len(items) == limit {
					break
				}
			}
		}
	}
	if at.source == len(sources) {
		return items, "", nil
	}
	return items, at.String(), nil
}

// after returns the beginning of the next set: the same set of the next partition or, after the last partition, the
// next set of the first one. After the ready jobs of main come those of the declared queues, by name, and then the
// lines of each partition, by name.
func (v *View) after(ctx context.Context, p place, names map[int][]string) (place, error) {
	p.score, p.member = math.Inf(-1), ""
	if p.isIn("lines") {
		if names[p.partition] == nil {
			found, err := v.redis.Read.ZRange(ctx, lineSetKey(p.partition, lineWaiting), 0, -1).Result()
			if err != nil {
				return p, classify("list", err)
			}
			slices.Sort(found)
			names[p.partition] = append(found, "")[:len(found)]
		}
		for _, name := range names[p.partition] {
			if _, ok := readLineName(name); ok && name > p.queue {
				p.queue = name
				return p, nil
			}
		}
		p.queue = ""
	}
	if p.partition++; p.partition < v.opts.Partitions {
		return p, nil
	}
	p.partition = 0
	if sources[p.source].set == "queue" {
		for _, name := range v.opts.Queues.Names() {
			if name > p.queue {
				p.queue = name
				return p, nil
			}
		}
	}
	p.source, p.queue = p.source+1, ""
	return p, nil
}

type listed struct {
	job.Job
	score float64
	there bool // Redis still has the job
}

// look reads the next entries after a place. It returns nil if there are none, or if the filter accepts no job of
// the set.
func (v *View) look(ctx context.Context, f job.Filter, at *place) ([]listed, error) {
	source := sources[at.source]
	if f.Status != "" && !slices.Contains(source.statuses, f.Status) {
		return nil, nil
	}
	if f.Queue != "" && source.set == "queue" && f.Queue != cmp.Or(at.queue, job.MainQueue) {
		return nil, nil
	}
	if source.set == "lines" {
		l, ok := readLineName(at.queue)
		if !ok || f.Queue != "" && f.Queue != l.Queue || f.Tier != "" && string(f.Tier) != l.Tier {
			return nil, nil
		}
	}
	if f.Status == job.Held && at.score < heldFrom {
		at.score, at.member = heldFrom, ""
	}
	entries, err := v.entries(ctx, at.key(), at)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	found := make([]listed, len(entries))
	var ids []job.ID
	for i, e := range entries {
		found[i] = listed{Job: job.Job{ID: member(e)}, score: e.Score}
		if !isLine(string(found[i].ID)) {
			ids = append(ids, found[i].ID)
		}
	}
	jobs, err := v.findMany(ctx, ids)
	if err != nil {
		return nil, classify("list", err)
	}
	for i := range found {
		if isLine(string(found[i].ID)) {
			continue
		}
		if jobs[0] != nil {
			found[i].Job, found[i].there = *jobs[0], true
		}
		jobs = jobs[1:]
	}
	return found, nil
}

// entries returns the next members of a set after a place, nil at its end. Entries with equal scores are ordered
// by member.
func (v *View) entries(ctx context.Context, key string, at *place) ([]redis.Z, error) {
	page, err := v.redis.Read.ZRangeByScoreWithScores(ctx, key,
		&redis.ZRangeBy{Min: scoreText(at.score), Max: "+inf", Count: lookStep}).Result()
	if err != nil {
		return nil, classify("list", err)
	}
	if i := slices.IndexFunc(page, at.before); i >= 0 {
		return page[i:], nil
	}
	if len(page) < lookStep {
		return nil, nil
	}
	return v.crowded(ctx, key, at)
}

// before says whether the place comes before an entry.
func (p *place) before(z redis.Z) bool {
	return z.Score > p.score || z.Score == p.score && string(member(z)) > p.member
}

// crowded returns the next entries where more than a page of entries share the place's score, by rank: a million
// jobs may be due in the same millisecond. Moves of jobs shift the ranks meanwhile, so a page counts only if its
// first entry is not after the place: then no entry was skipped.
func (v *View) crowded(ctx context.Context, key string, at *place) ([]redis.Z, error) {
	for try := range crowdedTries {
		rank, err := v.redis.Read.ZRank(ctx, key, at.member).Result()
		if errors.Is(err, redis.Nil) || err == nil && try > 0 { // the place's entry is gone or has moved
			rank, err = v.rankBehind(ctx, key, at)
		}
		if err != nil {
			return nil, classify("list", err)
		}
		from := max(rank-1, 0)
		page, err := v.redis.Read.ZRangeWithScores(ctx, key, from, from+lookStep).Result()
		if err != nil {
			return nil, classify("list", err)
		}
		i := slices.IndexFunc(page, at.before)
		switch {
		case len(page) == 0 && from > 0: // the set has shrunk below the rank
		case i > 0 || i == 0 && from == 0:
			return page[i:], nil
		case i < 0 && len(page) <= lookStep:
			return nil, nil
		}
	}
	return nil, fmt.Errorf("list: %w: the set moves too fast", job.ErrUnavailable)
}

// ReadyIn returns ready jobs of a queue, the best of each partition first and those in lines last, at most limit.
func (v *View) ReadyIn(ctx context.Context, queue string, limit int) (ids []job.ID, err error) {
	for p := range v.opts.Partitions {
		if len(ids) == limit {
			break
		}
		found, err := v.redis.Main.ZRange(ctx, QueueKey(p, queue), 0, int64(limit-len(ids)-1)).Result()
		if err != nil {
			return nil, classify("list", err)
		}
		for _, one := range found {
			if !isLine(one) {
				ids = append(ids, job.ID(one))
			}
		}
	}
	for p := range v.opts.Partitions {
		names, err := v.redis.Main.ZRange(ctx, lineSetKey(p, lineWaiting), 0, -1).Result()
		if err != nil {
			return nil, classify("list", err)
		}
		for _, name := range names {
			if l, ok := readLineName(name); !ok || l.Queue != queue || len(ids) == limit {
				continue
			}
			found, err := v.redis.Main.ZRange(ctx, LineKey(p, name), 0, int64(limit-len(ids)-1)).Result()
			if err != nil {
				return nil, classify("list", err)
			}
			for _, one := range found {
				ids = append(ids, job.ID(one))
			}
		}
	}
	return ids, nil
}

const crowdedTries = 10

// rankBehind counts the entries at the place or before it, by binary search.
func (v *View) rankBehind(ctx context.Context, key string, at *place) (int64, error) {
	low, err := v.redis.Read.ZCount(ctx, key, "-inf", "("+scoreText(at.score)).Result()
	if err != nil {
		return 0, err
	}
	high, err := v.redis.Read.ZCount(ctx, key, "-inf", scoreText(at.score)).Result()
	if err != nil {
		return 0, err
	}
	for low < high {
		middle := low + (high-low)/2
		one, err := v.redis.Read.ZRangeWithScores(ctx, key, middle, middle).Result()
		switch {
		case err != nil:
			return 0, err
		case len(one) == 1 && !at.before(one[0]):
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}
