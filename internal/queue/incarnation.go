package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
)

// settling is for how long a row is still written under a partition's earlier life after another server was found to
// have it: the one that had it may not know yet, and may answer whoever does not know either. A single server has no
// successor.
const settling = 30 * time.Second

// life is the life of a partition's data, as it was last read.
type life struct {
	id, before string
	since      time.Time
}

// Incarnations names the present life of each partition's data: another one after each restart or failover of the
// server that has it, whatever that kept, and after a FLUSHALL there. "" where that server did not answer, and with it
// an error. A server that does not say when it restarts is known by its data alone. The embedded server lives as long
// as this process.
func (q *Queue) Incarnations(ctx context.Context) ([]string, error) {
	runs := make([]string, q.opts.Partitions)
	if q.opts.Embedded {
		for p := range runs {
			runs[p] = q.opts.Nonce
		}
		return runs, nil
	}
	servers, err := masters(ctx, q.redis.Main, q.opts.Partitions)
	problems := []error{err}
	if len(servers) > 1 { // one that hangs is not waited for
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, levelBound)
		defer cancel()
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for server, partitions := range servers {
		asked.Go(func() {
			ids, err := q.lives(ctx, server, partitions)
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, err)
			for i, id := range ids {
				runs[partitions[i]] = id
			}
		})
	}
	asked.Wait()
	for p, id := range runs {
		q.noteIncarnation(p, id)
	}
	return runs, classifyNil("run id", errors.Join(problems...))
}

// KnownIncarnation is what a row of the partition may name as the life of Redis that has it: as Incarnations last read
// it, or an earlier one, which costs a question; "" before the first time.
func (q *Queue) KnownIncarnation(partition int) string {
	if q.opts.Embedded {
		return q.opts.Nonce
	}
	l := q.runs[partition].Load()
	switch {
	case l == nil:
		return ""
	case time.Since(l.since) < q.settling:
		return l.before
	}
	return l.id
}

func (q *Queue) noteIncarnation(partition int, id string) {
	l := q.runs[partition].Load()
	if id == "" || l != nil && l.id == id {
		return
	}
	if l != nil {
		q.DoubtPlans() // they may be on the server that began anew
	}
	q.runs[partition].Store(&life{id: id, before: q.KnownIncarnation(partition), since: time.Now()})
}

// lives reads what a server says of itself and of its partitions' data, in one go: it is one server that says all of
// it.
func (q *Queue) lives(ctx context.Context, server redis.UniversalClient, partitions []int) ([]string, error) {
	pipe := server.Pipeline()
	about, place := pipe.InfoMap(ctx, "server"), pipe.InfoMap(ctx, "replication")
	epochs := make([]*redis.StringCmd, len(partitions))
	for i, p := range partitions {
		epochs[i] = pipe.Get(ctx, Key(p, "epoch"))
	}
	_, _ = pipe.Exec(ctx) // its error is the first of theirs
	ids := make([]string, len(partitions))
	for _, info := range []*redis.InfoCmd{about, place} {
		if err := info.Err(); err != nil && !replied(err) {
			q.reload()
			return ids, err
		}
	}
	if place.Item("Replication", "role") == "slave" {
		q.reload()
		return ids, fmt.Errorf("%w: a replica answers for the master", job.ErrUnavailable)
	}
	name := serverIncarnation(about.Item("Server", "run_id"), place.Item("Replication", "master_replid"))
	var problems []error
	for i, p := range partitions {
		epoch, err := epochs[i].Result()
		if errors.Is(err, redis.Nil) {
			epoch, err = q.newEpoch(ctx, server, p)
		}
		if err != nil {
			q.reload()
			problems = append(problems, err)
			continue
		}
		ids[i] = name + "." + epoch
	}
	return ids, errors.Join(problems...)
}

// serverIncarnation is what the scripts' run_id says: which process has the data, and for the how manieth time. A
// master that became a replica and then a master again is the same process with other data.
func serverIncarnation(process, replication string) string {
	if process == "" {
		return "unknown"
	}
	return process + "." + replication[:min(len(replication), 10)]
}

// newEpoch names a partition's data: whoever finds no name, because the data is new or was flushed, makes one up.
func (q *Queue) newEpoch(ctx context.Context, server redis.UniversalClient, partition int) (string, error) {
	if err := server.SetNX(ctx, Key(partition, "epoch"), rand.Text()[:12], 0).Err(); err != nil {
		return "", err
	}
	return server.Get(ctx, Key(partition, "epoch")).Result()
}

// reload asks a cluster for its map: whom it named is perhaps not the one to ask any more.
func (q *Queue) reload() {
	if cluster, ok := q.redis.Main.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
}

// succeeds says whether another server may take the place of one of these.
func succeeds(c redis.UniversalClient) bool {
	if single, ok := c.(*redis.Client); ok {
		return single.Options().Addr == "FailoverClient" // what go-redis calls one that asks sentinels
	}
	return true
}

// replied says that the server answered, if only that this user may not ask: INFO and CONFIG may be forbidden, and the
// in-memory server has no such section.
func replied(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) &&
		(strings.HasPrefix(answer.Error(), "NOPERM") || strings.HasPrefix(answer.Error(), "section"))
}

// Lease asks to be the one process that does something for the next ttl. It saves work and decides nothing: two that
// believe they have it do harm to nobody.
func (q *Queue) Lease(ctx context.Context, name string, ttl time.Duration) (bool, error) {
	key := leasePrefix + name
	got, err := q.redis.Main.SetNX(ctx, key, q.opts.Nonce, ttl).Result()
	if err != nil || got {
		return got, classifyNil("lease", err)
	}
	holder, err := q.redis.Main.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil // it ran out just now: the next time
	case err != nil:
		return false, classify("lease", err)
	case holder != q.opts.Nonce:
		return false, nil
	}
	return true, classifyNil("lease", q.redis.Main.PExpire(ctx, key, ttl).Err())
}

func classifyNil(verb string, err error) error {
	if err == nil {
		return nil
	}
	return classify(verb, err)
}
