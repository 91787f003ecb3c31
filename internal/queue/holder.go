package queue

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// UniqueKey returns the key of a partition that says which job holds a unique key. hash is the key's hash.
func UniqueKey(partition int, hash string) string { return Key(partition, "unique") + hash }

// Holder returns the job that holds the unique key of a job, or job.ErrNotFound.
func (v *View) Holder(ctx context.Context, j *job.Job) (job.ID, error) {
	hash, partition := j.UniqueHash(), j.ID.Partition()
	if hash == "" || partition < 0 || partition >= v.opts.Partitions {
		return "", job.ErrNotFound
	}
	text, err := v.redis.Read.Get(ctx, UniqueKey(partition, hash)).Result()
	if errors.Is(err, redis.Nil) {
		return "", job.ErrNotFound
	}
	if err != nil {
		return "", classify("holder", err)
	}
	id, _, _ := strings.Cut(text, " ")
	return job.ID(id), nil
}
