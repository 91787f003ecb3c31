package queue

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Clients are the connection pools, separated by traffic: a heartbeat never queues behind a submit.
type Clients struct {
	Main   redis.UniversalClient // submits, recovery
	Read   redis.UniversalClient // polls: no submit waits for them, however many there are
	Worker redis.UniversalClient // claims, endings
	Bell   redis.UniversalClient // the doorbells: up to two connections per partition, held while they wait
	Beat   redis.UniversalClient // heartbeats
	Rate   redis.UniversalClient // rates: no submit waits for them, however many requests are counted
}

// Connect opens the clients for a REDIS_URL. redis:// or rediss:// names one server; with ?master_name= the hosts
// are sentinels, and with more hosts in ?addr= they are those of a cluster. Connect dials nothing.
func Connect(rawURL string) (Clients, error) { return ConnectTrusting(rawURL, nil) }

// ConnectTrusting is Connect with the certificate authorities that may sign a server's certificate; nil means the
// system's. With rediss:// the certificate must be valid for the host in the URL. The certificate of a sentinel's
// master or of a cluster's node must be valid for the host that the sentinel or the cluster announces.
func ConnectTrusting(rawURL string, roots *x509.CertPool) (Clients, error) {
	o, err := readURL(rawURL)
	if err != nil {
		return Clients{}, err
	}
	if o.TLSConfig != nil {
		if o.TLSConfig.InsecureSkipVerify {
			return Clients{}, errSkipVerify
		}
		o.TLSConfig.RootCAs, o.TLSConfig.MinVersion = roots, tls.VersionTLS12
		if o.MasterName != "" || o.IsClusterMode {
			o.TLSConfig.ServerName = "" // would be the first host's: each server must match its own
		}
	}
	return ConnectWith(o), nil
}

// errURL is the only error for a URL that cannot be parsed. The parsers' own errors quote the URL, and with it the
// password where a / or a ? stands in the password.
var errURL = errors.New("REDIS_URL cannot be read: it is written redis://user:password@host:6379/0, with go-redis' " +
	"own parameters only; " +
	"in a password, write special characters as %XX")

var errSkipVerify = errors.New("REDIS_URL: skip_verify turns the check of the server's certificate off: leave it out, " +
	"and name the authority that signed it in TIERQ_CA_FILE")

// readURL parses a REDIS_URL. Its errors quote no part of the URL.
func readURL(rawURL string) (o redis.UniversalOptions, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return o, errURL
	}
	switch q := u.Query(); {
	case q.Get("master_name") != "":
		s, err := redis.ParseFailoverURL(rawURL)
		if err != nil {
			return o, errURL
		}
		o = redis.UniversalOptions{Addrs: s.SentinelAddrs, MasterName: s.MasterName, SentinelUsername: s.SentinelUsername,
			SentinelPassword: s.SentinelPassword, Username: s.Username, Password: s.Password, DB: s.DB, TLSConfig: s.TLSConfig}
	case q.Has("addr"):
		c, err := redis.ParseClusterURL(rawURL)
		switch {
		case err != nil && q.Has("skip_verify"): // a cluster's URL has no such parameter
			return o, errSkipVerify
		case err != nil:
			return o, errURL
		}
		o = redis.UniversalOptions{Addrs: c.Addrs, Username: c.Username, Password: c.Password, TLSConfig: c.TLSConfig,
			IsClusterMode: true}
	default:
		s, err := redis.ParseURL(rawURL)
		if err != nil {
			return o, errURL
		}
		o = redis.UniversalOptions{Addrs: []string{s.Addr}, Username: s.Username, Password: s.Password, DB: s.DB,
			TLSConfig: s.TLSConfig}
	}
	for _, addr := range o.Addrs {
		if strings.Contains(addr, "@") { // a failed dial names the address
			return o, errURL
		}
	}
	return o, nil
}

// ConnectWith opens the clients with the given options; tests use it directly. It turns off everything with which
// go-redis would send a call twice: tierq itself repeats what is safe to repeat.
func ConnectWith(o redis.UniversalOptions) Clients {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.Protocol = 2
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := func(size int, dial, read, write, pool time.Duration) redis.UniversalClient {
		c := o
		c.PoolSize, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.PoolTimeout = size, dial, read, write, pool
		if c.TLSConfig != nil && c.Dialer == nil {
			c.Dialer = dialTLS(c.TLSConfig, dial)
		}
		if c.IsClusterMode {
			return newCluster(&c)
		}
		return redis.NewUniversalClient(&c)
	}
	return Clients{
		Main:   client(16, time.Second, 2*time.Second, time.Second, 500*time.Millisecond),
		Read:   client(16, time.Second, 2*time.Second, time.Second, 500*time.Millisecond),
		Worker: client(12, time.Second, 2*time.Second, time.Second, 500*time.Millisecond),
		Bell:   client(512, time.Second, 2*time.Second, time.Second, 500*time.Millisecond),
		Beat:   client(2, 500*time.Millisecond, 400*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond),
		Rate:   client(4, 500*time.Millisecond, 2*time.Second, time.Second, 200*time.Millisecond),
	}
}

// dialTLS returns a dialer with a time limit. Every failure before the TLS handshake is complete is reported as an
// error of the dial, because nothing was sent yet.
func dialTLS(c *tls.Config, within time.Duration) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: within, KeepAlive: 5 * time.Minute}, Config: c}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, addr)
		var dial *net.OpError
		if err != nil && !(errors.As(err, &dial) && dial.Op == "dial") {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("TLS with %s: %w", addr, err)}
		}
		return conn, err
	}
}

// Close closes the connections.
func (c Clients) Close() error {
	return errors.Join(c.Main.Close(), c.Read.Close(), c.Worker.Close(), c.Bell.Close(), c.Beat.Close(), c.Rate.Close())
}

// LogTo sends the messages that go-redis logs by itself (a failed dial, for example) to a log, at debug level: the
// callers of a failed call log the failure anyway.
func LogTo(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.log.DebugContext(ctx, "go-redis: "+fmt.Sprintf(format, v...))
}
