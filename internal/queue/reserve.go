package queue

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// Reserve keeps places in one partition for jobs that SQL is about to have: for all of them, or for none. It returns a
// reply per job: OK; DUPLICATE (the job has a place, or is in Redis); QUOTA, FULL or LATE: that job is refused, and so
// is the call; EMPTY: a job before it was refused. forced says that SQL has the jobs already: no limit refuses them.
func (q *Queue) Reserve(ctx context.Context, partition int, jobs []job.Reservation, forced bool) ([]job.SubmitReply,
	error) {
	args := make([]any, 0, 4+3*len(jobs))
	if forced { // a place that is reserved late is looked up like any other
		args = append(args, noLimit, q.shares(), 1, "")
	} else {
		args = append(args, q.clock.notAfter(partition, submitFresh), q.shares(), 0, "")
	}
	for i := range jobs {
		r := &jobs[i]
		class, err := q.placeClass(r, forced)
		if err != nil {
			return nil, err
		}
		args = append(args, string(r.ID), class, r.Bytes)
	}
	texts, err := q.texts(ctx, q.redis.Main, q.reserve, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(jobs) {
		return nil, fmt.Errorf("reserve: %d words for %d entries", len(texts), len(jobs))
	}
	replies, late := make([]job.SubmitReply, len(texts)), false
	for i, text := range texts {
		word, limit, _ := strings.Cut(text, " ")
		if replies[i].Word, err = q.reserve.word(word); err != nil {
			return nil, err
		}
		replies[i].Living, replies[i].Queue = limit == "living" || limit == "bytes", limit == "queue"
		replies[i].Line = limit == "line"
		late = late || replies[i].Word == job.Late
	}
	if late {
		q.reread(ctx)
		q.keepPlaces(ctx)
	}
	return replies, nil
}

// placeClass returns the place_class of a reservation: see lua/reserve.lua. A job that SQL has already may be of a tier
// without a plan.
func (q *Queue) placeClass(r *job.Reservation, forced bool) (string, error) {
	plan, ok := q.plans.Plan(r.Tier)
	if !ok && !forced {
		return "", fmt.Errorf("reserve %s: %w: %s", r.ID, job.ErrUnknownTier, r.Tier)
	}
	as := "f"
	switch {
	case r.Started:
		as = "l"
	case r.Waits:
		as = "d"
	}
	quota := "-"
	if r.Quota > 0 {
		quota = strconv.Itoa(q.part(r.Quota))
	}
	b := fmt.Appendf(nil, "%s %s %s %s %d %s %s %s", as, r.Tier, r.QueueName(), ownerOf(r.Owner, r.Options),
		max(r.Generation, 1), q.limit(plan, r.Waits), quota, q.queueLimit(r.QueueName()))
	if r.Line != "" {
		b = append(append(b, " line="...), r.Line...)
	}
	if r.Batch != "" {
		b = append(append(b, " of="...), r.Batch...)
	}
	return string(b), nil
}

// Unreserve gives places of one partition back that no job of SQL needs, and notes which places are needed.
func (q *Queue) Unreserve(ctx context.Context, partition int, looked []job.Reserved) error {
	args := make([]any, 0, 3*len(looked))
	for _, r := range looked {
		needed := 0
		if r.Needed {
			needed = 1
		}
		args = append(args, string(r.ID), needed, r.Seen)
	}
	_, err := q.words(ctx, q.redis.Main, q.unreserve, partition, len(looked), args)
	return err
}

// Reserving returns places of one partition that were reserved before a time of Redis and that SQL has not confirmed
// since, the oldest first, at most limit.
func (q *Queue) Reserving(ctx context.Context, partition int, before time.Time, limit int) (found []job.Reserved,
	err error) {
	list, err := q.redis.Main.ZRangeByScoreWithScores(ctx, Key(partition, "reserving"), &redis.ZRangeBy{
		Min: "-inf", Max: "(" + strconv.FormatInt(before.UnixMilli(), 10), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, classify("reserving", err)
	}
	for _, z := range list {
		id, _ := z.Member.(string)
		found = append(found, job.Reserved{ID: job.ID(id), Seen: strconv.FormatFloat(z.Score, 'f', -1, 64)})
	}
	if err := q.ofBatches(ctx, partition, found); err != nil {
		return nil, err
	}
	return found, nil
}

// ofBatches sets the batches that owe the jobs of places.
func (q *Queue) ofBatches(ctx context.Context, partition int, found []job.Reserved) error {
	if len(found) == 0 {
		return nil
	}
	fields := make([]string, len(found))
	for i := range found {
		fields[i] = string(found[i].ID)
	}
	texts, err := q.redis.Main.HMGet(ctx, Key(partition, "reserved"), fields...).Result()
	if err != nil {
		return classify("reserving", err)
	}
	for i := range texts {
		text, _ := texts[i].(string)
		found[i].Batch, found[i].Ended = owedFor(text)
	}
	return nil
}

// owedFor returns what will owe the job of a place: a batch, or the end of a job.
func owedFor(place string) (batch job.ID, ended string) {
	_, of, _ := strings.Cut(place, " of=")
	_, ended, _ = strings.Cut(place, " end=")
	return job.ID(of), ended
}

// ScanReserved makes a step of a walk over the places of one partition; "" begins it, and next is "" at its end.
// Unreserve leaves those that SQL has not confirmed yet.
func (q *Queue) ScanReserved(ctx context.Context, partition int, cursor string) (found []job.Reserved, next string,
	err error) {
	from, _ := strconv.ParseUint(cursor, 10, 64)
	list, to, err := q.redis.Main.HScan(ctx, Key(partition, "reserved"), from, "", 500).Result()
	if err != nil {
		return nil, "", classify("scan reserved", err)
	}
	for i := 0; i+1 < len(list); i += 2 {
		r := job.Reserved{ID: job.ID(list[i]), Seen: "-"}
		r.Batch, r.Ended = owedFor(list[i+1])
		found = append(found, r)
	}
	if to != 0 {
		next = strconv.FormatUint(to, 10)
	}
	return found, next, nil
}

// The marks among the counters: all places are there, and the token of a process that reserves them anew.
const (
	wholeMark = "-"
	tokenMark = "~"
)

// keepPlaces sees to it that a Redis that has lost its data gets the places of SQL's jobs: until a partition has them,
// nothing is accepted there. One call of a process at a time does it, and what it cannot do the next one does. Once it
// has begun to read SQL, the end of ctx does not stop it; the caller need not wait for it.
func (q *Queue) keepPlaces(ctx context.Context) {
	if !q.placing.TryLock() {
		return
	}
	tokens := map[int]string{}
	has := make([]*redis.BoolCmd, q.opts.Partitions)
	_, _ = q.redis.Main.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each reply has its own error
		for p := range has {
			has[p] = pipe.HExists(ctx, Key(p, "counters"), wholeMark)
		}
		return nil
	})
	for p := range has {
		if has[p].Err() != nil || has[p].Val() { // a partition that does not answer is not there to accept anything
			continue
		}
		if token, err := q.placesToken(ctx, p); err == nil {
			tokens[p] = token
		}
	}
	if len(tokens) == 0 || q.opts.RememberedPlaces == nil {
		defer q.placing.Unlock()
		_ = q.mark(ctx, tokens)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer q.placing.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reserveAnewBound)
		defer cancel()
		err := q.opts.RememberedPlaces(ctx, func(p int) bool { return tokens[p] != "" })
		if err == nil {
			err = q.mark(ctx, tokens)
		}
		if err != nil {
			q.opts.Log.Warn("Redis has lost its data, and accepts nothing until it has the places of SQL's jobs", "err", err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// reserveAnewBound is how long a process takes to reserve all places anew before it begins again.
const reserveAnewBound = 2 * time.Minute

// mark says in Redis that these partitions have all places.
func (q *Queue) mark(ctx context.Context, tokens map[int]string) error {
	for p, token := range tokens {
		if _, err := q.texts(ctx, q.redis.Main, q.reserve, p, []any{noLimit, q.shares(), 1, token}); err != nil {
			return err
		}
	}
	return nil
}

// placesToken returns the token of those that reserve the places of a partition anew.
func (q *Queue) placesToken(ctx context.Context, partition int) (string, error) {
	key := Key(partition, "counters")
	if err := q.redis.Main.HSetNX(ctx, key, tokenMark, mathrand.Int64()).Err(); err != nil {
		return "", err
	}
	return q.redis.Main.HGet(ctx, key, tokenMark).Result()
}
