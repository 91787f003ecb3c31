package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	o.ReadTimeout = 300 * time.Millisecond
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServer(t *testing.T) {
	t.Attr("proves", "S0-P11 T-1")
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		ctx := context.Background()
		r := NewRedis(t)
		c := client(t, r.URL())
		must(t, c.Set(ctx, "k", "kept", 0).Err())

		pid := r.Pid()
		must(t, r.Kill())
		must(t, r.Kill())
		if err := c.Ping(ctx).Err(); err == nil {
			t.Fatal("a killed server answered")
		}
		must(t, r.Restart())
		if r.Pid() == pid {
			t.Fatalf("the same process %d after a restart", pid)
		}
		if got := c.Get(ctx, "k").Val(); got != "kept" {
			t.Fatalf("after the restart: %q", got)
		}

		must(t, r.Freeze())
		if err := c.Ping(ctx).Err(); err == nil {
			t.Fatal("a frozen server answered")
		}
		must(t, r.Thaw())
		Eventually(t, 5*time.Second, "an answer after the thaw", func() (bool, string) {
			err := c.Ping(ctx).Err()
			return err == nil, "ping answered an error"
		})

		must(t, r.Freeze())
		r.Stop()
		r.Stop()
		if err := r.Restart(); err == nil {
			t.Fatal("restarted what was stopped")
		}
	})
}

func TestRedisDefaultsAndOverrides(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := NewRedis(t, "--appendfsync", "everysec")
		c := client(t, r.URL())
		for name, want := range map[string]string{"appendfsync": "everysec", "appendonly": "yes", "save": "",
			"maxmemory-policy": "noeviction"} {
			if got := c.ConfigGet(context.Background(), name).Val()[name]; got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
}
