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

// Redis starts anew with all that it had: a submit under a new Idempotency-Key does not wait until every old key has
// been offered to it again. The slow line to SQL stands for more keys than a test has time for.
func TestKeyedSubmitsAfterARestartOfRedis(t *testing.T) {
	t.Parallel()
	why := "with the journal on, a restart of Redis refuses keyed submits until all keys were given back"
	testkit.KnownRed(t, why, func(t testing.TB) {
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
		id := accepted(t, keyed("the-first"))
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
		if there := c.rdb.DBSize(t.Context()).Val(); there >= keys {
			t.Fatalf("a new key had to wait for the others: %d of them were there first", keys)
		}
	}, "a new key had to wait for the others")
}

// A worker whose build does not know a job's type leaves the job its retries: another worker may know it.
func TestUnknownTypeSpendsNoRetry(t *testing.T) {
	t.Parallel()
	testkit.KnownRed(t, "a worker that does not know a job's type spends the job's retries", func(t testing.TB) {
		c := newCluster(t)
		api := c.start("TIERQ_ROLES=api,recovery")
		c.bin = testkit.BuildTierq(t) // without the job types of tests
		c.start("TIERQ_ROLES=worker")
		id := api.submit("paid", counting(t.TempDir()+"/runs", 0))
		var j wholeJob
		testkit.Eventually(t, 20*time.Second, "a worker gave it up", func() (bool, string) {
			j = api.job(id)
			return len(j.History) > 0 && j.Status != "PROCESSING", j.Status
		})
		if j.RetryCount > 0 {
			t.Fatalf("the worker that does not know the type spent %d retries", j.RetryCount)
		}
	}, "that does not know the type spent")
}
