package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/queue"
)

func TestConnect(t *testing.T) {
	t.Parallel()
	for url, check := range map[string]func(t *testing.T, c redis.UniversalClient){
		"redis://user:secret@host:6380/3": func(t *testing.T, c redis.UniversalClient) {
			o := c.(*redis.Client).Options()
			same(t, "address", o.Addr, "host:6380")
			same(t, "db", o.DB, 3)
			same(t, "user and password", o.Username+":"+o.Password, "user:secret")
			same(t, "TLS", o.TLSConfig != nil, false)
		},
		"redis://host": func(t *testing.T, c redis.UniversalClient) {
			same(t, "address", c.(*redis.Client).Options().Addr, "host:6379")
		},
		"rediss://host:6380": func(t *testing.T, c redis.UniversalClient) {
			tls := c.(*redis.Client).Options().TLSConfig
			if tls == nil || tls.InsecureSkipVerify || tls.ServerName != "host" {
				t.Errorf("TLS is %+v", tls)
			}
		},
		"unix:///run/redis.sock?db=2": func(t *testing.T, c redis.UniversalClient) {
			o := c.(*redis.Client).Options()
			same(t, "network and address", o.Network+" "+o.Addr, "unix /run/redis.sock")
			same(t, "db", o.DB, 2)
		},
		"redis://s1:26379?master_name=main&addr=s2:26379": func(t *testing.T, c redis.UniversalClient) {
			same(t, "address", c.(*redis.Client).Options().Addr, "FailoverClient")
		},
		"redis://:secret@n1:6379?addr=n2:6379&addr=n3:6379": func(t *testing.T, c redis.UniversalClient) {
			o := c.(*redis.ClusterClient).Options()
			same(t, "nodes", strings.Join(o.Addrs, " "), "n1:6379 n2:6379 n3:6379")
			same(t, "password", o.Password, "secret")
		},
		"redis://n1:6379?addr=n1:6379": func(t *testing.T, c redis.UniversalClient) { // a cluster of which one node is named
			if _, ok := c.(*redis.ClusterClient); !ok {
				t.Errorf("a %T", c)
			}
		},
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			c, err := queue.Connect(url)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, client := range []redis.UniversalClient{c.Main, c.Worker, c.Beat} {
				check(t, client)
			}
		})
	}
}

// Nothing is sent twice behind our back, and a heartbeat has connections and short times of its own.
func TestConnectOptions(t *testing.T) {
	t.Parallel()
	c, err := queue.Connect("redis://host")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, client := range map[string]redis.UniversalClient{"main": c.Main, "worker": c.Worker, "beat": c.Beat} {
		o := client.(*redis.Client).Options()
		same(t, name+" retries", o.MaxRetries, 0) // go-redis' word for -1
		same(t, name+" protocol", o.Protocol, 2)
		same(t, name+" bounds reads by the context", o.ContextTimeoutEnabled, true)
		if o.ReadTimeout > 2*time.Second || o.DialTimeout > time.Second {
			t.Errorf("%s waits for %s and %s", name, o.DialTimeout, o.ReadTimeout)
		}
	}
	if c.Beat == c.Main || c.Beat.(*redis.Client).Options().ReadTimeout >= 500*time.Millisecond {
		t.Error("a heartbeat may wait for longer than the next one")
	}
}

func TestConnectBadURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://user:hunter2@host:port", "http://user:hunter2@host", "redis://:hunter2@host:6379/db", "redis://:hunter2@ho st", ":hunter2@host:6379",
		"redis://:hunter2@host?nonsense=1", "redis://:hunter2@s1?master_name=m&db=x", "redis://:hunter2@n1?addr=n2&read_timeout=x", "redis://:hun%ter2@host",
	} {
		c, err := queue.Connect(url)
		if err == nil {
			_ = c.Close()
			t.Errorf("%s was taken", url)
			continue
		}
		if !strings.Contains(err.Error(), "REDIS_URL") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hun%ter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
