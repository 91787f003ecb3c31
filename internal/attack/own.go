package attack

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
)

// ownConnections is how many connections a server started by Own accepts: so few that an attack can take them all.
const ownConnections = 1024

// own says whether the server was started by Own.
func (t *Target) own() bool { return t.bin != "" }

// Own starts a throwaway redis-server, mariadbd and tierq, and returns a target for that server. stop ends and
// removes them. The caller must call stop also after an error.
func Own(ctx context.Context) (t *Target, stop func(), err error) {
	var ends []func()
	stop = func() {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i]()
		}
		ends = nil
	}
	bin, err := testkit.Build()
	if err != nil {
		return nil, stop, err
	}
	r, err := testkit.StartRedis()
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, r.Stop)
	m, err := testkit.StartMariaDB()
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, m.Stop)
	if err := makeDatabase(ctx, m); err != nil {
		return nil, stop, err
	}
	proxy, err := listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, func() { _ = proxy.Close() })
	dir, err := os.MkdirTemp("", "tierq-attack-")
	if err != nil {
		return nil, stop, fmt.Errorf("make a folder: %w", err)
	}
	ends = append(ends, func() { _ = os.RemoveAll(dir) })
	port, err := testkit.TakePort()
	if err != nil {
		return nil, stop, err
	}
	addr, key := "127.0.0.1:"+strconv.Itoa(port), newKey()
	if port, err = testkit.TakePort(); err != nil {
		return nil, stop, err
	}
	gateway := "127.0.0.1:" + strconv.Itoa(port)
	env := []string{
		"REDIS_URL=" + r.URL(), "MYSQL_DSN=" + m.DSN("attack"), "TIERQ_ADDR=" + addr, "TIERQ_DATA_DIR=" + filepath.Join(dir,
			"data"), "TIERQ_ADMIN_KEY=" + key, "TIERQ_H2C=on",
		"TIERQ_CONNECTIONS=" + strconv.Itoa(ownConnections), "TIERQ_DRAIN_TIMEOUT=1s", "TIERQ_LOG_LEVEL=debug",
		"TIERQ_LOG_FORMAT=json",
		"TIERQ_FAKTORY_ADDR=" + gateway, "TIERQ_GATEWAY_SECRET=" + base64.StdEncoding.EncodeToString([]byte(newKey())),
		"HTTP_PROXY=http://" + proxy.Addr().String(), "http_proxy=http://" + proxy.Addr().String(),
	}
	p, err := testkit.LaunchProcess(bin, env, "serve")
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, func() { _ = p.Kill() })
	boot, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if err := p.WaitOutput(boot, addr); err != nil {
		return nil, stop, err
	}
	if err := ready(boot, addr); err != nil {
		return nil, stop, fmt.Errorf("%w; it said:\n%s", err, p.Output())
	}
	if t, err = Aim(ctx, "http://"+addr, key); err != nil {
		return nil, stop, fmt.Errorf("%w; the server said:\n%s", err, p.Output())
	}
	t.log, t.proxy, t.bin, t.env, t.gatewayAddr = p.Output, proxy, bin, env, gateway
	return t, stop, nil
}

// ready waits until the server answers that it is ready.
func ready(ctx context.Context, addr string) error {
	t := &Target{host: addr, client: newClient()}
	defer t.client.CloseIdleConnections()
	for {
		a := t.send(ctx, "", "GET", "/readyz", "")
		if a.status == 200 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not get ready: %s", a)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func makeDatabase(ctx context.Context, m *testkit.MariaDB) error {
	cfg, err := mysql.ParseDSN(m.DSN(""))
	if err != nil {
		return fmt.Errorf("read DSN: %w", err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE attack CHARACTER SET utf8mb4"); err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	return nil
}

// newKey returns a new key in the form of an administrator's key.
func newKey() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // rand.Read does not fail
	return "tq_" + strings.ToLower(rand.Text()[:16]) + "_" + base64.RawURLEncoding.EncodeToString(secret)
}
