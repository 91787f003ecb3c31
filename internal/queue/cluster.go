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

// A Redis Cluster. go-redis finds the server of each partition's slot and follows MOVED and ASK, by which a server says
// that it did not execute a call and who will. By itself it would also send a call again whose answer never came, to
// forget what that may have done: the refusal of the second copy ("nobody listens there any more") would pass for the
// fate of the first. So every error but those two is kept from it: one call is sent once, as to a single server.

// mapEvery is how old the map of the cluster gets. A server that is not reached is a reason to ask for a new one at
// once.
const mapEvery = 5 * time.Second

func newCluster(o *redis.UniversalOptions) *redis.ClusterClient {
	c := o.Cluster()
	c.DisableRoutingPolicies = true // they would ask for COMMAND, and spread calls over servers as they see fit
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

// sentOnce stands between a server of a cluster and what would repeat a call to it.
type sentOnce struct{ lost func() }

// attempt is an error that ends a call. It has no Unwrap, and its text does not begin with a reply's: what is behind it
// is for bare alone.
type attempt struct{ err error }

func (a *attempt) Error() string { return "attempt: " + a.err.Error() }

// bare is an error without what kept it from go-redis.
func bare(err error) error {
	for a := (*attempt)(nil); errors.As(err, &a); {
		err = a.err
	}
	return err
}

// resent are the replies after which go-redis would send a call once more.
var resent = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS",
	"ERR max number of clients reached"}

func (h sentOnce) keep(err error) error {
	var reply redis.Error
	switch {
	// closed: it left the map, and another one is asked
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed):
		return err
	case errors.As(err, &reply) &&
		!slices.ContainsFunc(resent, func(r string) bool { return strings.HasPrefix(reply.Error(), r) }):
		return err
	}
	h.lost()
	return &attempt{err: err}
}

// DialHook is redis.Hook's.
func (h sentOnce) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is redis.Hook's.
func (h sentOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return h.keep(next(ctx, cmd)) }
}

// ProcessPipelineHook is redis.Hook's. A call after ASK is a pipeline too.
func (h sentOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h.keep(next(ctx, cmds)) }
}

// masters are the servers that have the partitions, each with those. What has no key, such as TIME, would otherwise go
// to any server of a cluster, a replica perhaps. An error is that of finding out: nothing was sent.
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

// inOrder is masters, with the servers by the first of their partitions.
func (s *shared) inOrder(ctx context.Context) ([]redis.UniversalClient, map[redis.UniversalClient][]int, error) {
	servers, err := masters(ctx, s.redis.Main, s.opts.Partitions)
	order := slices.SortedFunc(maps.Keys(servers),
		func(a, b redis.UniversalClient) int { return cmp.Compare(servers[a][0], servers[b][0]) })
	return order, servers, err
}

// address is how a server of a cluster is told from the others; "" where there is one.
func (s *shared) address(server redis.UniversalClient) string {
	if node, ok := server.(*redis.Client); ok && server != s.redis.Main {
		return node.Options().Addr
	}
	return ""
}
