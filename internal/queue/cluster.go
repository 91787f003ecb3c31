package queue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file adapts go-redis to a Redis Cluster. go-redis finds the server of each partition's slot and follows
// MOVED and ASK, with which a server says that it did not execute a call and which server will. go-redis would
// also resend a call whose reply was lost and forget that the first copy may have been executed: it would report
// the second copy's error (such as a refused connection) as the fate of the first. sentOnce therefore hides every
// other error from go-redis, so that each call is sent once, as to a single server.

// mapEvery is the greatest age of the cluster's slot map. A server that cannot be reached triggers a reload at
// once.
const mapEvery = 5 * time.Second

func newCluster(o *redis.UniversalOptions) *redis.ClusterClient {
	c := o.Cluster()
	c.DisableRoutingPolicies = true // these policies send COMMAND and spread calls over servers
	c.ClusterStateReloadInterval = mapEvery
	var cluster *redis.ClusterClient
	c.NewClient = func(o *redis.Options) *redis.Client {
		node := redis.NewClient(o)
		node.AddHook(sentOnce{lost: func() { cluster.ReloadState(context.Background()) }})
		return node
	}
	cluster = redis.NewClusterClient(c)
	return cluster
}

// sentOnce is a hook on each server of a cluster. It hides from go-redis every error after which go-redis would
// resend a call. lost is called for each hidden error.
type sentOnce struct{ lost func() }

// attempt wraps an error that ends a call. It has no Unwrap, and its text does not begin like a Redis reply, so
// that go-redis does not recognise the error inside; only bare unwraps it.
type attempt struct{ err error }

func (a *attempt) Error() string { return "attempt: " + a.err.Error() }

// bare returns the error inside an attempt, or err itself.
func bare(err error) error {
	for a := (*attempt)(nil); errors.As(err, &a); {
		err = a.err
	}
	return err
}

// resent lists the replies after which go-redis would resend a call.
var resent = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS",
	"ERR max number of clients reached"}

func (h sentOnce) keep(err error) error {
	var reply redis.Error
	switch {
	// closed: the server left the slot map, and go-redis asks another one
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed):
		return err
	case errors.As(err, &reply) &&
		!slices.ContainsFunc(resent, func(r string) bool { return strings.HasPrefix(reply.Error(), r) }):
		return err
	}
	h.lost()
	return &attempt{err: err}
}

// DialHook implements redis.Hook.
func (h sentOnce) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (h sentOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h.keep(next(ctx, cmd)) }
}

// ProcessPipelineHook implements redis.Hook. A call after ASK is a pipeline too.
func (h sentOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.keep(next(ctx, cmds)) }
}

// masters returns the servers that have the partitions, each with its partitions. A command without a key, such as
// TIME, would otherwise go to any server of a cluster, possibly a replica. An error means that a master could not
// be found; nothing was sent.
func masters(ctx context.Context, c redis.UniversalClient, partitions int) (map[redis.UniversalClient][]int, error) {
	all := map[redis.UniversalClient][]int{}
	var problems []error
	for p := range partitions {
		server := c
		if cluster, ok := c.(*redis.ClusterClient); ok {
			master, err := cluster.MasterForKey(ctx, Key(p, "queue"))
			if err != nil {
				problems = append(problems, err)
				continue
			}
			server = master
		}
		all[server] = append(all[server], p)
	}
	return all, errors.Join(problems...)
}

// inOrder calls masters and orders the servers by the first of their partitions.
func (s *shared) inOrder(ctx context.Context) ([]redis.UniversalClient, map[redis.UniversalClient][]int, error) {
	servers, err := masters(ctx, s.redis.Main, s.opts.Partitions)
	order := slices.SortedFunc(maps.Keys(servers),
		func(a, b redis.UniversalClient) int { return cmp.Compare(servers[a][0], servers[b][0]) })
	return order, servers, err
}

// address returns the address that distinguishes a server of a cluster; "" for a single server.
func (s *shared) address(server redis.UniversalClient) string {
	if node, ok := server.(*redis.Client); ok && server != s.redis.Main {
		return node.Options().Addr
	}
	return ""
}
