package e2e

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

func contains(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

// SIGTERM with running jobs: readiness says no first, the short job finishes, the long one is released unharmed,
// and the process exits within its time limit.
func TestDrain(t *testing.T) {
	t.Attr("proves", "F09 S2-P4")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_DRAIN_TIMEOUT=2s")
	other := c.start("TIERQ_ROLES=api")
	file := filepath.Join(t.TempDir(), "runs")
	short := s.submit("paid", counting(file, 1_500))
	long := s.submit("paid", counting(file, 30_000))
	testkit.Eventually(t, 5*time.Second, "both are running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 2, ""
	})
	began := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, "readiness says no while the server still answers", func() (bool, string) {
		a, err := try(http.MethodGet, s.base+"/readyz", "")
		if err != nil {
			return false, err.Error()
		}
		return a.status == http.StatusServiceUnavailable, string(a.body)
	})
	code, err := s.WaitExit(t.Context())
	// A stop takes TIERQ_DRAIN_TIMEOUT and 2 s; the rest is slack for a busy machine.
	const grace, bound, slack = 2 * time.Second, 2 * time.Second, time.Second
	if took := time.Since(began); err != nil || code != 0 || took > grace+bound+slack {
		t.Errorf("exit %d after %s, %v", code, took, err)
	}
	if p := other.poll(short); p.Status != "COMPLETED" {
		t.Errorf("the short job is %s", p.Status)
	}
	if p := other.poll(long); p.Status != "PENDING" || p.RetryCount != 0 {
		t.Errorf("the long job is %s with %d retries spent", p.Status, p.RetryCount)
	}
	_, marks := executions(t, file)
	if len(marks[short]) != 2 || len(marks[long]) != 1 {
		t.Errorf("runs: %v", marks)
	}
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
}

// SIGINT drains as SIGTERM does; a second signal ends the process at once.
func TestSecondSignal(t *testing.T) {
	t.Attr("proves", "F09")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_DRAIN_TIMEOUT=1m")
	s.submit("paid", counting(filepath.Join(t.TempDir(), "runs"), 30_000))
	if err := s.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.waitFor("draining", 5*time.Second)
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	code, err := s.WaitExit(t.Context())
	if err != nil || code == 0 || time.Since(began) > 10*time.Second { // the drain would take 30 s
		t.Errorf("exit %d after %s, %v", code, time.Since(began), err)
	}
}

// Bad input gets the right error code in the common form, and leaves no key in Redis and no row in SQL.
func TestBadInput(t *testing.T) {
	t.Attr("proves", "S2-E7 S2-P13")
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api")
	testkit.Eventually(t, 10*time.Second, "the process has registered", func() (bool, string) {
		return c.rdb.Exists(t.Context(), "{tierq}:workers").Val() == 1, ""
	})
	before, err := c.rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	const form, js = "application/x-www-form-urlencoded", "application/json"
	for _, tc := range []struct {
		name, method, path, body, contentType string
		status                                int
		code                                  string
	}{
		{"malformed JSON", "POST", "/paid/submit", `{"type":`, js, 400, "INVALID_REQUEST"},
		{"not an object", "POST", "/paid/submit", `[1]`, js, 400, "INVALID_REQUEST"},
		{"trailing data", "POST", "/paid/submit", `{} {}`, js, 400, "INVALID_REQUEST"},
		{"duplicate key", "POST", "/paid/submit", `{"type":"SIMULATION","type":"SIMULATION"}`, js, 400, "INVALID_REQUEST"},
		{"unknown field", "POST", "/paid/submit", `{"priority":1}`, js, 400, "INVALID_REQUEST"},
		{"delay and runAt", "POST", "/paid/submit", `{"delaySeconds":1,"runAt":"2030-01-01T00:00:00Z"}`, js, 400,
			"INVALID_REQUEST"},
		{"maxRetries raised", "POST", "/public/submit", `{"maxRetries":9}`, js, 400, "INVALID_REQUEST"},
		{"unknown type", "POST", "/paid/submit", `{"type":"NOPE"}`, js, 422, "UNKNOWN_JOB_TYPE"},
		{"unknown step", "POST", "/paid/submit", `{"payload":{"steps":[{"type":"DANCE"}]}}`, js, 422, "INVALID_PAYLOAD"},
		{"wrong content type", "POST", "/paid/submit", `{}`, form, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"payload too large", "POST", "/paid/submit", `{"payload":"` + strings.Repeat("x", 64<<10) + `"}`, js, 413,
			"PAYLOAD_TOO_LARGE"},
		{"body too large", "POST", "/paid/submit", `{"payload":"` + strings.Repeat("x", 1<<20) + `"}`, js, 413,
			"PAYLOAD_TOO_LARGE"},
		{"unknown tier", "POST", "/gold/submit", `{}`, js, 404, "UNKNOWN_TIER"},
		{"tier in capitals A10", "POST", "/PAID/submit", `{}`, js, 404, "UNKNOWN_TIER"},
		{"tier with a NUL A10", "POST", "/paid%00/submit", `{}`, js, 404, "UNKNOWN_TIER"},
		{"wrong method", "GET", "/paid/submit", ``, js, 405, "METHOD_NOT_ALLOWED"},
		{"wrong method on poll", "POST", "/result/poll", `{}`, js, 405, "METHOD_NOT_ALLOWED"},
		{"bad id", "GET", "/result/poll?jobId=123", ``, js, 400, "INVALID_REQUEST"},
		{"no id", "GET", "/result/poll", ``, js, 400, "INVALID_REQUEST"},
		{"unknown id", "GET", "/result/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b700", ``, js, 404, "JOB_NOT_FOUND"},
		{"another partition's id", "GET", "/result/poll?jobId=019de340-01fe-7a58-be69-567cd7d6b7d4", ``, js, 404,
			"JOB_NOT_FOUND"},
		{"unknown route", "GET", "/nowhere", ``, js, 404, "NOT_FOUND"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := do(t, tc.method, s.base+tc.path, tc.body, "Content-Type", tc.contentType)
			if a.status != tc.status || a.code() != tc.code {
				t.Errorf("%d %s, want %d %s: %s", a.status, a.code(), tc.status, tc.code, a.body)
			}
			if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, "application/problem+json") {
				t.Errorf("Content-Type %q", got)
			}
			for _, member := range []string{`"title"`, `"status"`, `"detail"`, `"message"`, `"timestamp"`, `"traceId"`} {
				if !contains(a.body, member) {
					t.Errorf("no %s in %s", member, a.body)
				}
			}
		})
	}
	after, err := c.rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("keys before %v, after %v", before, after)
	}
	var rows int
	c.row(`SELECT (SELECT COUNT(*) FROM `+endings+`) + (SELECT COUNT(*) FROM failed_jobs)`, &rows)
	if rows != 0 {
		t.Errorf("%d rows", rows)
	}
}

// An embedded server that stops writes all outcomes to SQL first, because its Redis ends with it.
func TestEmbeddedStopKeepsEndings(t *testing.T) {
	t.Attr("proves", "F09")
	t.Parallel()
	bin := testkit.BuildTierq(t, "failpoint")
	env := []string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir()}
	s := startServer(t, bin, env...)
	dead := s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":1500},{"type":"FAIL",`+
		`"message":"boom"}]},"maxRetries":0}`)
	file := filepath.Join(t.TempDir(), "runs")
	done := s.submit("paid", counting(file, 1500))
	// The status PROCESSING would be too early: the claim is journaled before its handler starts.
	testkit.Eventually(t, 5*time.Second, "both run", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, ""
	})
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Fatalf("exit %d", code)
	}
	s = startServer(t, bin, env...)
	if p := s.poll(dead); p.Status != "FAILED" || p.FailureCause == nil || *p.FailureCause != "HANDLER_ERROR" {
		t.Errorf("the dead letter: %+v", p)
	}
	if p := s.poll(done); p.Status != "COMPLETED" {
		t.Errorf("the result: %+v", p)
	}
}

// A wrong setting that no retry can mend ends the start at once, and the message names the setting.
func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	user, rest, _ := strings.Cut(c.dsn, "@")
	evicting := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru")
	for name, tc := range map[string]struct{ env, says string }{
		"wrong MySQL password":     {"MYSQL_DSN=" + strings.Split(user, ":")[0] + ":wrong@" + rest, "MYSQL_DSN"},
		"no such database":         {"MYSQL_DSN=" + c.dsn + "_nowhere", "MYSQL_DSN"},
		"another set-up F59":       {"TIERQ_CAPACITY=77", "TIERQ_CAPACITY"},
		"another journal F59":      {"TIERQ_JOURNAL=on", "TIERQ_JOURNAL is on here and off in Redis"},
		"a policy that evicts F23": {"REDIS_URL=" + evicting.URL(), "set maxmemory-policy noeviction"},
	} {
		t.Run(name, func(t *testing.T) {
			c := *c
			c.t = t
			if strings.HasSuffix(name, "F59") {
				c.start()
			}
			c.refused(tc.env, tc.says)
		})
	}
}

// refused starts a server that must exit at once with a message that contains says.
func (c *cluster) refused(env, says string) {
	c.t.Helper()
	began := time.Now()
	p := testkit.StartProcess(c.t, c.bin, []string{
		"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + c.t.TempDir(),
		"TIERQ_INSECURE=on", env,
	}, "serve")
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if code, err := p.WaitExit(ctx); err != nil || code != 1 || !strings.Contains(p.Output(), says) {
		c.t.Errorf("exit %d after %s, %v: %s", code, time.Since(began), err, p.Output())
	}
}

// After Redis has lost everything, the running servers write their plans and their configuration again. A server
// with a different configuration still cannot start.
func TestRedisLostEverything(t *testing.T) {
	t.Attr("proves", "F19 F52 F59")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	if err := c.rdb.FlushAll(t.Context()).Err(); err != nil { // allowed: the server belongs to this test
		t.Fatal(err)
	}
	testkit.Eventually(t, 5*time.Second, "plans and set-up are there again", func() (bool, string) {
		keys := c.rdb.Keys(t.Context(), "{tierq}:system:config*").Val()
		return len(keys) == 5 && c.rdb.HGet(t.Context(), "{tierq}:system:config", "capacity").Val() == "10000",
			strings.Join(keys, " ")
	})
	c.refused("TIERQ_CAPACITY=77", "TIERQ_CAPACITY")
	s.await(s.submit("paid", ""), "COMPLETED", 5*time.Second)
}
