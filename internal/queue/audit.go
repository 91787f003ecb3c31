package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// recountLimit is how many jobs a recount counts in one step of Redis, which takes about 3 ms.
const recountLimit = 1000

// AuditJobs checks that jobs, of any partitions, are in the places that their states give them; see lua/audit.lua.
// A job in its right place has no finding.
func (q *Queue) AuditJobs(ctx context.Context, suspects []job.Suspected) ([]job.Finding, error) {
	byPartition := make([][]job.Suspected, q.opts.Partitions)
	for _, s := range suspects {
		if s.Partition >= 0 && s.Partition < q.opts.Partitions {
			byPartition[s.Partition] = append(byPartition[s.Partition], s)
		}
	}
	var found []job.Finding
	for p, all := range byPartition {
		for len(all) > 0 {
			n := min(len(all), job.MaxBatch)
			some, err := q.auditBatch(ctx, p, all[:n])
			found = append(found, some...)
			if err != nil {
				return found, err
			}
			all = all[n:]
		}
	}
	return found, nil
}

func (q *Queue) auditBatch(ctx context.Context, partition int, batch []job.Suspected) ([]job.Finding, error) {
	args := make([]any, 0, 1+3*len(batch))
	args = append(args, ms(q.longest()))
	for _, s := range batch {
		known := make([]string, len(s.Recorded))
		for i, r := range s.Recorded {
			known[i] = strconv.Itoa(r.Generation) + " " + string(r.Status)
		}
		args = append(args, string(s.ID), strings.Join(known, " "), s.MetIn)
	}
	texts, err := q.texts(ctx, q.redis.Main, q.audit, partition, args)
	if err != nil {
		return nil, err
	}
	return q.readAudited(partition, batch, texts)
}

// readAudited reads the reply of lua/audit.lua: a word per job and, behind it, the kinds of the faults found.
func (q *Queue) readAudited(partition int, batch []job.Suspected, texts []string) (found []job.Finding, err error) {
	if len(texts) != len(batch) {
		return nil, fmt.Errorf("audit: %d words for %d jobs", len(texts), len(batch))
	}
	for i, text := range texts {
		first, kinds, _ := strings.Cut(text, " ")
		word, err := q.audit.word(first)
		if err != nil {
			return found, err
		}
		for _, kind := range strings.Fields(kinds) {
			f := job.Finding{ID: batch[i].ID, Partition: partition, Result: word, Kind: kind}
			if kind == payloadLost {
				f.Result = job.Reported
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// payloadLost is the only kind of finding that audit.lua cannot repair.
const payloadLost = "payload_lost"

// longest returns the longest MaxProcessingTime of all tiers, at least a minute.
func (q *Queue) longest() time.Duration {
	longest := time.Minute
	for _, p := range q.plans.All() {
		longest = max(longest, p.MaxProcessingTime)
	}
	return longest
}

// Recount checks a partition's own keys against their types and, if count is true, its counters against its sets.
func (q *Queue) Recount(ctx context.Context, partition int, count bool) ([]job.Finding, error) {
	limit := 0
	if count {
		limit = recountLimit
	}
	texts, err := q.texts(ctx, q.redis.Main, q.recount, partition, []any{limit, strings.Join(q.opts.Queues.Names(), " ")})
	if err != nil {
		return nil, err
	}
	return q.readRecounted(partition, texts)
}

// readRecounted reads the reply of lua/recount.lua: a word, a kind and a detail per finding.
func (q *Queue) readRecounted(partition int, texts []string) ([]job.Finding, error) {
	found := make([]job.Finding, len(texts))
	for i, text := range texts {
		first, rest, _ := strings.Cut(text, " ")
		word, err := q.recount.word(first)
		if err != nil {
			return nil, err
		}
		kind, detail, _ := strings.Cut(rest, " ")
		found[i] = job.Finding{Partition: partition, Result: word, Kind: kind, Detail: detail}
	}
	return found, nil
}

// Missing returns those of the ids whose jobs Redis does not have.
func (q *Queue) Missing(ctx context.Context, ids []job.ID) (missing []job.ID, err error) {
	for p, batch := range job.Batches(ids, func(i *job.ID) job.ID { return *i }, func(*job.ID) int { return 0 }) {
		if p < 0 || p >= q.opts.Partitions {
			continue
		}
		some, err := q.missing(ctx, p, batch)
		if err != nil {
			return nil, err
		}
		missing = append(missing, some...)
	}
	return missing, nil
}

// missing returns those of some ids of a partition of which Redis has neither a record nor an end.
func (s *shared) missing(ctx context.Context, partition int, ids []job.ID) (missing []job.ID, err error) {
	records, ends := make([]*redis.IntCmd, len(ids)), make([]*redis.BoolCmd, len(ids))
	err = inStep(ctx, s.redis.Main, func(p redis.Pipeliner) error {
		for i, id := range ids {
			records[i] = p.Exists(ctx, Key(partition, "job")+string(id))
			ends[i] = p.HExists(ctx, Key(partition, "ended")+slice(id), string(id))
		}
		return nil
	})
	if err != nil {
		return nil, classify("exists", err)
	}
	for i, id := range ids {
		if records[i].Val() == 0 && !ends[i].Val() {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// KeepAudit stores the report of an audit pass, for all processes.
func (q *Queue) KeepAudit(ctx context.Context, r job.AuditReport) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keep audit: %w", err)
	}
	return classifyNil("keep audit", q.redis.Main.Set(ctx, auditKey, text, 0).Err())
}

// LastAudit returns the report of the last audit pass, or job.ErrNotFound if Redis has none or a newer build wrote
// it.
func (v *View) LastAudit(ctx context.Context) (r job.AuditReport, err error) {
	text, err := v.redis.Main.Get(ctx, auditKey).Bytes()
	switch {
	case errors.Is(err, redis.Nil):
		return r, job.ErrNotFound
	case err != nil:
		return r, classify("last audit", err)
	}
	if err := json.Unmarshal(text, &r); err != nil { // a newer build wrote the report
		return job.AuditReport{}, fmt.Errorf("last audit: %w: %w", job.ErrNotFound, err)
	}
	return r, nil
}

// Quarantined lists at most limit jobs that the audit set aside, partition by partition and the oldest of each
// first. total is how many there are.
func (v *View) Quarantined(ctx context.Context, limit int) (items []job.QuarantinedJob, total int64, err error) {
	for p := range v.opts.Partitions {
		n, err := v.redis.Main.ZCard(ctx, Key(p, "quarantine")).Result()
		if err != nil {
			return nil, 0, classify("quarantine", err)
		}
		total += n
		if n == 0 || len(items) >= limit {
			continue
		}
		page, err := v.redis.Main.ZRangeWithScores(ctx, Key(p, "quarantine"), 0, int64(limit-len(items)-1)).Result()
		if err != nil {
			return nil, 0, classify("quarantine", err)
		}
		ids := make([]job.ID, len(page))
		for i, z := range page {
			ids[i] = member(z)
		}
		gone, err := v.missing(ctx, p, ids)
		if err != nil {
			return nil, 0, err
		}
		for i, z := range page {
			item := job.QuarantinedJob{ID: ids[i], Partition: p, Since: msTime(scoreText(z.Score)), There: true}
			if len(gone) > 0 && gone[0] == ids[i] {
				item.There, gone = false, gone[1:]
			}
			items = append(items, item)
		}
	}
	return items, total, nil
}
