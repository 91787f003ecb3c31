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

// settling is for how long rows are stamped with a partition's previous incarnation after another server was found
// to have the partition: for that time a client with an old slot map may still write to the old master, and the
// old master may still answer. Such rows are checked again once. A single server has no successor and needs no
// such time.
const settling = 30 * time.Second

// life is the incarnation of a partition's data as last read, the one before it, and since when this process knows
// it.
type life struct {
	id, before string
	since      time.Time
}

// Incarnations returns the present incarnation of each partition's data. A restart or failover of the server that
// has the partition begins another incarnation, whatever data survives, and so does a FLUSHALL there. An
// incarnation is "" if that server did not answer; the call then returns an error too. If the server hides its run
// id, a restart that keeps the data is not noticed. The embedded server's incarnation is the process whose
// data it has: this one, unless it has taken them over.
func (q *Queue) Incarnations(ctx context.Context) ([]string, error) {
	runs := make([]string, q.opts.Partitions)
	if q.opts.Embedded {
		for p := range runs {
			runs[p] = q.embeddedRun()
		}
		return runs, nil
	}
	servers, err := masters(ctx, q.redis.Main, q.opts.Partitions)
	problems := []error{err}
	if len(servers) > 1 { // do not wait for a server that hangs
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

// KnownIncarnation returns the incarnation to write into rows of the partition: the one that Incarnations last
// read or, for a while after a failover, the one before it, which makes the reconciler check the row once more. It
// is "" before the first reading and, where a failover is possible, for a while after it.
func (q *Queue) KnownIncarnation(partition int) string {
	if q.opts.Embedded {
		return q.embeddedRun()
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

func (q *Queue) embeddedRun() string {
	if l := q.runs[0].Load(); l != nil {
		return l.id
	}
	return q.opts.Nonce
}

func (q *Queue) noteIncarnation(partition int, id string) {
	l := q.runs[partition].Load()
	if id == "" || l != nil && l.id == id {
		return
	}
	if l != nil {
		q.DoubtPlans() // the plans may be on the server that began anew
	}
	q.runs[partition].Store(&life{id: id, before: q.KnownIncarnation(partition), since: time.Now()})
}

// lives reads the incarnations of a server's partitions in one pipeline, so that one server answers all of it.
func (q *Queue) lives(ctx context.Context, server redis.UniversalClient, partitions []int) ([]string, error) {
	pipe := server.Pipeline()
	about, place := pipe.InfoMap(ctx, "server"), pipe.InfoMap(ctx, "replication")
	epochs := make([]*redis.StringCmd, len(partitions))
	for i, p := range partitions {
		epochs[i] = pipe.Get(ctx, Key(p, "epoch"))
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
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

// serverIncarnation identifies the server part of an incarnation: the process that has the data, and its
// replication id, because a master that became a replica and then a master again is the same process with other
// data.
func serverIncarnation(process, replication string) string {
	if process == "" {
		return "unknown"
	}
	return process + "." + replication[:min(len(replication), 10)]
}

// newEpoch returns the name of a partition's data and stores a new name if there is none, because the data is new
// or was flushed.
func (q *Queue) newEpoch(ctx context.Context, server redis.UniversalClient, partition int) (string, error) {
	if err := server.SetNX(ctx, Key(partition, "epoch"), rand.Text()[:12], 0).Err(); err != nil {
		return "", err
	}
	return server.Get(ctx, Key(partition, "epoch")).Result()
}

// reload makes a cluster client read its slot map again, because the server it named may not be the master any
// more.
func (q *Queue) reload() {
	if cluster, ok := q.redis.Main.(*redis.ClusterClient); ok {
		cluster.ReloadState(context.Background())
	}
}

// succeeds says whether a failover can replace a server of this client by another one.
func succeeds(c redis.UniversalClient) bool {
	if single, ok := c.(*redis.Client); ok {
		return single.Options().Addr == "FailoverClient" // go-redis' address of a client that asks sentinels
	}
	return true
}

// replied says whether the server answered and only refused to tell: INFO and CONFIG may be forbidden, and the
// in-memory server lacks some sections of INFO.
func replied(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer) &&
		(strings.HasPrefix(answer.Error(), "NOPERM") || strings.HasPrefix(answer.Error(), "section"))
}

// Lease tries to make this process the only one that does a named piece of work for the next ttl, and returns
// whether it is. It only saves work: two processes that both believe to have the lease do no harm.
func (q *Queue) Lease(ctx context.Context, name string, ttl time.Duration) (bool, error) {
	key := leasePrefix + name
	got, err := q.redis.Main.SetNX(ctx, key, q.opts.Nonce, ttl).Result()
	if err != nil || got {
		return got, classifyNil("lease", err)
	}
	holder, err := q.redis.Main.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil // the lease has just run out: the next call may get it
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
