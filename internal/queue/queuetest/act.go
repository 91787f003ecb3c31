package queuetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// This file has the steps with which tests prepare a queue. All of them use partition 0 and end the test if they
// fail.

// Put submits a job of a tier and returns its id.
func (e *Env) Put(t testing.TB, tier job.Tier) job.ID {
	t.Helper()
	return e.PutAll(t, Job(tier))[0]
}

// Words submits jobs and returns the word for each.
func (e *Env) Words(ctx context.Context, partition int, jobs []job.Submission) ([]job.Word, error) {
	replies, err := e.Submit(ctx, partition, jobs)
	if err != nil {
		return nil, err
	}
	words := make([]job.Word, len(replies))
	for i, r := range replies {
		words[i] = r.Word
	}
	return words, nil
}

// PutAll submits jobs, each of which must be accepted, and returns their ids. If a busy machine loses the reply,
// PutAll sends the jobs again.
func (e *Env) PutAll(t testing.TB, jobs ...job.Submission) []job.ID {
	t.Helper()
	words, err := e.Words(t.Context(), 0, jobs)
	again := 0
	for ; errors.Is(err, job.ErrAmbiguous) && again < 5; again++ {
		words, err = e.Words(t.Context(), 0, jobs)
	}
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]job.ID, len(jobs))
	for i := range jobs {
		if ids[i] = jobs[i].ID; words[i] != job.OK && !(again > 0 && words[i] == job.Duplicate) {
			t.Fatalf("submit %d of %d: %s", i+1, len(jobs), words[i])
		}
	}
	return ids
}

// NextClaim returns a claim with a new number, for up to most jobs.
func (e *Env) NextClaim(most int) job.ClaimRequest {
	return job.ClaimRequest{Number: e.number.Add(1), Max: most, Bound: math.Inf(1)}
}

// Take claims exactly n jobs.
func (e *Env) Take(t testing.TB, n int) []job.Lease {
	t.Helper()
	reply, err := e.Claim(t.Context(), 0, e.NextClaim(n))
	if err != nil {
		t.Fatal(err)
	}
	if len(reply.Leases) != n {
		t.Fatalf("claimed %d jobs, not %d", len(reply.Leases), n)
	}
	return reply.Leases
}

// Start submits a job of a tier and claims it. No better job may be ready.
func (e *Env) Start(t testing.TB, tier job.Tier) job.Lease {
	t.Helper()
	id := e.Put(t, tier)
	l := e.Take(t, 1)[0]
	if l.ID != id {
		t.Fatalf("claimed %s, not %s", l.ID, id)
	}
	return l
}

// Finish completes leases with a result; each reply must be OK.
func (e *Env) Finish(t testing.TB, leases ...job.Lease) {
	t.Helper()
	batch := make([]job.Completion, len(leases))
	for i := range leases {
		batch[i] = job.Completion{LeaseRef: leases[i].Ref(), Result: []byte(`{"done":true}`)}
	}
	replies, err := e.Complete(t.Context(), 0, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range replies {
		if r.Word != job.OK {
			t.Fatalf("complete %s: %s", leases[i].ID, r.Word)
		}
	}
}

// Bury fails a lease for good.
func (e *Env) Bury(t testing.TB, l job.Lease) {
	t.Helper()
	replies, err := e.Fail(t.Context(), 0,
		[]job.Failure{{LeaseRef: l.Ref(), Cause: job.PermanentError, Error: "no use", Final: true}})
	if err != nil || replies[0].Word != job.Discarded {
		t.Fatalf("fail %s: %v, %v", l.ID, replies, err)
	}
}

// Drain takes all jobs out of the outbox, even those that another taker has, and acknowledges them.
func (e *Env) Drain(t testing.TB) []job.Outcome {
	t.Helper()
	e.Age(t, "outbox", time.Hour)
	out, err := e.TakeOutbox(t.Context(), 0, job.MaxBatch)
	if err != nil {
		t.Fatal(err)
	}
	acks := make([]job.Ack, len(out))
	for i, o := range out {
		acks[i] = job.Ack{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: o.Status}
	}
	words, err := e.Acknowledge(t.Context(), 0, acks)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range words {
		if w != job.OK {
			t.Fatalf("acknowledge %s: %s", out[i].ID, w)
		}
	}
	return out
}

// Cancels cancels a job and returns the word.
func (e *Env) Cancels(t testing.TB, id job.ID) job.Word {
	t.Helper()
	words, err := e.Cancel(t.Context(), 0, []job.Cancellation{{ID: id}})
	if err != nil {
		t.Fatal(err)
	}
	return words[0]
}

// Kills kills a job in its first generation and returns the word.
func (e *Env) Kills(t testing.TB, id job.ID) job.Word {
	t.Helper()
	words, err := e.Kill(t.Context(), 0, []job.Killing{{ID: id, Generation: 1, Reason: "no use"}})
	if err != nil {
		t.Fatal(err)
	}
	return words[0]
}

// Hastens hastens a job and returns the word.
func (e *Env) Hastens(t testing.TB, id job.ID) job.Word {
	t.Helper()
	words, err := e.Hasten(t.Context(), 0, []job.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	return words[0]
}

// Look makes one look of a watch from the start and returns the words by id.
func (e *Env) Look(t testing.TB, w job.Watch) map[job.ID]job.Word {
	t.Helper()
	found, err := e.Reclaim(t.Context(), 0, w, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := map[job.ID]job.Word{}
	for _, f := range found {
		words[f.ID] = f.Word
	}
	return words
}

// Expire moves the deadlines of jobs, of the kind that the watch reads, into the past.
func (e *Env) Expire(t testing.TB, w job.Watch, ids ...job.ID) {
	t.Helper()
	e.Age(t, watched(w), time.Hour, ids...)
}

func watched(w job.Watch) string {
	if w == job.Stuck {
		return "run_deadlines"
	}
	return "heartbeat_deadlines"
}

// Reap expires jobs and makes two looks, Patience apart. It returns the words of the second look.
func (e *Env) Reap(t testing.TB, w job.Watch, ids ...job.ID) map[job.ID]job.Word {
	t.Helper()
	e.Expire(t, w, ids...)
	e.Look(t, w)
	e.Age(t, "suspects:"+string(w), queue.Patience, ids...)
	return e.Look(t, w)
}

// Age moves the scores of a sorted set (named as in the scripts, or suspects:<watch>) back by d, for all members
// or for the given ones. It changes data only; the clocks go on.
func (e *Env) Age(t testing.TB, set string, d time.Duration, ids ...job.ID) {
	t.Helper()
	key := e.key(set)
	most := "+inf"
	if set == "scheduled" { // a HELD job is not due, however old it is
		most = "(" + strconv.Itoa(HeldFrom)
	}
	members, err := e.Redis.ZRangeByScore(t.Context(), key, &redis.ZRangeBy{Min: "-inf", Max: most}).Result()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range members {
		if len(ids) > 0 && !slices.Contains(ids, job.ID(m[:min(len(m), idLength)])) {
			continue
		}
		found++
		if err := e.Redis.ZAddArgsIncr(t.Context(), key,
			redis.ZAddArgs{XX: true, Members: []redis.Z{{Score: -float64(d.Milliseconds()), Member: m}}}).Err(); err != nil {
			t.Fatalf("age %s in %s: %v", m, set, err)
		}
	}
	if found < len(ids) {
		t.Fatalf("age %v in %s: %d are there", ids, set, found)
	}
}

// AgeEnd moves the times of ended jobs back by d: first claim, start and end, and the last end of their slices.
func (e *Env) AgeEnd(t testing.TB, d time.Duration, ids ...job.ID) {
	t.Helper()
	back := func(text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < d.Milliseconds() {
			return text
		}
		return strconv.FormatInt(n-d.Milliseconds(), 10)
	}
	for _, id := range ids {
		e.Edit(t, "ended", id, func(text string) string {
			line, rest, _ := strings.Cut(text, "\n")
			words := strings.Split(line, " ")
			for _, i := range []int{1, len(words) - 4, len(words) - 3} {
				words[i] = back(words[i])
			}
			return strings.Join(words, " ") + "\n" + rest
		})
		ends, err := e.Redis.HGetAll(t.Context(), queue.EndedKey(id)).Result()
		last := "0"
		for mate, text := range ends {
			if words := strings.SplitN(text, " ", 3); mate != "-" && words[1] > last { // times of ms are equally long
				last = words[1]
			}
		}
		if err == nil {
			err = e.Redis.HSet(t.Context(), queue.EndedKey(id), "-", last).Err()
		}
		if err != nil {
			t.Fatalf("age the end of %s: %v", id, err)
		}
	}
}

func (e *Env) key(set string) string {
	if strings.HasPrefix(set, "suspects:") {
		return tag(0) + set
	}
	return queue.Key(0, set)
}

// Now returns the time, in ms, of the server that has partition 0.
func (e *Env) Now(t testing.TB) int64 {
	t.Helper()
	var server redis.Cmdable = e.Redis
	if c, ok := server.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(t.Context(), queue.Key(0, "queue"))
		if err != nil {
			t.Fatal(err)
		}
		server = master
	}
	now, err := server.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMilli()
}

// Unchanged fails the test if anything in partition 0 differs from before, except the record of a process' last
// claim.
func (e *Env) Unchanged(t testing.TB, before Snapshot) {
	t.Helper()
	for _, d := range Diff(before.Lines(), e.Snapshot(t).Lines()) {
		if !strings.HasPrefix(d[2:], "claims:") {
			t.Error("changed: " + d)
		}
	}
}
