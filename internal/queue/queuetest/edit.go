package queuetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Edit changes one of the texts that Redis has of a job: its record (job), or its field of leases, tried, checkpoints
// or ended. No script sees the job in between, because a test does one thing at a time.
func (e *Env) Edit(t testing.TB, of string, id job.ID, change func(text string) string) {
	t.Helper()
	if err := EditText(t.Context(), e.Redis, of, id, change); err != nil {
		t.Fatalf("edit %s of %s: %v", of, id, err)
	}
}

// EditText is Edit for a client.
func EditText(ctx context.Context, c redis.UniversalClient, of string, id job.ID, change func(string) string) error {
	if of == "job" {
		text, err := c.Get(ctx, queue.JobKey(id)).Result()
		if err != nil {
			return err
		}
		return c.Set(ctx, queue.JobKey(id), change(text), redis.KeepTTL).Err()
	}
	key := queue.Key(id.Partition(), of)
	if of == "ended" {
		key = queue.EndedKey(id)
	}
	text, err := c.HGet(ctx, key, string(id)).Result()
	if err != nil {
		return err
	}
	return c.HSet(ctx, key, string(id), change(text)).Err()
}

// SetWord changes a word of a job's lease or of what tried has of it, by its name in docs/KEYS.md: first, retries,
// in_row, ...
func (e *Env) SetWord(t testing.TB, of string, id job.ID, name, value string) {
	t.Helper()
	e.Edit(t, of, id, WithWord(of, name, value))
}

// WithWord returns a change for EditText that sets a word.
func WithWord(of, name, value string) func(text string) string {
	names := append(append([]string{}, classWords...), runWords...)
	if of == "tried" {
		names = append(append([]string{}, runWords...), triedWords...)
	}
	return func(text string) string {
		words := strings.SplitN(text, " ", len(names)) // the last word of a lease has the head behind it
		words[slices.Index(names, name)] = value
		return strings.Join(words, " ")
	}
}
