package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// The hash of pauses has a field for each scope, one for each ask of a worker, and versionField.

// versionField counts the changes of the pauses.
const versionField = "version"

// Pause puts a pause in force: from about a second later on, or once GET /admin/paused says so, no claim finds its
// jobs. Where its scope is paused already, Pause replaces what that pause says and keeps since when it is in force. It
// returns the pause, and the version of the pauses that has it.
func (q *Queue) Pause(ctx context.Context, p job.Pause) (job.Pause, int64, error) {
	var version int64
	err := q.changePauses(ctx, func(is map[string]job.Pause, v int64, pipe redis.Pipeliner) {
		p.Since, version = q.now(), v
		if before, on := is[p.Scope]; on {
			p.Since = before.Since
		}
		text, _ := json.Marshal(p) // cannot fail: it has texts and numbers
		pipe.HSet(ctx, pausedKey, p.Scope, text)
	})
	if err != nil {
		return p, 0, classify("pause", err)
	}
	return p, version, nil
}

// Resume ends the pause of a scope, and returns the pause that it ended; on is false if there was none.
func (q *Queue) Resume(ctx context.Context, scope string) (was job.Pause, on bool, err error) {
	err = q.changePauses(ctx, func(is map[string]job.Pause, _ int64, pipe redis.Pipeliner) {
		if was, on = is[scope]; on {
			pipe.HDel(ctx, pausedKey, scope)
		}
	})
	if err != nil {
		return was, false, classify("resume", err)
	}
	return was, on, nil
}

// changePauses changes the hash in one transaction with the look at the pauses in force. It removes those that have
// ended by themselves, and raises the version. A change that writes nothing leaves the version.
func (q *Queue) changePauses(ctx context.Context,
	change func(is map[string]job.Pause, version int64, pipe redis.Pipeliner)) error {
	for {
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			texts, err := tx.HGetAll(ctx, pausedKey).Result()
			if err != nil {
				return fmt.Errorf("read the pauses: %w", err)
			}
			is, over, now := map[string]job.Pause{}, []string{}, q.now()
			version, _ := strconv.ParseInt(texts[versionField], 10, 64)
			for scope, text := range texts {
				if !job.IsPauseScope(scope) {
					continue
				}
				// What cannot be read is replaced or removed by this change.
				if p, err := readPause(scope, text); err == nil && !p.Over(now) {
					is[scope] = p
				} else {
					over = append(over, scope)
				}
			}
			pipe := tx.TxPipeline()
			if len(over) > 0 {
				pipe.HDel(ctx, pausedKey, over...)
			}
			change(is, version+1, pipe)
			if pipe.Len() == 0 {
				return nil
			}
			pipe.HSet(ctx, pausedKey, versionField, version+1)
			_, err = pipe.Exec(ctx)
			return err
		}, pausedKey)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// readPause reads a pause as Redis has it. Processes of an earlier version wrote only since when a queue is paused.
func readPause(scope, text string) (p job.Pause, err error) {
	if since, err := strconv.ParseInt(text, 10, 64); err == nil {
		return job.Pause{Scope: scope, Since: time.UnixMilli(since).UTC()}, nil
	}
	if err = json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("pause of %s: %w", scope, err)
	}
	return p, nil
}

// pausesIn returns the pauses in force that the fields of the hash have. If this process knows of a later version, or
// SQL does of a Redis that has lost its queues, Redis has lost changes: it then stores that version in Redis.
func (q *Queue) pausesIn(ctx context.Context, fields map[string]string, whole bool) (job.Pauses, error) {
	found, now := job.Pauses{}, q.now()
	found.Version, _ = strconv.ParseInt(fields[versionField], 10, 64)
	for scope, text := range fields {
		if !job.IsPauseScope(scope) {
			continue
		}
		p, err := readPause(scope, text)
		if err != nil {
			return found, err
		}
		found.List = append(found.List, p)
	}
	known := q.opts.Pauses.All()
	if !whole && q.opts.RememberedPauses != nil {
		remembered, err := q.opts.RememberedPauses(ctx)
		if err != nil {
			return found, fmt.Errorf("pauses: %w", err)
		}
		if remembered.Version > known.Version {
			known = remembered
		}
	}
	if known.Version > found.Version {
		found = known
		// A full Redis keeps no process from starting, and no pause from being in force here.
		if err := q.restorePauses(ctx, known); err != nil && !errors.Is(err, job.ErrNoMemory) {
			return found, err
		}
	}
	found.List = slices.DeleteFunc(found.List, func(p job.Pause) bool { return p.Over(now) })
	return found, nil
}

// restorePauses replaces the pauses in Redis by a later version of them, unless another process has done so.
func (q *Queue) restorePauses(ctx context.Context, known job.Pauses) error {
	err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
		texts, err := tx.HGetAll(ctx, pausedKey).Result()
		if err != nil {
			return fmt.Errorf("read the pauses: %w", err)
		}
		if version, _ := strconv.ParseInt(texts[versionField], 10, 64); version >= known.Version {
			return nil
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			for scope := range texts {
				if job.IsPauseScope(scope) {
					pipe.HDel(ctx, pausedKey, scope)
				}
			}
			for _, p := range known.List {
				text, _ := json.Marshal(p) // cannot fail
				pipe.HSet(ctx, pausedKey, p.Scope, text)
			}
			pipe.HSet(ctx, pausedKey, versionField, known.Version)
			return nil
		})
		return err
	}, pausedKey)
	if err != nil && !errors.Is(err, redis.TxFailedErr) { // the next look finds what another process has written
		return classify("pauses", err)
	}
	return nil
}
