package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/testkit"
)

// Redis restarts with all its data. A submit under a new Idempotency-Key does not wait until every old key has
// been checked against Redis again. A slow line to SQL simulates more keys than the test has time for.
func TestKeyedSubmitsAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cfg, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		t.Fatal(err)
	}
	line := testkit.NewTCPProxy(t, cfg.Addr)
	cfg.Addr = line.Addr()
	s := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on", "MYSQL_DSN="+cfg.FormatDSN())
	keyed := func(key string) answer {
		return do(t, http.MethodPost, s.base+"/paid/submit", `{"delaySeconds":3600}`, "Idempotency-Key", key)
	}
	id := s.submitKeyed("paid", `{"delaySeconds":3600}`, "the-first")
	const keys, atOnce = 12_000, 2_000
	for n := 0; n < keys; n += atOnce {
		rows := make([]string, atOnce)
		for i := range rows {
			rows[i] = fmt.Sprintf("('%032x', '%032x', '%s', NOW(6) + INTERVAL 1 DAY)", n+i, 0, id)
		}
		insert := "INSERT INTO idempotency_keys (idem_key, body, job_id, expires_at) VALUES " + strings.Join(rows, ", ")
		if _, err := c.db.Exec(insert); err != nil {
			t.Fatal(err)
		}
	}
	line.SetWeather(testkit.Weather{Latency: 20 * time.Millisecond})
	if err := c.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 60*time.Second, "a submit under a new key is accepted", func() (bool, string) {
		a := keyed("the-second")
		return a.status == http.StatusAccepted, fmt.Sprint(a.status)
	})
	if again := s.submitKeyed("paid", `{"delaySeconds":3600}`, "the-first"); again != id {
		t.Errorf("the old key stands for %s, first for %s", again, id)
	}
	if there := c.rdb.DBSize(t.Context()).Val(); there >= keys {
		t.Fatalf("a new key had to wait for the others: %d of them were there first", keys)
	}
}
