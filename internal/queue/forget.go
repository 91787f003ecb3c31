package queue

import (
	"context"
	"fmt"
	stdslices "slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// forgetKeys is roughly how many keys one step of a walk reads at most.
const forgetKeys = 500

// Memory reads how much memory each server uses. In a cluster it reads the servers that have partitions.
func (q *Queue) Memory(ctx context.Context) ([]job.ServerMemory, error) {
	order, _, err := q.inOrder(ctx)
	if err != nil {
		return nil, classify("memory", err)
	}
	all := make([]job.ServerMemory, 0, len(order))
	for _, server := range order {
		if q.opts.Embedded {
			continue // the embedded server has no limit
		}
		text, err := server.Info(ctx, "memory").Result()
		if err != nil && !replied(err) {
			return nil, classify("memory", err)
		}
		m := readMemory(text)
		m.Server = q.address(server)
		all = append(all, m)
	}
	return all, nil
}

// readMemory reads the reply of INFO. Redis does not count the buffers of its replicas and of its append-only file
// against the limit.
func readMemory(info string) (m job.ServerMemory) {
	fields := map[string]int64{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name], _ = strconv.ParseInt(value, 10, 64)
	}
	m.Used, m.Max = max(fields["used_memory"]-fields["mem_not_counted_for_evict"], 0), fields["maxmemory"]
	return m
}

// ForgetStep makes one step of a walk over the slices of a server. cursor 0 begins a walk. The step removes the slices
// of acknowledged jobs whose last job ended at before (ms of Redis' time) or earlier, and returns the ends of the
// slices that ended later; with before = 0 it removes none. It skips slices that ended within job.LeastMemory.
func (q *Queue) ForgetStep(ctx context.Context, server string, cursor uint64, before int64) (job.ForgetStep, error) {
	order, _, err := q.inOrder(ctx)
	if err != nil {
		return job.ForgetStep{}, classify("forget", err)
	}
	at := stdslices.IndexFunc(order, func(s redis.UniversalClient) bool { return q.address(s) == server })
	if at < 0 {
		return job.ForgetStep{}, nil // the server left the cluster
	}
	keys, next, err := order[at].ScanType(ctx, cursor, "{tierq:*}:"+suffixes["ended"]+"*", forgetKeys, "hash").Result()
	if err != nil {
		return job.ForgetStep{}, classify("forget", err)
	}
	byPartition := map[int][]string{}
	for _, key := range keys {
		if partition, suffix := q.splitKey(key); partition >= 0 {
			byPartition[partition] = append(byPartition[partition], strings.TrimPrefix(suffix, suffixes["ended"]))
		}
	}
	step := job.ForgetStep{Next: next}
	for partition, names := range byPartition {
		for batch := range stdslices.Chunk(names, job.MaxBatch) {
			gone, stayed, err := q.Forget(ctx, partition, batch, before)
			if err != nil {
				return step, err
			}
			step.Gone += gone
			step.Stayed = append(step.Stayed, stayed...)
		}
	}
	return step, nil
}

// Forget removes those of a partition's slices of which SQL has all jobs, whose last job ended at before or earlier,
// and at least job.LeastMemory ago. gone counts the removed jobs. stayed has an entry for each job that stayed only
// because its slice ended after before: the time of the slice's last end.
func (q *Queue) Forget(
	ctx context.Context, partition int, slices []string, before int64,
) (gone int, stayed []int64, err error) {
	args := []any{before, ms(job.LeastMemory)}
	for _, name := range slices {
		args = append(args, name)
	}
	texts, err := q.texts(ctx, q.redis.Main, q.forget, partition, args)
	if err != nil {
		return 0, nil, err
	}
	if len(texts) != len(slices) {
		return 0, nil, fmt.Errorf("forget: %d words for %d entries", len(texts), len(slices))
	}
	for _, text := range texts {
		first, rest, _ := strings.Cut(text, " ")
		word, err := q.forget.word(first)
		if err != nil {
			return gone, stayed, err
		}
		switch word {
		case job.OK:
			gone += number(rest)
		case job.Ended:
			ended, jobs, _ := strings.Cut(rest, " ")
			at, err := strconv.ParseInt(ended, 10, 64)
			if err != nil {
				return gone, stayed, fmt.Errorf("forget: an end of %q", ended)
			}
			for range number(jobs) {
				stayed = append(stayed, at)
			}
		}
	}
	return gone, stayed, nil
}
