package queue_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
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
			if tls == nil || tls.InsecureSkipVerify || tls.ServerName != "host" || tls.MinVersion != 0x0303 {
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
		"redis://n1:6379?addr=n1:6379": func(t *testing.T, c redis.UniversalClient) { // one node of a cluster
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

// The clients repeat no call by themselves, and heartbeats have connections and short time limits of their own.
func TestConnectOptions(t *testing.T) {
	t.Parallel()
	c, err := queue.Connect("redis://host")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, client := range map[string]redis.UniversalClient{"main": c.Main, "worker": c.Worker, "beat": c.Beat} {
		o := client.(*redis.Client).Options()
		same(t, name+" retries", o.MaxRetries, 0) // go-redis stores -1 as 0
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
		"redis://user:hunter2@host:port", "http://user:hunter2@host", "redis://:hunter2@host:6379/db",
		"redis://:hunter2@ho st", ":hunter2@host:6379",
		"redis://:hunter2@host?nonsense=1", "redis://:hunter2@s1?master_name=m&db=x",
		"redis://:hunter2@n1?addr=n2&read_timeout=x", "redis://:hun%ter2@host",
		"redis://u:/hunter2@host:6379/0", "redis://u:12/hunter2@host:6379/0", "redis://u:12?hunter2@host",
		"redis://u:12?hunter2=x@host", "redis://h?addr=u:hunter2@h:1",
		"redis://u:12/hunter2@s1?master_name=m", "redis://s1?master_name=m&addr=hunter2", "redis://n1?addr=hunter2",
		"redis://h?db=hunter2", "redis://h?pool_size=hunter2",
		"redis://h?dial_timeout=hunter2", "redis://h?pool_fifo=hunter2", "unix://:12/hunter2@/run/redis.sock",
	} {
		c, err := queue.Connect(url)
		if err == nil {
			_ = c.Close()
			t.Errorf("%s was taken", url)
			continue
		}
		if !strings.Contains(err.Error(), "REDIS_URL") || strings.Contains(err.Error(), "hunter2") ||
			strings.Contains(err.Error(), "hun%ter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A TLS connection is refused unless the server's certificate is valid for the host and signed by a trusted
// authority.
func TestConnectTLS(t *testing.T) {
	t.Attr("proves", "A48")
	t.Parallel()
	for _, url := range []string{
		"rediss://:hunter2@host?skip_verify=true", "rediss://:hunter2@s1?master_name=m&skip_verify=1",
		"rediss://:hunter2@n1?addr=n2:6379&skip_verify=true",
	} {
		if _, err := queue.Connect(url); err == nil || !strings.Contains(err.Error(), "REDIS_URL: ") ||
			!strings.Contains(err.Error(), "skip_verify") ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	ca, until := testkit.NewAuthority(t), time.Now().Add(time.Hour)
	tlsRedis := func(until time.Time, host string, args ...string) (r *testkit.Redis, port string) {
		cert, key := ca.Sign(t, t.TempDir(), until, host)
		port = strconv.Itoa(testkit.FreePort(t))
		return testkit.NewRedis(t, append([]string{
			"--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca.File,
			"--tls-auth-clients", "no", "--appendonly", "no",
		}, args...)...), port
	}
	plain, good := tlsRedis(until, "localhost")
	_, numbered := tlsRedis(until, "127.0.0.1")
	_, over := tlsRedis(time.Now().Add(-time.Minute), "localhost")
	node, cluster := tlsRedis(until, "localhost", "--cluster-enabled", "yes", "--tls-cluster", "yes",
		// the default is 10000 above the port, in the range of outgoing connections
		"--cluster-port", strconv.Itoa(testkit.FreePort(t)),
		"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname")
	c := redis.NewClient(&redis.Options{Addr: node.Addr()})
	defer c.Close()
	if err := c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, url string
		roots     *x509.CertPool
		want      error
	}{
		{"right", "rediss://localhost:" + good, ca.Pool(), nil},
		{"right, by its address", "rediss://127.0.0.1:" + numbered, ca.Pool(), nil},
		{"right, a cluster", "rediss://nobody.example:1?addr=localhost:" + cluster, ca.Pool(), nil},
		{"nobody's authority", "rediss://localhost:" + good, testkit.NewAuthority(t).Pool(), job.ErrUntrusted},
		{"not the system's", "rediss://localhost:" + good, nil, job.ErrUntrusted},
		{"another host's", "rediss://localhost:" + numbered, ca.Pool(), job.ErrUntrusted},
		{"another host's, by address", "rediss://127.0.0.1:" + good, ca.Pool(), job.ErrUntrusted},
		{"over", "rediss://localhost:" + over, ca.Pool(), job.ErrUntrusted},
		{"a cluster of another authority", "rediss://localhost:" + cluster + "?addr=localhost:" + cluster,
			testkit.NewAuthority(t).Pool(), job.ErrUntrusted},
		{"no TLS", "rediss://" + plain.Addr(), ca.Pool(), job.ErrUnavailable}, // no answer: it could be slow
	} {
		t.Run(tc.name, func(t *testing.T) {
			clients, err := queue.ConnectTrusting(tc.url, tc.roots)
			if err != nil {
				t.Fatal(err)
			}
			defer clients.Close()
			q := queue.New(clients, &job.PlanBook{},
				queue.Options{Partitions: 1, Nonce: "n", Log: slog.New(slog.DiscardHandler)})
			said := fmt.Sprint("it says ", tc.want) // a busy machine may be too slow for the first handshakes
			testkit.Eventually(t, 20*time.Second, said, func() (bool, string) {
				_, err := q.View().ReadDurability(t.Context())
				return errors.Is(err, tc.want) && (err == nil || errors.Is(err, job.ErrUnavailable)), fmt.Sprint(err)
			})
		})
	}
}
