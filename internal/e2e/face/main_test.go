package face

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// atOnce is the number of tests that have tabs at the same time. They wait for the pages most of the time, so
// there are more of them than a small machine has cores; on a large machine the other packages need the rest.
const atOnce = "4"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(testkit.Main(m).Run())
}

// alive is the limit for any step. It detects a hang; it does not measure speed.
const alive = 30 * time.Second

const theAdmin = "tq_aaaaaaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// site is one tierq process. It can be stopped and started again with the same address, stores and environment.
type site struct {
	*testkit.Process
	t    testing.TB
	base string // http://address
	key  string // the key that ask sends; "" = none
	env  []string
}

// newSite starts an embedded server that is open to all callers.
func newSite(t testing.TB, env ...string) *site {
	t.Helper()
	port := strconv.Itoa(testkit.FreePort(t))
	s := &site{t: t, base: "http://127.0.0.1:" + port, env: append([]string{
		"TIERQ_ADDR=127.0.0.1:" + port, "TIERQ_DATA_DIR=" + t.TempDir(), "TIERQ_WORKERS=4", "TIERQ_DRAIN_TIMEOUT=2s",
	}, env...)}
	s.start()
	return s
}

// newKeyedSite starts an embedded server that requires keys, because theAdmin is one; newKey makes further keys.
func newKeyedSite(t testing.TB, env ...string) *site {
	t.Helper()
	s := newSite(t, append(env, "TIERQ_ADMIN_KEY="+theAdmin)...)
	s.key = theAdmin
	return s
}

// external is a server with its stores: a Redis of its own, which a test may stop (Kill, Freeze) and start
// (Restart, Thaw), and a database on the MariaDB that all tests share.
type external struct {
	*site
	redis *testkit.Redis
}

func newExternal(t testing.TB, env ...string) *external {
	t.Helper()
	e := &external{redis: testkit.NewRedis(t)}
	e.site = newSite(
		t, append(env, "REDIS_URL="+e.redis.URL(), "MYSQL_DSN="+testkit.SharedMariaDB(t), "TIERQ_INSECURE=on")...,
	)
	return e
}

// start starts the server, and returns when it serves.
func (s *site) start() {
	s.t.Helper()
	s.Process = testkit.StartProcess(s.t, testkit.BuildTierq(s.t), s.env, "serve")
	ctx, cancel := context.WithTimeout(s.t.Context(), alive)
	defer cancel()
	if err := s.WaitOutput(ctx, "this process"); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the server in an orderly way.
func (s *site) stop() {
	s.t.Helper()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), alive)
	defer cancel()
	if code, err := s.WaitExit(ctx); err != nil || code != 0 {
		s.t.Fatalf("it ended with %d, %v:\n%s", code, err, s.Output())
	}
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

var client = &http.Client{
	Timeout:       alive,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask makes a call with the site's key. A body is JSON unless a header says otherwise.
func (s *site) ask(method, path, body string, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// want makes a call that must get this status, and decodes the answer into what into points at. A nil into drops
// the answer.
func (s *site) want(status int, into any, method, path, body string, header ...string) {
	s.t.Helper()
	a := s.ask(method, path, body, header...)
	if a.status != status {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(a.body), into); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, a.body)
		}
	}
}

// submit submits a job that the server must accept, and returns its id.
func (s *site) submit(tier, body string) string {
	s.t.Helper()
	return testkit.Accepted(s.t, func() (int, []byte) {
		a := s.ask(http.MethodPost, "/"+tier+"/submit", body)
		return a.status, []byte(a.body)
	}, func(id string) bool {
		return s.ask(http.MethodGet, "/result/poll?jobId="+id, "").status == http.StatusOK
	})
}

// await waits until a job has a status.
func (s *site) await(id, status string) {
	s.t.Helper()
	testkit.Eventually(s.t, alive, id+" is "+status, func() (bool, string) {
		a := s.ask(http.MethodGet, "/result/poll?jobId="+id, "")
		return strings.Contains(a.body, `"currentJobStatus":"`+status+`"`), a.body
	})
}

// newKey creates an API key; fields are its other members: "role":"read-only".
func (s *site) newKey(fields string) string {
	s.t.Helper()
	var made struct{ Key string }
	s.want(http.StatusCreated, &made, http.MethodPost, "/admin/keys", `{"name":"somebody",`+fields+`}`)
	return made.Key
}

// tune changes fields of a tier's plan.
func (s *site) tune(tier string, fields map[string]any) {
	s.t.Helper()
	var plan map[string]any
	s.want(http.StatusOK, &plan, http.MethodGet, "/admin/tiers/"+tier, "")
	delete(plan, "tier")
	delete(plan, "version")
	maps.Copy(plan, fields)
	body, err := json.Marshal(plan)
	if err != nil {
		s.t.Fatal(err)
	}
	testkit.Eventually(s.t, alive, "the plan is stored", func() (bool, string) { // on a busy machine SQL may be late: 503
		answer := s.ask(http.MethodPut, "/admin/tiers/"+tier, string(body))
		return answer.status == http.StatusOK, fmt.Sprint(answer.status)
	})
}

// login logs in on /login with a key.
func login(tab user, s *site, key string) {
	tab.Open(s.base + "/login")
	tab.Type("input[name=key]", key)
	tab.Press("\r")
	tab.WaitText(".who-name", "", alive)
}

// user is a person with a browser: a testkit.Tab in Chromium, a testkit.FirefoxTab in Firefox. A story for a user
// is tested in both.
type user interface {
	Open(url string)
	Reload()
	URL() string
	Click(selector string)
	Type(selector, text string)
	Press(keys string)
	Text(selector string) string
	WaitText(selector, want string, within time.Duration)
	Eval(expression string, into any)
	View(width, height int, dark bool)
	Allow(parts ...string)
}
