package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// startBytes is how much of a record is read for a caller that does not want the payload. Few records have a longer
// head.
const startBytes = 4096

// heldFrom is what the score of a HELD job in scheduled has above the time from which it may run, which is 0 without a
// delay. See held_from in lua/prelude.lua.
const heldFrom = 4_000_000_000_000_001

// parts are the texts that Redis has of a job, read in one step.
type parts struct {
	record, lease, tried, ended *redis.StringCmd
	due                         *redis.FloatCmd
}

// readParts asks for the texts of a job, for the record without most of its payload unless whole is set. The record is
// read first and the end last, so that a job which ends between two reads is found.
func readParts(ctx context.Context, p redis.Pipeliner, id job.ID, whole bool) (x parts) {
	partition, name := id.Partition(), string(id)
	if whole {
		x.record = p.Get(ctx, JobKey(id))
	} else {
		x.record = p.GetRange(ctx, JobKey(id), 0, startBytes-1)
	}
	x.lease = p.HGet(ctx, Key(partition, "leases"), name)
	x.tried = p.HGet(ctx, Key(partition, "tried"), name)
	x.due = p.ZScore(ctx, Key(partition, "scheduled"), name)
	x.ended = p.HGet(ctx, EndedKey(id), name)
	return x
}

// job makes a job of its texts. The error is job.ErrNotFound if Redis has none of them. A job with an end has ended. A
// job without an end that has a lease runs. A job with only a record waits.
func (x *parts) job(id job.ID, whole bool) (j job.Job, err error) {
	j.ID = id
	record, tried := x.record.Val(), x.tried.Val()
	if ended := x.ended.Val(); ended != "" {
		err = readEnded(ended, &j)
		if _, body, ok := cutRecord(record); ok && j.Status != job.Completed && whole {
			j.Payload = payload(body)
		}
		j.Note = job.NoteOf(j.Result)
		return j, err
	}
	lease, head, runs := strings.Cut(x.lease.Val(), "\n")
	if record == "" && runs { // its payload is lost; the audit reports that
		j.Status = job.Processing
		if _, err := readLease(lease, &j); err != nil {
			return j, err
		}
		return j, readHead(head, &j)
	}
	if record == "" {
		return j, job.ErrNotFound
	}
	if _, _, ok := cutRecord(record); !ok && !whole && len(record) == startBytes {
		return j, errLongHead
	}
	if err = readRecord(record, &j); err != nil && !errors.Is(err, errOptions) {
		return j, err
	}
	if !whole {
		j.Payload = nil
	}
	j.Status = job.Pending
	if tried != "" {
		if err := readTried(tried, &j, runs); err != nil {
			return j, err
		}
	}
	switch {
	case runs:
		j.Status = job.Processing
		if _, err := readLease(lease, &j); err != nil {
			return j, err
		}
	case x.due.Err() == nil && x.due.Val() >= heldFrom:
		j.Status = job.Held
		j.RunAt = msTime(scoreText(x.due.Val() - heldFrom))
	case x.due.Err() == nil:
		j.Status, j.RunAt = job.Scheduled, msTime(scoreText(x.due.Val()))
	}
	return j, err
}

// errLongHead means that a job's head is longer than startBytes.
var errLongHead = errors.New("its head is longer than what was read")

// Find reads a job as Redis knows it, or job.ErrNotFound. A COMPLETED job without a Result has it in SQL only.
func (v *View) Find(ctx context.Context, id job.ID) (job.Job, error) {
	if p := id.Partition(); p < 0 || p >= v.opts.Partitions {
		return job.Job{}, fmt.Errorf("find %s: %w", id, job.ErrNotFound)
	}
	var x parts
	// Scripts move a job from one text to another, so that reads in several steps could miss it.
	err := inStep(ctx, v.redis.Read, func(p redis.Pipeliner) error {
		x = readParts(ctx, p, id, true)
		return nil
	})
	if err != nil {
		return job.Job{}, classify("find", err)
	}
	j, err := x.job(id, true)
	if err == nil && v.outlived(&j) {
		j, err = job.Job{}, job.ErrNotFound
	}
	if err != nil {
		return j, fmt.Errorf("find %s: %w", id, err)
	}
	return j, nil
}

// outlived says whether SQL answers for a FAILED job from now on. Its slice lives as long as its completed jobs do.
// Only SQL's acknowledgement makes a NEED_DISCARD a FAILED.
func (v *View) outlived(j *job.Job) bool {
	return j.Status == job.Failed && v.now().Sub(j.EndedAt) > max(v.opts.FailedRetention, time.Minute)
}

// inStep reads in one step of the server and returns the first error that is not redis.Nil. Redis refuses a step in two
// cases, and the reads then go one by one. While a slot of a cluster moves, a step could need keys of two servers: no
// script moves a job meanwhile, for the scripts are refused too. A full Redis refuses every command between MULTI and
// EXEC, also reads (OOM), and then EXEC (EXECABORT); readParts says how its reads bear that.
func inStep(ctx context.Context, c redis.UniversalClient, read func(p redis.Pipeliner) error) error {
	cmds, err := c.TxPipelined(ctx, read)
	if err != nil && (strings.HasPrefix(err.Error(), "TRYAGAIN") || strings.HasPrefix(err.Error(), "EXECABORT")) {
		cmds, err = c.Pipelined(ctx, read)
	}
	if !errors.Is(err, redis.Nil) {
		return err
	}
	for _, c := range cmds {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// findMany reads jobs of one partition without payloads and results. found has nil for a job that cannot be read: it
// has just gone, or its text is torn, which is for the audit.
func (v *View) findMany(ctx context.Context, ids []job.ID) (found []*job.Job, err error) {
	all := make([]parts, len(ids))
	err = inStep(ctx, v.redis.Read, func(p redis.Pipeliner) error {
		for i, id := range ids {
			all[i] = readParts(ctx, p, id, false)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found = make([]*job.Job, len(ids))
	for i, id := range ids {
		j, err := all[i].job(id, false)
		if errors.Is(err, errLongHead) {
			j, err = v.Find(ctx, id)
			j.Payload = nil
		}
		if err == nil {
			j.Result = nil
			found[i] = &j
		}
	}
	return found, nil
}

// Attempts reads the attempts that Redis has of a job: the unsuccessful attempts of its living or unacknowledged
// generation, oldest first, at most 50.
func (v *View) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	if p := id.Partition(); p < 0 || p >= v.opts.Partitions {
		return nil, nil
	}
	var x parts
	var lines *redis.StringSliceCmd
	err := inStep(ctx, v.redis.Read, func(p redis.Pipeliner) error {
		x = readParts(ctx, p, id, false)
		lines = p.LRange(ctx, Key(id.Partition(), "attempts")+string(id), 0, -1)
		return nil
	})
	if err != nil {
		return nil, classify("attempts", err)
	}
	j, _ := x.job(id, false) // a history of a job that cannot be read has no generation
	attempts := make([]job.Attempt, 0, len(lines.Val()))
	for _, line := range lines.Val() {
		a, err := readAttempt(line, j.Generation)
		if err != nil {
			return nil, fmt.Errorf("attempts of %s: %w", id, err)
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// member returns the id that an entry of a sorted set names, or the whole member that is a line. An entry of the outbox
// names generation and attempt too.
func member(z redis.Z) job.ID {
	text, _ := z.Member.(string)
	if isLine(text) {
		return job.ID(text)
	}
	return job.ID(text[:min(len(text), idLength)])
}

// idLength is how many characters an id has.
const idLength = 36
