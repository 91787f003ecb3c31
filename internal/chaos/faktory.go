package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Workers and producers that speak Faktory's protocol share the outsiders' queue. An embedded server has none: which
// attempt a Faktory worker got is read from Redis.

const (
	gatewaySecret  = "the secret of the gateways of a chaos run"
	faktoryWorkers = 4 // at a time
	// These are the times of the gateway in a build with failpoints, in internal/faktory.
	faktoryLease  = 5 * time.Second
	faktoryLinger = 2 * time.Second // a second of grace, and one until the gateway looks
)

// gateway returns the address of the server's Faktory gateway.
func (s *server) gateway() string { return "127.0.0.1:" + strconv.Itoa(s.gate) }

// readPasswords asks for the gateway's password of each key.
func (c *cluster) readPasswords(ctx context.Context) error {
	c.passwords = map[string]string{}
	if c.Embedded {
		return nil
	}
	for _, k := range slices.Concat(c.keys, c.workerKeys) {
		var answer struct{ Password string }
		status, err := c.ask(ctx, c.servers[0].base(), http.MethodPost, "/admin/keys/"+k.ID+"/gateway", c.admin, "",
			&answer)
		if err != nil || status != http.StatusOK {
			return fmt.Errorf("the gateway's password of a key: %d %w", status, err)
		}
		c.passwords[k.ID] = answer.Password
	}
	return nil
}

// faktory returns what the load needs for its Faktory clients.
func (c *cluster) faktory() client.Faktory {
	with := func(keys []client.Key) (all []client.Key) {
		for _, k := range keys {
			all = append(all, client.Key{ID: k.ID, Text: c.passwords[k.ID]})
		}
		return all
	}
	return client.Faktory{
		Workers: faktoryWorkers, Keys: with(c.keys), WorkerKeys: with(c.workerKeys),
		Lease: faktoryLease, Linger: faktoryLinger, Held: c.held,
		Addrs: func() (all []string) {
			for _, s := range c.servers {
				all = append(all, s.gateway())
			}
			return all
		},
	}
}

// held returns the attempts of a job that a worker holds, as the gateways' book in Redis has them. They are named as in
// job.HeldField.
func (c *cluster) held(ctx context.Context, key, wid, jid string) (fields []string, err error) {
	all, err := c.rdb.HGetAll(ctx, queue.HeldKey(c.Partitions, key, "wid "+wid)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the book: %w", err)
	}
	for field, text := range all {
		if h, ok := job.ReadHeldLease(field, text); ok && h.Name == jid {
			fields = append(fields, field)
		}
	}
	return fields, nil
}
