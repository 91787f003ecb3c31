package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
)

// The server uses only verified TLS to its stores. It does not start with a store that has a wrong certificate,
// nor with settings that switch the verification off, and the error names the setting.
func TestTLSToTheStores(t *testing.T) {
	t.Attr("proves", "A48")
	t.Parallel()
	ca, stranger, soon, past := testkit.NewAuthority(t), testkit.NewAuthority(t), time.Now().Add(time.Hour),
		time.Now().Add(-time.Minute)
	good, over, dir, port := t.TempDir(), t.TempDir(), t.TempDir(), strconv.Itoa(testkit.FreePort(t))
	cert, key := ca.Sign(t, good, soon, "localhost")
	oldCert, oldKey := ca.Sign(t, over, past, "localhost")
	ownCert, ownKey := ca.Sign(t, dir, soon, "localhost")
	m := testkit.NewMariaDB(t, "--ssl-cert="+ownCert, "--ssl-key="+ownKey)
	c := clusterOn(t, testkit.NewRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", ca.File,
		"--tls-auth-clients", "no"), m.NewDatabase(t))
	d, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	mariadb := func(host, query string) string {
		return "MYSQL_DSN=root@tcp(" + strings.Replace(m.Addr(), "127.0.0.1", host, 1) + ")/" + d.DBName + "?" + query
	}
	rediss, trust := "REDIS_URL=rediss://localhost:"+port+"/0", "TIERQ_CA_FILE="+ca.File

	s := c.start(rediss, mariadb("localhost", "tls=true"), trust)
	s.await(s.submit("paid", "{}"), "COMPLETED", 10*time.Second)
	var name, taken string
	c.row("SHOW GLOBAL STATUS LIKE 'Ssl_accepts'", &name, &taken)
	if taken == "0" {
		t.Error("MariaDB saw no TLS")
	}
	t.Logf("evidence: over TLS only, MariaDB took %s such connections", taken)

	refused := func(name string, env []string, want ...string) {
		t.Helper()
		p := testkit.StartProcess(t, c.bin,
			append([]string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir()}, env...), "serve")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		code, err := p.WaitExit(ctx)
		if err != nil || code == 0 {
			t.Errorf("%s: exit %d, %v", name, code, err)
		}
		for _, w := range append(want, "TIERQ_CA_FILE") {
			if !strings.Contains(p.Output(), w) {
				t.Errorf("%s: the output lacks %q:\n%s", name, w, p.Output())
			}
		}
		said := p.Output()[max(0, strings.Index(p.Output(), "tierq: ")):]
		t.Logf("evidence: %s: %s", name, strings.TrimSpace(strings.ReplaceAll(said, "\n", "\n    ")))
	}
	both := []string{"REDIS_URL: ", "MYSQL_DSN: "}
	refused("a stranger's authority", []string{rediss, mariadb("localhost", "tls=true"), "TIERQ_CA_FILE=" + stranger.File},
		append(both, "unknown authority")...)
	refused("the system's authorities", []string{rediss, mariadb("localhost", "tls=true")},
		append(both, "unknown authority")...)
	refused("another name", []string{strings.Replace(rediss, "localhost", "127.0.0.1", 1),
		mariadb("127.0.0.1", "tls=true"), trust}, append(both, "127.0.0.1")...)
	refused("no TLS in MySQL", []string{rediss, "MYSQL_DSN=" + testkit.SharedMariaDB(t) + "?tls=true", trust},
		"MYSQL_DSN: ", "does not support TLS")
	for query, want := range map[string]string{"tls=skip-verify": "tls=true", "tls=preferred": "tls=true",
		"allowFallbackToPlaintext=true&tls=true": "tls=true"} {
		refused(query, []string{rediss, mariadb("localhost", query), trust}, "MYSQL_DSN: ", want)
	}
	refused("skip_verify", []string{rediss + "?skip_verify=true", mariadb("localhost", "tls=true"), trust},
		"REDIS_URL: skip_verify")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("no certificate in the file", []string{rediss, mariadb("localhost", "tls=true"), "TIERQ_CA_FILE=" + empty},
		"holds no certificate")
	refused("no such file", []string{rediss, mariadb("localhost", "tls=true"), "TIERQ_CA_FILE=" + empty + ".gone"},
		"no such file")

	if err := c.rdb.Do(t.Context(), "CONFIG", "SET", "tls-cert-file", oldCert, "tls-key-file", oldKey).Err(); err != nil {
		t.Fatal(err)
	}
	ca.Sign(t, dir, past, "localhost")
	if _, err := c.db.ExecContext(t.Context(), "FLUSH SSL"); err != nil {
		t.Fatal(err)
	}
	refused("a certificate that is over", []string{rediss, mariadb("localhost", "tls=true"), trust},
		append(both, "expired")...)
}
