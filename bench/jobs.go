package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// capacity is more than any bench queues: what is measured is never a refusal.
const capacity = 100000000

// nothing is the payload of a job that does nothing, as a client would spell it.
var nothing = pad(`{"steps":[{"type":"COMPUTE","iterations":0}]}`)

// pad brings a JSON object to payloadSize bytes with space that means nothing.
func pad(object string) string {
	return "{" + strings.Repeat(" ", max(payloadSize-len(object), 0)) + object[1:]
}

var minted atomic.Int64

// newID is a UUIDv7 of partition 0, greater than all before it, and like a real one random behind: Lua's table of
// strings looks at every second character of an id, so ids that only count would collide there.
func newID() job.ID {
	var u [16]byte
	ms, n, noise := time.Now().UnixMilli(), minted.Add(1), rand.Uint32()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8] = 0x70, 0x80
	for i := range 3 {
		u[9+i], u[12+i] = byte(n>>(16-8*i)), byte(noise>>(16-8*i))
	}
	text := hex.EncodeToString(u[:])
	return job.ID(text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:])
}

// traceID is as long as a real one.
const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

// enqueue queues n jobs of PAID through the submit script, 100 a call.
func (l *lab) enqueue(ctx context.Context, n int) (err error) {
	clients, err := queue.Connect(l.redis.URL())
	if err != nil {
		return err
	}
	defer clients.Close()
	q, err := withPlans(ctx, clients, queueOptions())
	if err != nil {
		return err
	}
	return submitMany(ctx, q, n)
}

// queueOptions are those of a server with everything at its default, but for the capacity.
func queueOptions() queue.Options {
	return queue.Options{
		Nonce: "bench", Partitions: 1, PriorityBase: 10000000000000, Capacity: capacity, ScheduledLimit: capacity,
		HeartbeatInterval: 500 * time.Millisecond,
		Retention:         24 * time.Hour, FailedRetention: time.Hour, KeepEnded: 1000000,
	}
}

func withPlans(ctx context.Context, clients queue.Clients, o queue.Options) (*queue.Queue, error) {
	q := queue.New(clients, &job.PlanBook{}, o)
	return q, q.LoadPlans(ctx)
}

func submission(jobType string, payload []byte) job.Submission {
	return job.Submission{ID: newID(), Tier: job.Paid, Type: jobType, Payload: payload, MaxRetries: 5, TraceID: traceID}
}

// submitMany queues n jobs, 100 a call.
func submitMany(ctx context.Context, q *queue.Queue, n int) error {
	batch := make([]job.Submission, 0, job.MaxBatch)
	for left := n; left > 0; left -= len(batch) {
		batch = batch[:0]
		for range min(left, job.MaxBatch) {
			batch = append(batch, submission("SIMULATION", []byte(nothing)))
		}
		if err := submitAll(ctx, q, batch); err != nil {
			return err
		}
	}
	return nil
}

// submitAll is one call, of which every job must be taken.
func submitAll(ctx context.Context, q *queue.Queue, batch []job.Submission) error {
	replies, err := q.Submit(ctx, 0, batch)
	if err != nil {
		return err
	}
	for _, r := range replies {
		if r.Word != job.OK {
			return fmt.Errorf("submit answered %s", r.Word)
		}
	}
	return nil
}

// counter reads one of partition 0's counters.
func (l *lab) counter(ctx context.Context, field string) (int, error) {
	v, err := l.client.HMGet(ctx, queue.Key(0, "counters"), field).Result()
	if err != nil {
		return 0, fmt.Errorf("read counter %s: %w", field, err)
	}
	n := 0
	if text, ok := v[0].(string); ok {
		if _, err := fmt.Sscan(text, &n); err != nil {
			return 0, fmt.Errorf("read counter %s: %w", field, err)
		}
	}
	return n, nil
}
