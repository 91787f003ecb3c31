package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	workerSilent    = 10 * time.Second // a process that has been silent for longer is not listed
	workerForgotten = time.Minute      // a process that has been silent for longer is removed
)

// Register records that this process runs jobs, and sets SeenAt to now. The process repeats it every second.
func (q *Queue) Register(ctx context.Context, w job.WorkerInfo) error {
	w.SeenAt = q.now()
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	if err := q.redis.Main.HSet(ctx, workerKey, w.Name, text).Err(); err != nil {
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

// Workers returns the processes that registered within the last 10 s, by name. It removes processes that have been
// silent for a minute.
func (v *View) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
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
		case bad || silent > workerForgotten:
			if err := v.redis.Main.HDel(ctx, workerKey, name).Err(); err != nil {
				return nil, classify("unregister", err)
			}
		case silent <= workerSilent:
			workers = append(workers, w)
		}
	}
	slices.SortFunc(workers, func(a, b job.WorkerInfo) int { return cmp.Compare(a.Name, b.Name) })
	return workers, nil
}
