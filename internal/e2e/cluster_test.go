package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // to read the rows that the servers wrote
	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/database/databasetest"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// TestMain runs more tests at once than there are processors, because they wait for servers most of the time.
// Tests that keep the processors busy run one at a time, see heavy.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(6*runtime.GOMAXPROCS(0))); err != nil { // -parallel overrides this
		panic(err)
	}
	os.Exit(testkit.Main(m).Run())
}

var heavies = make(chan struct{}, 2)

// heavy marks a test that keeps the processors busy. Of these tests only two run at a time.
func heavy(t *testing.T) {
	t.Helper()
	heavies <- struct{}{}
	t.Cleanup(func() { <-heavies })
}

// cluster is one Redis and one database with the servers that share them.
type cluster struct {
	t     testing.TB
	redis *testkit.Redis
	dsn   string
	db    *sql.DB
	rdb   *redis.Client
	bin   string
	known string // a part of the audit's findings about a fault that the test itself caused

	partitions int // 0 = one
}

// newCluster starts a Redis of its own, which tests may kill, and takes a fresh database on the shared MariaDB. The
// database has the newest schema.
func newCluster(t testing.TB) *cluster { return clusterWith(t, databasetest.Migrated(t)) }

// emptyCluster is newCluster with a database without tables, which the first server migrates.
func emptyCluster(t testing.TB) *cluster { return clusterWith(t, testkit.SharedMariaDB(t)) }

func clusterWith(t testing.TB, dsn string) *cluster { return clusterOn(t, testkit.NewRedis(t), dsn) }

func clusterOn(t testing.TB, r *testkit.Redis, dsn string) *cluster {
	t.Helper()
	c := &cluster{t: t, redis: r, dsn: dsn, bin: testkit.BuildTierq(t, "failpoint")}
	o, err := redis.ParseURL(c.redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	c.rdb = redis.NewClient(o)
	t.Cleanup(func() { _ = c.rdb.Close() })
	if c.db, err = sql.Open("mysql", dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.db.Close() })
	return c
}

// server is one tierq process.
type server struct {
	*testkit.Process
	t    testing.TB
	base string // http://address; "" without the api role
}

var listening = regexp.MustCompile(`curl -X POST (http://[^/]+)/paid/submit`)

// start starts a server against the cluster's stores and waits until it serves.
func (c *cluster) start(env ...string) *server {
	c.t.Helper()
	return startServer(c.t, c.bin, append([]string{
		"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DRAIN_TIMEOUT=5s",
		"TIERQ_DATA_DIR=" + c.t.TempDir(),
		"TIERQ_INSECURE=on",
	}, env...)...)
}

func startServer(t testing.TB, bin string, env ...string) *server {
	t.Helper()
	s := &server{t: t, Process: testkit.StartProcess(t, bin, env, "serve")}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.WaitOutput(ctx, "this process"); err != nil {
		t.Fatal(err)
	}
	if m := listening.FindStringSubmatch(s.Output()); m != nil {
		s.base = m[1]
	}
	return s
}

// client gives up after 10 s. That is longer than the promise for a submit (2 s), so that a test can measure a
// late answer.
var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 300}}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

func (a answer) code() string { // of an error body
	var e struct {
		ErrorCode string `json:"errorCode"`
	}
	_ = json.Unmarshal(a.body, &e)
	return e.ErrorCode
}

func do(t testing.TB, method, url, body string, header ...string) answer {
	t.Helper()
	a, err := try(method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func try(method, url, body string, header ...string) (answer, error) {
	return tryOn(client, method, url, body, header...)
}

func tryOn(client *http.Client, method, url, body string, header ...string) (answer, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return answer{}, err
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: b.Bytes(), took: time.Since(began)}, nil
}

// submit submits a job that the server must accept, and returns its id.
func (s *server) submit(tier, body string) string {
	s.t.Helper()
	return s.submitWith(tier, body)
}

// submitKeyed is submit with an Idempotency-Key.
func (s *server) submitKeyed(tier, body, key string) string {
	s.t.Helper()
	return s.submitWith(tier, body, "Idempotency-Key", key)
}

func (s *server) submitWith(tier, body string, header ...string) string {
	s.t.Helper()
	return testkit.Accepted(s.t, func() (int, []byte) {
		a := do(s.t, http.MethodPost, s.base+"/"+tier+"/submit", body, header...)
		return a.status, a.body
	}, func(id string) bool {
		return do(s.t, http.MethodGet, s.base+"/result/poll?jobId="+id, "").status == http.StatusOK
	})
}

func accepted(t testing.TB, a answer) string {
	t.Helper()
	var r struct {
		Data struct {
			JobID string `json:"jobId"`
		} `json:"apiResponseData"`
	}
	if err := json.Unmarshal(a.body, &r); err != nil || r.Data.JobID == "" {
		t.Fatalf("not an accepted job: %s", a.body)
	}
	return r.Data.JobID
}

// polled is the answer to a poll.
type polled struct {
	JobID        string          `json:"jobId"`
	Status       string          `json:"currentJobStatus"`
	Tier         string          `json:"jobTier"`
	RetryCount   int             `json:"retryCount"`
	ArrivedAt    time.Time       `json:"arrivedAt"`
	Result       json.RawMessage `json:"result"`
	FailureCause *string         `json:"failureCause"`
}

func (s *server) poll(id string) polled {
	s.t.Helper()
	a := do(s.t, http.MethodGet, s.base+"/result/poll?jobId="+id, "")
	var r struct {
		Data polled `json:"apiResponseData"`
	}
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("poll %s: %d %s", id, a.status, a.body)
	}
	return r.Data
}

func (s *server) await(id, status string, within time.Duration) polled {
	s.t.Helper()
	var p polled
	testkit.Eventually(s.t, within, id+" is "+status, func() (bool, string) {
		p = s.poll(id)
		return p.Status == status, p.Status
	})
	return p
}

// waitFor waits for a line of a server's output.
func (s *server) waitFor(line string, within time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	if err := s.WaitOutput(ctx, line); err != nil {
		s.t.Fatal(err)
	}
}

// terminate sends SIGTERM and returns the exit code and the time until the exit.
func (s *server) terminate(within time.Duration) (code int, took time.Duration) {
	s.t.Helper()
	began := time.Now()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	code, err := s.WaitExit(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return code, time.Since(began)
}

// audit returns the present errors in Redis.
func (c *cluster) audit() []string {
	s, err := queuetest.Read(context.Background(), c.rdb, 0)
	if err != nil {
		return []string{err.Error()}
	}
	return slices.DeleteFunc(s.Audit(),
		func(wrong string) bool { return c.known != "" && strings.Contains(wrong, c.known) })
}

// settled waits until every id has its one outcome in SQL and Redis is empty, then audits. It returns the
// outcomes.
func (c *cluster) settled(within time.Duration, ids ...string) map[string]string {
	c.t.Helper()
	var outcomes map[string]string
	testkit.Eventually(c.t, within, fmt.Sprintf("%d jobs are in SQL and acknowledged", len(ids)), func() (bool, string) {
		// The rows, and then what Redis has, are read only when there are enough of them: reading all of it in a loop
		// would take more time than the servers' work.
		if ended := c.ended(); ended < len(ids) {
			return false, fmt.Sprintf("%d outcomes", ended)
		}
		outcomes = c.outcomes()
		missing := 0
		for _, id := range ids {
			if outcomes[id] == "" {
				missing++
			}
		}
		if missing > 0 {
			return false, fmt.Sprintf("%d without an outcome", missing)
		}
		s, err := queuetest.Read(context.Background(), c.rdb, 0)
		if err != nil {
			return false, err.Error()
		}
		waiting := 0
		for _, set := range s.Sets {
			waiting += len(set)
		}
		return waiting == 0, fmt.Sprintf("%d still in a set of Redis", waiting)
	})
	for _, wrong := range c.audit() {
		c.t.Error("audit: " + wrong)
	}
	var results, failed int
	c.row(`SELECT COUNT(*) FROM job_results`, &results)
	c.row(`SELECT COUNT(*) FROM failed_jobs`, &failed)
	var ended int // one end per generation
	c.row(`SELECT COUNT(*) FROM `+endings+` WHERE outcome <> 'CANCELLED'`, &ended)
	if results+failed != ended {
		c.t.Errorf("%d results and %d dead letters for %d outcomes", results, failed, ended)
	}
	var generations int
	c.row(`SELECT COUNT(*) FROM (
		SELECT DISTINCT job_id, generation FROM `+endings+` WHERE outcome <> 'CANCELLED') AS each_one`,
		&generations)
	if generations != ended {
		c.t.Errorf("%d outcomes of %d generations", ended, generations)
	}
	return outcomes
}

// endings are the outcomes that SQL has. The row of a completed job is its result, that of any other job is an outcome.
// Databases of earlier versions also have outcomes of completed jobs, which this leaves out.
const endings = `(SELECT job_id, generation, 'COMPLETED' AS outcome, retry_count, trace_id FROM job_results UNION ALL
	SELECT job_id, generation, outcome, retry_count, trace_id FROM job_outcomes WHERE outcome <> 'COMPLETED') AS ended`

// ended counts the outcomes that SQL has; 0 while SQL is down or has no tables yet.
func (c *cluster) ended() (n int) {
	if err := c.db.QueryRow(`SELECT COUNT(*) FROM ` + endings).Scan(&n); err != nil {
		return 0
	}
	return n
}

func (c *cluster) outcomes() map[string]string {
	rows, err := c.db.Query(`SELECT job_id, outcome FROM ` + endings + ` ORDER BY job_id, generation`)
	if err != nil {
		return nil // SQL is down, or its tables do not exist yet
	}
	defer func() { _ = rows.Close() }()
	outcomes := map[string]string{}
	for rows.Next() {
		var id, outcome string
		if err := rows.Scan(&id, &outcome); err != nil {
			c.t.Fatal(err)
		}
		outcomes[id] = outcome
	}
	if rows.Err() != nil {
		return nil
	}
	return outcomes
}

func (c *cluster) row(query string, into ...any) {
	c.t.Helper()
	if err := c.db.QueryRow(query).Scan(into...); err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
}

// plan changes a tier's plan in Redis. Servers that start later read it, and running servers within a second.
func (c *cluster) plan(tier string, fields ...any) {
	c.t.Helper()
	if err := c.rdb.HSet(c.t.Context(), "{tierq}:system:config:tier:"+tier, fields...).Err(); err != nil {
		c.t.Fatal(err)
	}
}

// leased reports whether a worker holds the job now: the job has a deadline in processing:by-heartbeat.
func (c *cluster) leased(id string) bool {
	return c.rdb.ZScore(c.t.Context(), "{tierq:0}:processing:by-heartbeat", id).Err() == nil
}

// rewrite replaces a job's payload by another one with the same number of bytes, so that its head and the counted
// bytes stay right.
func (c *cluster) rewrite(id, payload string) {
	c.t.Helper()
	had := strings.SplitN(c.record(id), "\n", 3)[2]
	if len(payload) > len(had) || !strings.HasSuffix(payload, "}") {
		c.t.Fatalf("%s does not fit in place of %s", payload, had)
	}
	payload = payload[:len(payload)-1] + strings.Repeat(" ", len(had)-len(payload)) + "}"
	c.edit("job", id, withPayload(payload))
}

// executions reads the file of COUNT jobs: per job the marks "attempt pid start|end", in order.
func executions(t testing.TB, file string) (order []string, marks map[string][]string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	marks = map[string][]string{}
	for line := range strings.Lines(string(b)) {
		id, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasSuffix(mark, " start") {
			order = append(order, id)
		}
		marks[id] = append(marks[id], mark)
	}
	return order, marks
}

func counting(file string, sleepMs int) string {
	return fmt.Sprintf(`{"type":"COUNT","payload":{"file":%q,"sleepMs":%d}}`, file, sleepMs)
}
