package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// askScope is the name of what is asked of a worker among what is paused.
func askScope(state job.WorkerState, worker string) string { return string(state) + ":" + worker }

// queueNames returns main and the declared queues, by name.
func (s *shared) queueNames() []string {
	return append([]string{job.MainQueue}, s.opts.Queues.Names()...)
}

// wholeField is in the hash of queues from the first LoadQueues on: without it Redis has lost the queues.
const wholeField = "-"

// LoadQueues reads the declared queues, what is paused, and what is asked of workers, from Redis into the books. If
// Redis has lost the queues or pauses, it first stores again those that this process or SQL knows.
func (q *Queue) LoadQueues(ctx context.Context) error {
	q.loading.Lock() // a reading that began before a change must not replace the one after it
	defer q.loading.Unlock()
	found, scopes, whole, err := q.readQueues(ctx)
	if err != nil {
		return err
	}
	asked := map[string]job.WorkerState{}
	for scope := range scopes {
		kind, name, _ := strings.Cut(scope, ":")
		state := job.WorkerState(kind)
		if (state == job.WorkerQuiet || state == job.WorkerTerminates) && asked[name] != job.WorkerTerminates {
			asked[name] = state
		}
	}
	pauses, err := q.pausesIn(ctx, scopes, whole)
	if err != nil {
		return err
	}
	changed := q.opts.Asks.Set(asked)
	if changed = q.opts.Pauses.Set(pauses) || changed; changed && q.opts.Told != nil {
		q.opts.Told()
	}
	if !whole {
		if found, err = q.restoreQueues(ctx, found); err != nil {
			return err
		}
	}
	q.opts.Queues.Set(found)
	return nil
}

// readQueues reads the declared queues, and what the hash of pauses has, by scope. whole is false if Redis lost queues.
func (q *Queue) readQueues(ctx context.Context) (found []job.Queue, scopes map[string]string, whole bool, err error) {
	var texts, paused *redis.MapStringStringCmd
	err = inStep(ctx, q.redis.Main, func(p redis.Pipeliner) error {
		texts, paused = p.HGetAll(ctx, queuesKey), p.HGetAll(ctx, pausedKey)
		return nil
	})
	if err != nil {
		return nil, nil, false, classify("queues", err)
	}
	for name, text := range texts.Val() {
		if name == wholeField {
			whole = true
			continue
		}
		one, err := job.ReadQueue(name, text)
		if err != nil {
			return nil, nil, false, err
		}
		found = append(found, one)
	}
	return found, paused.Val(), whole, nil
}

// restoreQueues stores the queues that this process or SQL knows, and that Redis lacks, and returns all of them.
func (q *Queue) restoreQueues(ctx context.Context, found []job.Queue) ([]job.Queue, error) {
	known := q.opts.Queues.All()
	if q.opts.RememberedQueues != nil {
		remembered, err := q.opts.RememberedQueues(ctx)
		if err != nil {
			return nil, fmt.Errorf("queues: %w", err)
		}
		known = append(known, remembered...)
	}
	var lost []job.Queue
	for _, one := range known {
		if !slices.ContainsFunc(found, func(f job.Queue) bool { return f.Name == one.Name }) {
			lost, found = append(lost, one), append(found, one)
		}
	}
	_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, one := range lost {
			p.HSetNX(ctx, queuesKey, one.Name, one.Text())
		}
		return nil
	})
	if err == nil {
		err = q.redis.Main.HSet(ctx, queuesKey, wholeField, "").Err()
	}
	if err != nil {
		err = classify("queues", err)
	}
	// A full Redis keeps no process from starting: only the processes make it less full. A later look stores the queues.
	if err != nil && len(known) > 0 && !errors.Is(err, job.ErrNoMemory) {
		return nil, err
	}
	return found, nil
}

// StoreQueue declares or changes a queue for all processes and returns it with its new version. The error is
// job.ErrBadQueue if the queue is not valid, and job.ErrChanged if the queue in Redis does not have the version seen: 0
// = there is none, AnyVersion = any.
func (q *Queue) StoreQueue(ctx context.Context, one job.Queue, seen int64) (job.Queue, error) {
	if err := one.Check(); err != nil {
		return one, err
	}
	err := q.changeQueues(ctx, one.Name, func(is job.Queue, all int64, pipe redis.Pipeliner) error {
		switch {
		case seen != AnyVersion && seen != is.Version:
			return fmt.Errorf("%w: queue %s has version %d", job.ErrChanged, one.Name, is.Version)
		case is.Version == 0 && all > job.MaxQueues: // one field is wholeField
			return fmt.Errorf("%w: %d queues are declared, as many as may be", job.ErrBadQueue, job.MaxQueues)
		}
		one.Version, one.Faktory = is.Version+1, is.Faktory
		pipe.HSet(ctx, queuesKey, one.Name, one.Text(), wholeField, "")
		return nil
	})
	return one, err
}

// ForFaktory notes that Faktory clients push to a queue, and declares the queue if it is not declared; or, with on
// false, that they have removed it. The error is job.ErrBadQueue if the queue cannot be declared.
func (q *Queue) ForFaktory(ctx context.Context, name string, on bool) error {
	one := job.Queue{Name: name}
	if err := one.Check(); err != nil {
		return err
	}
	return q.changeQueues(ctx, name, func(is job.Queue, all int64, pipe redis.Pipeliner) error {
		switch {
		case is.Version == 0 && !on, is.Version > 0 && is.Faktory == on:
			return nil
		case is.Version == 0 && all > job.MaxQueues:
			return fmt.Errorf("%w: %d queues are declared, as many as may be", job.ErrBadQueue, job.MaxQueues)
		case is.Version > 0:
			one = is
		}
		one.Faktory, one.Version = on, one.Version+1
		pipe.HSet(ctx, queuesKey, name, one.Text(), wholeField, "")
		return nil
	})
}

// DeleteQueue removes the declaration of a queue. The error is job.ErrUnknownQueue if there is none, and
// job.ErrQueueInUse if jobs of it wait or run.
func (q *Queue) DeleteQueue(ctx context.Context, name string) error {
	jobs, err := q.jobsIn(ctx, name)
	if err != nil {
		return err
	}
	if jobs > 0 {
		return fmt.Errorf("%w: %d of its jobs wait or run", job.ErrQueueInUse, jobs)
	}
	return q.changeQueues(ctx, name, func(is job.Queue, _ int64, pipe redis.Pipeliner) error {
		if is.Version == 0 {
			return job.ErrUnknownQueue
		}
		pipe.HDel(ctx, queuesKey, name)
		pipe.HDel(ctx, pausedKey, job.PauseQueue(name))
		pipe.HIncrBy(ctx, pausedKey, versionField, 1)
		return nil
	})
}

// jobsIn counts the jobs of a queue that have not ended.
func (q *Queue) jobsIn(ctx context.Context, name string) (sum int64, err error) {
	for p := range q.opts.Partitions {
		var fields []string
		for _, what := range []string{"ready", "scheduled", "running"} {
			fields = append(fields, "@"+name+":"+what)
		}
		found, err := q.redis.Main.HMGet(ctx, Key(p, "counters"), fields...).Result()
		if err != nil {
			return 0, classify("queues", err)
		}
		for _, one := range found {
			text, _ := one.(string)
			n, _ := strconv.ParseInt(text, 10, 64)
			sum += n
		}
	}
	return sum, nil
}

// changeQueues changes the declarations in one transaction with the look at what is there: the queue, with version 0 if
// there is none, and how many there are.
func (q *Queue) changeQueues(ctx context.Context, name string,
	change func(is job.Queue, all int64, pipe redis.Pipeliner) error) error {
	for {
		var refused error
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			text, err := tx.HGet(ctx, queuesKey, name).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read the queue: %w", err)
			}
			is := job.Queue{}
			if err == nil {
				if is, err = job.ReadQueue(name, text); err != nil {
					is.Version = 0 // what cannot be read is replaced
				}
			}
			all, err := tx.HLen(ctx, queuesKey).Result()
			if err != nil {
				return fmt.Errorf("count the queues: %w", err)
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				refused = change(is, all, pipe)
				return refused
			})
			return err
		}, queuesKey)
		switch {
		case refused != nil:
			return refused
		case err == nil:
			return nil
		case !errors.Is(err, redis.TxFailedErr):
			return classify("queues", err)
		}
	}
}
