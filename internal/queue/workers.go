package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

const (
	workerSilent    = 10 * time.Second // a worker that has been silent for longer is not listed
	workerForgotten = time.Minute      // a worker that has been silent for longer is removed
)

// Register records workers, and sets SeenAt to when they were heard of. A process repeats it every second for its own
// pool, and some seconds apart for the workers elsewhere that it serves.
func (q *Queue) Register(ctx context.Context, workers ...job.WorkerInfo) error {
	fields := make([]any, 0, 2*len(workers))
	for _, w := range workers {
		w.SeenAt = q.now().Add(-w.Silent)
		text, err := json.Marshal(w)
		if err != nil {
			return fmt.Errorf("register: %w", err)
		}
		fields = append(fields, w.Name, text)
	}
	if len(fields) == 0 {
		return nil
	}
	if err := q.redis.Main.HSet(ctx, workerKey, fields...).Err(); err != nil {
		return classify("register", err)
	}
	return nil
}

// Unregister records that this process runs jobs no longer.
func (q *Queue) Unregister(ctx context.Context, name string) error {
	if err := q.redis.Main.HDel(ctx, workerKey, name).Err(); err != nil {
		return classify("unregister", err)
	}
	return nil
}

// AskWorker asks something of a worker; every process knows it within about a second. It holds until it is taken back,
// or the worker was silent for so long that it is forgotten.
func (q *Queue) AskWorker(ctx context.Context, name string, state job.WorkerState) error {
	_, err := q.redis.Main.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.HDel(ctx, pausedKey, askScope(job.WorkerQuiet, name), askScope(job.WorkerTerminates, name))
		if state != job.WorkerRuns {
			p.HSet(ctx, pausedKey, askScope(state, name), stamp(q.now()))
		}
		return nil
	})
	if err != nil {
		return classify("ask a worker", err)
	}
	return nil
}

// patienceFor returns for how long a worker may be silent before it is not listed any more.
func patienceFor(w *job.WorkerInfo) time.Duration {
	return max(workerSilent, fromMs(w.BeatEveryMs)*3/2+workerSilent/2)
}

// Workers returns the workers that were heard of lately, by name: within the last 10 s, or for workers elsewhere since
// their last heartbeat was due. It forgets workers that have been silent for a minute longer.
func (v *View) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	all, err := v.heardOf(ctx)
	return slices.DeleteFunc(all, func(w job.WorkerInfo) bool { return w.Kind == job.APIProcess }), err
}

// Claimers returns the processes of tierq that claim jobs, for themselves or for others, by name.
func (v *View) Claimers(ctx context.Context) ([]job.WorkerInfo, error) {
	all, err := v.heardOf(ctx)
	return slices.DeleteFunc(all, func(w job.WorkerInfo) bool { return w.Elsewhere() }), err
}

// heardOf returns the workers and processes that were heard of lately, by name.
func (v *View) heardOf(ctx context.Context) ([]job.WorkerInfo, error) {
	all, err := v.redis.Read.HGetAll(ctx, workerKey).Result()
	if err != nil {
		return nil, classify("workers", err)
	}
	now := v.now()
	workers := make([]job.WorkerInfo, 0, len(all))
	for name, text := range all {
		var w job.WorkerInfo
		bad := json.Unmarshal([]byte(text), &w) != nil
		switch silent := now.Sub(w.SeenAt); {
		case bad || silent > patienceFor(&w)-workerSilent+workerForgotten:
			scopes := []string{askScope(job.WorkerQuiet, name), askScope(job.WorkerTerminates, name)}
			if err := v.redis.Main.HDel(ctx, pausedKey, scopes...).Err(); err != nil {
				return nil, classify("unregister", err)
			}
			if err := v.redis.Main.HDel(ctx, workerKey, name).Err(); err != nil {
				return nil, classify("unregister", err)
			}
		case silent <= patienceFor(&w):
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, func(a, b job.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return workers, nil
}
