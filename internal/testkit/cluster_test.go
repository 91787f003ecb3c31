package testkit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func clusterClient(t *testing.T, c *Cluster) *redis.ClusterClient {
	t.Helper()
	o, err := redis.ParseClusterURL(c.URL())
	must(t, err)
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { _ = client.Close() }) // a second Close only returns an error
	return client
}

func sentOn(_ string, ok bool) bool { return ok }

// All subtests share one cluster, because a start takes seconds.
func TestCluster(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		ctx := context.Background()
		c := NewCluster(t, 3)
		client := clusterClient(t, c)
		if n := len(c.Nodes()); n != 6 {
			t.Fatalf("%d nodes", n)
		}
		seen := map[*Redis]bool{}
		for i := range 60 {
			key := fmt.Sprintf("{k%d}:a", i)
			must(t, client.Set(ctx, key, i, 0).Err())
			if slot, err := client.ClusterKeySlot(ctx, key).Result(); err != nil || int(slot) != Slot(key) {
				t.Fatalf("slot of %s: %d, Redis says %d, %v", key, Slot(key), slot, err)
			}
			m := c.Master(key)
			if n, err := m.ask("EXISTS", key); err != nil || n != int64(1) {
				t.Fatalf("%s is not at its master: %v %v", key, n, err)
			}
			seen[m] = true
		}
		if len(seen) != 3 {
			t.Fatalf("keys on %d masters", len(seen))
		}

		// A slot moves.
		from := c.Master("{k1}:a")
		to := c.Master("{k2}:a")
		for i := 3; to == from; i++ {
			to = c.Master(fmt.Sprintf("{k%d}:a", i))
		}
		m := c.StartMove(t, Slot("{k1}"), to)
		if _, err := from.ask("GET", "{k1}:none"); !sentOn(redis.IsAskError(err)) {
			t.Fatalf("a slot on its way does not send on: %v", err)
		}
		if got, err := from.ask("GET", "{k1}:a"); err != nil || got != "1" {
			t.Fatalf("before its key moves: %v %v", got, err)
		}
		if !m.Step(t, 10) || m.Step(t, 10) {
			t.Fatal("a slot of one key moves in one step")
		}
		if got, err := client.Get(ctx, "{k1}:a").Result(); err != nil || got != "1" {
			t.Fatalf("on its way: %q %v", got, err)
		}
		m.Finish(t)
		if c.Master("{k1}:a") != to {
			t.Fatal("the slot did not move")
		}
		if _, err := from.ask("GET", "{k1}:a"); !sentOn(redis.IsMovedError(err)) {
			t.Fatalf("a slot that went does not send on for good: %v", err)
		}
		c.Settled(t)

		// A master dies. The client is closed first, so that it does not keep dialling the dead node.
		must(t, client.Close())
		key := "{k1}:a"
		dead := c.Master(key)
		heir := c.Replica(dead)
		if heir == nil {
			t.Fatal("a master without a replica")
		}
		must(t, dead.Kill())
		Eventually(t, 30*time.Second, "the replica serves", func() (bool, string) {
			m := c.Master(key)
			return m == heir, fmt.Sprint(m)
		})
		must(t, dead.Restart())
		c.Settled(t)
		if c.Replica(heir) != dead {
			t.Fatal("the one that came back is not its heir's replica")
		}
	})
}

func TestSharedClusterIsOneTestsAlone(t *testing.T) {
	t.Parallel()
	for range 3 {
		t.Run("redis", func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			client := clusterClient(t, SharedCluster(t))
			for i := range 9 {
				key := fmt.Sprintf("{k%d}", i)
				if set, err := client.SetNX(ctx, key, "mine", 0).Result(); err != nil || !set {
					t.Fatalf("%s was there: %v", key, err)
				}
			}
		})
	}
}
