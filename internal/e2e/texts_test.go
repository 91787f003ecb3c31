package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// This file reads and changes the texts that Redis has of a job. docs/KEYS.md explains them.

// edit changes a job's record (job), or its field of leases, tried, checkpoints or ended.
func (c *cluster) edit(of, id string, change func(text string) string) {
	c.t.Helper()
	if err := queuetest.EditText(c.t.Context(), c.rdb, of, job.ID(id), change); err != nil {
		c.t.Fatalf("edit %s of %s: %v", of, id, err)
	}
}

// record returns the record of a living job, "class\nhead\npayload".
func (c *cluster) record(id string) string {
	c.t.Helper()
	text, err := c.rdb.Get(c.t.Context(), queue.JobKey(job.ID(id))).Result()
	if err != nil {
		c.t.Fatalf("the record of %s: %v", id, err)
	}
	return text
}

// withPayload returns a change of a record that replaces the payload.
func withPayload(payload string) func(string) string {
	return func(record string) string {
		parts := strings.SplitN(record, "\n", 3)
		return parts[0] + "\n" + parts[1] + "\n" + payload
	}
}

// deleteRecord deletes the record of a job that waits or runs.
func (c *cluster) deleteRecord(id string) {
	c.t.Helper()
	if n, err := c.rdb.Del(c.t.Context(), queue.JobKey(job.ID(id))).Result(); n != 1 || err != nil {
		c.t.Fatalf("%s has %d records: %v", id, n, err)
	}
}

// dropEnd removes an ended job from its slice. A slice without jobs has only the field "-", and goes.
var dropEnd = redis.NewScript(`
local n = redis.call('HDEL', KEYS[1], ARGV[1])
if redis.call('HLEN', KEYS[1]) <= 1 then redis.call('DEL', KEYS[1]) end
return n`)

// forget makes Redis forget an ended job that SQL has, as when the time to live of its slice is over. The other jobs
// of the slice stay.
func (c *cluster) forget(id string) {
	c.t.Helper()
	testkit.Eventually(c.t, 10*time.Second, id+" is acknowledged", func() (bool, string) {
		s, err := queuetest.Read(c.t.Context(), c.rdb, 0)
		return err == nil && s.Acknowledged(id), fmt.Sprint(s.State(job.ID(id)), err)
	})
	n, err := dropEnd.Run(c.t.Context(), c.rdb, []string{queue.EndedKey(job.ID(id))}, id).Int()
	if n != 1 || err != nil {
		c.t.Fatalf("Redis had %d ends of %s: %v", n, id, err)
	}
}

// inRedis reports whether Redis has a job: its record or its end.
func inRedis(ctx context.Context, rdb redis.UniversalClient, id string) (bool, error) {
	var record *redis.IntCmd
	var end *redis.BoolCmd
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		record = p.Exists(ctx, queue.JobKey(job.ID(id)))
		end = p.HExists(ctx, queue.EndedKey(job.ID(id)), id)
		return nil
	})
	return err == nil && (record.Val() == 1 || end.Val()), err
}

// has is inRedis for a Redis that must answer.
func (c *cluster) has(id string) bool {
	c.t.Helper()
	there, err := inRedis(c.t.Context(), c.rdb, id)
	if err != nil {
		c.t.Fatalf("ask Redis for %s: %v", id, err)
	}
	return there
}

// jobsInRedis counts the jobs that Redis has, living and ended.
func (c *cluster) jobsInRedis() int {
	c.t.Helper()
	s, err := queuetest.Read(context.Background(), c.rdb, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(s.Jobs)
}
