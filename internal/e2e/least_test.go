package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// least returns the rights in Redis and SQL that docs/SECURITY.md lists.
func least(t *testing.T) (acl []string, grants []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^user tierq (on .*)$`).FindSubmatch(page)
	block := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(page)
	if line == nil || block == nil {
		t.Fatal("docs/SECURITY.md has no line of rights for Redis, or none for SQL")
	}
	for s := range strings.Lines(string(block[1])) {
		grants = append(grants, strings.TrimSuffix(strings.TrimSpace(s), ";"))
	}
	return strings.Fields(string(line[1])), grants
}

// restricted creates the users of the docs on a cluster's own stores. It returns a server's settings with the user
// for running, and those with the user that may create tables.
func (c *cluster) restricted(acl, grants []string) (run, schema []string) {
	c.t.Helper()
	ctx := c.t.Context()
	setUser := []any{"ACL", "SETUSER", "tierq", "reset"}
	for _, rule := range acl {
		setUser = append(setUser, strings.ReplaceAll(rule, "SECRET", "s3cret"))
	}
	if err := c.rdb.Do(ctx, setUser...).Err(); err != nil {
		c.t.Fatal(err)
	}
	own, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		c.t.Fatal(err)
	}
	suffix := own.DBName[strings.LastIndexByte(own.DBName, '_'):] + fmt.Sprint(os.Getpid())
	users := strings.NewReplacer("'tierq'", "'tierq"+suffix+"'", "'tierq_schema'", "'tierqs"+suffix+"'", "tierq.*",
		"`"+own.DBName+"`.*", "SECRET", "s3cret")
	for _, g := range grants {
		if _, err := c.db.ExecContext(ctx, users.Replace(g)); err != nil {
			c.t.Fatalf("%s: %v", users.Replace(g), err)
		}
	}
	c.t.Cleanup(func() {
		if _, err := c.db.ExecContext(context.Background(),
			users.Replace("DROP USER 'tierq'@'%', 'tierq_schema'@'%'")); err != nil {
			c.t.Error(err)
		}
	})
	dsn := func(user string) string {
		d := own.Clone()
		d.User, d.Passwd = user+suffix, "s3cret"
		return "MYSQL_DSN=" + d.FormatDSN()
	}
	redis := "REDIS_URL=redis://tierq:s3cret@" + c.redis.Addr() + "/0"
	return []string{redis, dsn("tierq")}, []string{redis, dsn("tierqs")}
}

// All of tierq works with the rights in the docs, and none of these rights is superfluous.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	ctx := t.Context()
	acl, grants := least(t)
	run, schema := c.restricted(acl, grants)
	for _, prepare := range [][]any{{"ACL", "LOG", "RESET"}, {"CONFIG", "RESETSTAT"}} {
		if err := c.rdb.Do(ctx, prepare...).Err(); err != nil {
			t.Fatal(err)
		}
	}

	// Tables are missing: the user that must not create them cannot start. The user that may create them starts.
	p := testkit.StartProcess(
		t, c.bin,
		append([]string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(), "TIERQ_JOURNAL=on"}, run...),
		"serve",
	)
	if code, err := p.WaitExit(ctx); err != nil || code != 1 || !strings.Contains(p.Output(), "MYSQL_DSN: ") ||
		!strings.Contains(p.Output(), "CREATE command denied") {
		t.Errorf("with tables missing: exit %d, %v, %s", code, err, p.Output())
	}
	c.start(append(schema, "TIERQ_ROLES=recovery", "TIERQ_JOURNAL=on")...).terminate(20 * time.Second)

	settings := slices.Concat(run, outward, []string{"TIERQ_JOURNAL=on"})
	front := c.start(append(settings, "TIERQ_ROLES=api,recovery", "TIERQ_ADDRESS_RATE=1000000")...)
	worker := c.start(append(settings, "TIERQ_ROLES=worker")...)
	front.tune("PAID", map[string]any{"backoff": backoff(50)})
	doomed := c.liveLeast(front)
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	waiting := front.submit("public", "{}")
	if a := do(t, http.MethodGet, front.base+"/api/jobs/"+waiting+"/why", ""); a.status != http.StatusOK ||
		!strings.Contains(string(a.body), "PENDING") {
		t.Errorf("why: %d %s", a.status, a.body)
	}
	// The silence is long enough for the listener to check its connection to Redis.
	do(t, http.MethodGet, front.base+"/result/poll?wait=4&jobId="+doomed, "")
	c.start(append(settings, "TIERQ_ROLES=worker")...)
	front.await(doomed, "COMPLETED", detected+10*time.Second)
	c.forgets(front)
	c.quiet(20 * time.Second)
	c.runsShort()
	front.closes()

	c.refusals(acl)
	rows, err := c.db.QueryContext(ctx,
		"SELECT grantee, privilege_type FROM information_schema.schema_privileges WHERE table_schema = DATABASE()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	given := map[string][]string{}
	for rows.Next() {
		var user, right string
		if err := rows.Scan(&user, &right); err != nil {
			t.Fatal(err)
		}
		given[user] = append(given[user], right)
	}
	if err := rows.Err(); err != nil || len(given) != 2 {
		t.Errorf("%v, %v", given, err)
	}
	for user, rights := range given {
		t.Logf("evidence: %s has %s and nothing else", user, strings.Join(rights, ", "))
	}
}

// liveLeast sends every kind of job through its life. The returned job is running on the worker.
func (c *cluster) liveLeast(s *server) (running string) {
	t := c.t
	r := newReceiver(t, nil)
	var followed *http.Response
	for _, tier := range []string{"paid", "unpaid", "public"} {
		id := s.submit(tier, `{"payload":{"steps":[{"type":"SLEEP","durationMs":300}]}}`)
		if followed == nil {
			var err error
			if followed, err = client.Get(s.base + "/api/jobs/" + id + "/events"); err != nil {
				t.Fatal(err)
			}
		}
		a := do(t, http.MethodGet, s.base+"/result/poll?wait=8&jobId="+id, "")
		if !strings.Contains(string(a.body), "COMPLETED") {
			t.Errorf("%s: %s", tier, a.body)
		}
	}
	defer followed.Body.Close()
	for lines := bufio.NewScanner(followed.Body); lines.Scan() && !strings.Contains(lines.Text(), "COMPLETED"); {
	}
	dead := s.submit("paid", fmt.Sprintf(`{"payload":{"steps":[{"type":"FAIL","message":"no"}]},"maxRetries":1,`+
		`"callbackUrl":%q}`, r.URL))
	s.await(dead, "FAILED", 15*time.Second)
	c.counts(1, "SELECT COUNT(*) FROM failed_jobs WHERE job_id = '"+dead+"'")
	s.requeue(dead)
	c.counts(2, "SELECT COUNT(*) FROM failed_jobs WHERE job_id = '"+dead+"'")
	delayed := s.submit("unpaid", `{"delaySeconds":1}`)
	cancelled, later := s.submit("paid", `{"delaySeconds":3600}`), s.submit("paid", `{"delaySeconds":3600}`)
	wants(t, do(t, http.MethodDelete, s.base+"/api/jobs/"+cancelled, ""), http.StatusOK, "")
	first := s.submitKeyed("paid", "{}", "the-one")
	if again := s.submitKeyed("paid", "{}", "the-one"); again != first {
		t.Errorf("the key made another job: %s after %s", again, first)
	}
	wants(t, s.ask("paid", `{"maxRetries":1}`, "Idempotency-Key", "the-one"), http.StatusUnprocessableEntity,
		"IDEMPOTENCY_MISMATCH")
	s.await(delayed, "COMPLETED", 15*time.Second)
	for _, path := range []string{"/readyz?verbose", "/metrics", "/api/stats", "/admin/jobs", "/jobs/dead",
		"/jobs/" + dead, "/admin/dead/export"} {
		if a := do(t, http.MethodGet, s.base+path, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	wants(t, do(t, http.MethodPut, s.base+"/admin/tiers/PAID", plan(s), "If-Match", `"99"`), http.StatusPreconditionFailed,
		"PRECONDITION_FAILED")
	stopped := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":30000}]}}`)
	s.await(stopped, "PROCESSING", 10*time.Second)
	c.edit("leases", stopped, queuetest.WithWord("leases", "max_retries", "77")) // an error for the audit to repair
	c.rdb.PExpire(t.Context(), queue.JobKey(job.ID(later)), time.Hour)
	if text, code := c.doctor(s, "--repair"); code != 0 || !strings.Contains(text, "lease") ||
		!strings.Contains(text, "ttl") {
		t.Errorf("the doctor: %d\n%s", code, text)
	}
	do(t, http.MethodDelete, s.base+"/api/jobs/"+later, "")
	do(t, http.MethodDelete, s.base+"/api/jobs/"+stopped, "")
	s.await(stopped, "CANCELLED", 10*time.Second)
	running = s.submit("public", `{"payload":{"steps":[{"type":"SLEEP","durationMs":2000}]}}`)
	s.await(running, "PROCESSING", 10*time.Second)
	return running
}

// forgets makes Redis lose everything while a job waits, and checks that the job is restored from the journal.
func (c *cluster) forgets(s *server) {
	c.t.Helper()
	waiting := s.submit("paid", `{"delaySeconds":3}`)
	if err := c.rdb.FlushAll(c.t.Context()).Err(); err != nil {
		c.t.Fatal(err)
	}
	testkit.Eventually(c.t, 20*time.Second, "the journal gives it back", func() (bool, string) {
		return c.has(waiting), "it is not in Redis"
	})
	s.await(waiting, "COMPLETED", 20*time.Second)
}

// runsShort makes Redis short of memory, and checks that the slices of ended jobs leave it.
func (c *cluster) runsShort() {
	c.t.Helper()
	c.ageEnds(10 * time.Minute)
	c.limitMemory(c.usedMemory() / 10 * 11)
	testkit.Eventually(c.t, 20*time.Second, "Redis forgets the ended jobs", func() (bool, string) {
		left, err := c.rdb.Keys(c.t.Context(), "{tierq:0}:ended:*").Result()
		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	})
	c.limitMemory(0)
}

// closes creates keys, after which the server requires keys, and uses every kind of access.
func (s *server) closes() {
	s.t.Helper()
	bearer := ""
	for _, body := range []string{`{"name":"you","role":"admin"}`,
		`{"name":"shop","role":"submit","tiers":["PUBLIC"],"rate":100}`} {
		header := []string{"Authorization", bearer}
		if bearer == "" { // the server is still open
			header = nil
		}
		a := do(s.t, http.MethodPost, s.base+"/admin/keys", body, header...)
		made := regexp.MustCompile(`tq_[a-z2-7]{16}_[A-Za-z0-9_-]{43}`).Find(a.body)
		if a.status != http.StatusCreated || made == nil {
			s.t.Fatalf("%d %s", a.status, a.body)
		}
		bearer = "Bearer " + string(made)
	}
	for tier, want := range map[string]int{"public": http.StatusAccepted, "paid": http.StatusForbidden} {
		if a := s.ask(tier, "{}", "Authorization", bearer); a.status != want {
			s.t.Errorf("%s with a key for PUBLIC: %d %s", tier, a.status, a.body)
		}
	}
	testkit.Eventually(s.t, 10*time.Second, "nobody comes in without a key", func() (bool, string) {
		a := s.ask("public", "{}")
		return a.status == http.StatusUnauthorized, fmt.Sprint(a.status)
	})
}

// plan returns PAID's present plan.
func plan(s *server) string {
	p := get[map[string]any](s.t, s.base+"/admin/tiers/PAID")
	delete(p, "tier")
	delete(p, "version")
	body, err := json.Marshal(p)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(body)
}

// refusals checks that Redis refused the server nothing, that it would refuse what it should, and that the server
// used every allowed command.
func (c *cluster) refusals(acl []string) {
	t, ctx := c.t, c.t.Context()
	log, err := c.rdb.Do(ctx, "ACL", "LOG").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range log {
		if !strings.Contains(fmt.Sprint(entry), "object:config|get") { // allowed to fail: the server asks INFO instead
			t.Errorf("ACL LOG: %v", entry)
		}
	}
	rare := []string{
		"lpush",   // a stopping process passes on a doorbell's token that it has just got
		"unwatch", // only if two processes change one plan at the same moment
	}
	stats := c.rdb.InfoMap(ctx, "commandstats").Item
	for _, rule := range acl {
		if command, ok := strings.CutPrefix(rule, "+"); ok && !slices.Contains(rare, command) &&
			stats("Commandstats", "cmdstat_"+command) == "" {
			t.Errorf("nothing called %s: it is not needed", strings.ToUpper(command))
		}
	}
	for _, try := range [][]any{
		{"FLUSHALL"}, {"CONFIG", "GET", "requirepass"}, {"KEYS", "*"}, {"ACL", "LIST"}, {"DEBUG", "SLEEP", "0"},
		{"REPLICAOF", "NO", "ONE"}, {"SAVE"},
		{"MODULE", "LIST"}, {"SCRIPT", "FLUSH"}, {"GET", "sessions:1"}, {"DEL", "{other}:queue"}, {"PUBLISH", "news", "x"},
	} {
		said, err := c.rdb.Do(ctx, append([]any{"ACL", "DRYRUN", "tierq"}, try...)...).Text()
		if err != nil || !strings.Contains(said, "no permissions") && !strings.Contains(said, "no access") {
			t.Errorf("%v: %q, %v", try, said, err)
		}
		t.Logf("evidence: ACL DRYRUN tierq %v: %s", try, said)
	}
}
