package queue

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// holdUniques deletes unique keys whose holder Redis does not have, and keys of another type: a script did not write
// those. The audit of each living job gives the job its own key back. A key with a time to live stands for its seconds,
// whatever became of its holder.
func (q *Queue) holdUniques(ctx context.Context, keys []string) (found []job.Finding, err error) {
	for _, key := range keys {
		kind := ""
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			var err error
			if kind, err = q.wrongUnique(ctx, tx, key); err != nil || kind == "" {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Del(ctx, key)
				return nil
			})
			return err
		}, key)
		if errors.Is(err, redis.TxFailedErr) {
			continue // a script has just changed the key
		}
		if err != nil {
			return found, classify("scan", err)
		}
		if kind != "" {
			partition, suffix := q.splitKey(key)
			found = append(found, job.Finding{Partition: partition, Result: job.Repaired, Kind: kind, Detail: suffix})
		}
	}
	return found, nil
}

// wrongUnique returns what is wrong with a unique key; "" = nothing.
func (q *Queue) wrongUnique(ctx context.Context, tx *redis.Tx, key string) (kind string, err error) {
	is, err := tx.Type(ctx, key).Result()
	if err != nil || is == "none" {
		return "", err
	}
	if is != "string" {
		return "type", nil
	}
	ttl, err := tx.PTTL(ctx, key).Result()
	if err != nil || ttl != -1 { // -1: it has none; go-redis leaves it without a unit
		return "", err
	}
	text, err := tx.Get(ctx, key).Result()
	if err != nil {
		return "", err
	}
	holder, _, _ := strings.Cut(text, " ")
	partition, _ := q.splitKey(key)
	there, err := tx.Exists(ctx, Key(partition, "job")+holder).Result()
	if err != nil || there > 0 {
		return "", err
	}
	return "unique", nil
}
