package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Slots is the number of slots of a Redis Cluster.
const Slots = 16384

// Cluster is a real Redis Cluster that the kit started. When a slot has no master, only that slot is refused
// (cluster-require-full-coverage no). A replica stays with its master.
type Cluster struct {
	nodes   []*Redis
	ids     map[string]*Redis
	masters int
}

// NewCluster starts n masters with a replica each (AOF everysec) for one test. It gives each master an equal share
// of the slots and returns when every node serves. A node that is silent for 1 s counts as failed. The args are
// redis-server's own and override the defaults.
func NewCluster(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	return newCluster(t, masters, masters, args)
}

// NewMasters is NewCluster without replicas. It has no replica to promote, so a node may be silent for 15 s: on a
// slow machine no node counts as failed.
func NewMasters(t testing.TB, masters int, args ...string) *Cluster {
	t.Helper()
	return newCluster(t, masters, 0, append([]string{"--cluster-node-timeout", "15000"}, args...))
}

// StartMasters is NewMasters outside a test; the caller stops the cluster.
func StartMasters(masters int, args ...string) (*Cluster, error) {
	return startCluster(masters, 0, append([]string{"--cluster-node-timeout", "15000"}, args...))
}

// sharedTurn is held by the test that uses the shared cluster.
var sharedTurn sync.Mutex

// SharedCluster returns the one throwaway cluster of the test process: three masters without replicas. The cluster
// is empty and belongs to this test until it ends. A cluster has only one database, so the tests take turns. A
// test must call SharedCluster only once: a second call would wait for ever.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	sharedTurn.Lock()
	t.Cleanup(sharedTurn.Unlock)
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil {
		c, err := startCluster(3, 0, []string{"--cluster-node-timeout", "15000", "--appendfsync", "no"})
		if err != nil {
			t.Fatal(err)
		}
		shared.cluster = c
	}
	c := shared.cluster
	err := c.each(func(_ int, n *Redis) error {
		_, err := n.ask("FLUSHALL", "SYNC")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newCluster(t testing.TB, masters, replicas int, args []string) *Cluster {
	t.Helper()
	c, err := startCluster(masters, replicas, args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func startCluster(masters, replicas int, args []string) (*Cluster, error) {
	c := &Cluster{masters: masters, nodes: make([]*Redis, masters+replicas), ids: map[string]*Redis{}}
	err := c.each(func(i int, _ *Redis) (err error) {
		// The bus' default port, the port + 10000, can lie among the ports of outgoing connections.
		bus, err := freePort()
		if err != nil {
			return err
		}
		c.nodes[i], err = StartRedis(append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-announce-ip", "127.0.0.1",
			"--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no",
			"--cluster-replica-validity-factor", "0", // a replica that was frozen for a while is promoted all the same
			"--repl-diskless-sync-delay", "0", "--appendfsync", "everysec",
		}, args...)...)
		return err
	})
	if err == nil {
		err = c.join()
	}
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	return c, nil
}

// each calls do for all nodes at once and joins the errors.
func (c *Cluster) each(do func(i int, n *Redis) error) error {
	errs := make([]error, len(c.nodes))
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() { errs[i] = do(i, n) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// join introduces the nodes to each other, gives the masters their slots, and gives the replicas their masters.
func (c *Cluster) join() error {
	ids := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		id, err := n.ask("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		ids[i] = fmt.Sprint(id)
		c.ids[ids[i]] = n
		// Each node gets its own epoch at the start. Masters with equal epochs would change them later.
		if _, err := n.ask("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return err
		}
	}
	err := c.each(func(i int, n *Redis) error {
		if i < c.masters {
			if _, err := n.ask("CLUSTER", "ADDSLOTSRANGE", i*Slots/c.masters, (i+1)*Slots/c.masters-1); err != nil {
				return err
			}
		}
		for _, other := range c.nodes[i+1:] {
			bus, err := other.configured("cluster-port")
			if err != nil {
				return err
			}
			if _, err := n.ask("CLUSTER", "MEET", "127.0.0.1", other.port, bus); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = c.each(func(i int, n *Redis) error {
		if i < c.masters {
			return nil
		}
		return poll(30*time.Second, func() error { // the node may not know its master yet
			_, err := n.ask("CLUSTER", "REPLICATE", ids[i-c.masters])
			return err
		})
	})
	if err != nil {
		return err
	}
	return poll(60*time.Second, c.settled)
}

// Stop kills all nodes and removes their folders. A second call does nothing.
func (c *Cluster) Stop() {
	for _, n := range c.nodes {
		if n != nil {
			n.Stop()
		}
	}
}

// Nodes returns all nodes: first those that began as masters, then their replicas in the same order.
func (c *Cluster) Nodes() []*Redis { return slices.Clone(c.nodes) }

// URL returns a REDIS_URL that names every node.
func (c *Cluster) URL() string {
	url := "redis://" + c.nodes[0].Addr() + "?addr=" + c.nodes[0].Addr()
	for _, n := range c.nodes[1:] {
		url += "&addr=" + n.Addr()
	}
	return url
}

// Slot returns the slot of a key. If the key has a non-empty part in braces, only the first such part counts.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16 // CRC-16/XMODEM
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % Slots
}

// Master returns the master of the key's slot: of the living nodes that claim the slot, the one with the newest
// epoch. It is nil while no node claims the slot.
func (c *Cluster) Master(key string) *Redis { return c.serving(Slot(key)) }

func (c *Cluster) serving(slot int) *Redis {
	var best *Redis
	var newest int64 = -1
	for _, n := range c.nodes {
		view, err := n.view()
		if err != nil {
			continue
		}
		// Each node is trusted only about itself: its knowledge of other nodes may be old.
		for _, k := range view {
			if k.is("myself") && k.is("master") && k.has(slot) && k.epoch > newest {
				best, newest = n, k.epoch
			}
		}
	}
	return best
}

// Replica returns the living node that calls itself the replica of this one; nil if there is none.
func (c *Cluster) Replica(of *Redis) *Redis {
	for _, n := range c.nodes {
		view, err := n.view()
		if err != nil {
			continue
		}
		for _, k := range view {
			if k.is("myself") && k.is("slave") && c.ids[k.master] == of {
				return n
			}
		}
	}
	return nil
}

// Settled waits until every slot has a master, all nodes agree, and every replica is in step with its master.
func (c *Cluster) Settled(t testing.TB) {
	t.Helper()
	if err := poll(60*time.Second, c.settled); err != nil {
		t.Fatalf("the cluster did not settle: %v", err)
	}
}

func (c *Cluster) settled() error {
	return c.each(func(_ int, n *Redis) error {
		view, err := n.view()
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Addr(), err)
		}
		masters, replicas := 0, 0
		for _, k := range view {
			switch {
			case c.ids[k.id] == nil || k.is("handshake") || k.is("fail") || k.is("fail?") || !k.linked:
				return fmt.Errorf("node %s sees %s", n.Addr(), k.line)
			case k.is("master"):
				masters++
			case k.is("slave"):
				replicas++
			}
		}
		if masters != c.masters || masters+replicas != len(c.nodes) {
			return fmt.Errorf("node %s sees %d masters and %d replicas", n.Addr(), masters, replicas)
		}
		for section, want := range map[string][]string{
			"CLUSTER INFO":     {"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(Slots)},
			"INFO replication": nil,
		} {
			text, err := n.ask(anys(strings.Fields(section))...)
			if err != nil {
				return fmt.Errorf("node %s: %w", n.Addr(), err)
			}
			if want == nil && strings.Contains(fmt.Sprint(text), "role:slave") {
				want = []string{"master_link_status:up"}
			}
			for _, word := range want {
				if !strings.Contains(fmt.Sprint(text), word) {
					return fmt.Errorf("node %s: not %s", n.Addr(), word)
				}
			}
		}
		return nil
	})
}

// known is a line of CLUSTER NODES.
type known struct {
	line, id, master string
	flags            []string
	epoch            int64
	linked           bool
	slots            [][2]int
}

func (k known) is(flag string) bool { return slices.Contains(k.flags, flag) }

func (k known) has(slot int) bool {
	return slices.ContainsFunc(k.slots, func(s [2]int) bool { return s[0] <= slot && slot <= s[1] })
}

// view returns what a node reports about all nodes.
func (r *Redis) view() ([]known, error) {
	text, err := r.ask("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var all []known
	for line := range strings.Lines(fmt.Sprint(text)) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("a line of CLUSTER NODES: %q", line)
		}
		k := known{line: strings.TrimSpace(line), id: f[0], flags: strings.Split(f[2], ","), master: f[3],
			linked: f[7] == "connected"}
		k.epoch, _ = strconv.ParseInt(f[6], 10, 64)
		for _, s := range f[8:] {
			if strings.HasPrefix(s, "[") { // a slot that is moving
				continue
			}
			first, last, ok := strings.Cut(s, "-")
			if !ok {
				last = first
			}
			a, errA := strconv.Atoi(first)
			b, errB := strconv.Atoi(last)
			if err := errors.Join(errA, errB); err != nil {
				return nil, fmt.Errorf("slots of CLUSTER NODES: %w", err)
			}
			k.slots = append(k.slots, [2]int{a, b})
		}
		all = append(all, k)
	}
	return all, nil
}

// ask sends one command on a connection of its own. It waits a second for the connection and ten for the answer.
func (r *Redis) ask(command ...any) (any, error) {
	c := redis.NewClient(&redis.Options{
		Addr: r.Addr(), MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true, DialTimeout: time.Second,
		ReadTimeout: 10 * time.Second,
		PoolSize:    4, // after this many refused dials the pool goes on dialling in the background for a second
	})
	defer func() { _ = c.Close() }()
	answer, err := c.Do(context.Background(), command...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v on %s: %w", command, r.Addr(), err)
	}
	return answer, nil
}

func (r *Redis) configured(name string) (string, error) {
	answer, err := r.ask("CONFIG", "GET", name)
	if err != nil {
		return "", err
	}
	pair, ok := answer.([]any)
	if !ok || len(pair) != 2 {
		return "", fmt.Errorf("CONFIG GET %s on %s: %v", name, r.Addr(), answer)
	}
	return fmt.Sprint(pair[1]), nil
}

func anys[T any](of []T) []any {
	all := make([]any, len(of))
	for i, one := range of {
		all[i] = one
	}
	return all
}
