package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// madeKey is the API's answer to the creation or rotation of a key.
type madeKey struct{ ID, Key string }

// asks makes a call with a key; "" = without one.
func (s *server) asks(key, method, path, body string) answer {
	s.t.Helper()
	var header []string
	if key != "" {
		header = []string{"Authorization", "Bearer " + key}
	}
	return do(s.t, method, s.base+path, body, header...)
}

func (s *server) makeKey(by, method, path, body string) (k madeKey) {
	s.t.Helper()
	a := s.asks(by, method, path, body)
	if err := json.Unmarshal(a.body, &k); err != nil || a.status != http.StatusCreated && a.status != http.StatusOK ||
		k.Key == "" {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return k
}

// soon waits until every server gives this answer for a key ("" = none): servers read the keys from SQL once a
// second.
func soon(t *testing.T, key string, status int, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		testkit.Eventually(t, 10*time.Second, fmt.Sprintf("%d from %s", status, s.base), func() (bool, string) {
			a := s.asks(key, http.MethodGet, "/jobs/dead", "")
			return a.status == status, fmt.Sprintf("%d %s", a.status, a.body)
		})
	}
}

const (
	adminKey  = `{"name":"boss","role":"admin"}`
	submitKey = `{"name":"ci","role":"submit"}`
)

// The first key, created over the open API, makes every process of the cluster require keys for good. A revoked
// key is no longer valid.
func TestFirstKeyCloses(t *testing.T) {
	t.Attr("proves", "A04 S2-G9")
	t.Parallel()
	c := newCluster(t)
	a, b := c.start("TIERQ_ROLES=api"), c.start("TIERQ_ROLES=api")
	for _, s := range []*server{a, b} {
		if !strings.Contains(s.Output(), "open: every caller on this machine may do everything; tierq keys create") {
			t.Errorf("the banner does not say that it is open:\n%s", s.Output())
		}
		soon(t, "", http.StatusOK, s)
	}
	boss := a.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	wants(t, a.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusUnauthorized, "UNAUTHORIZED") // this process at once
	soon(t, "", http.StatusUnauthorized, b)
	soon(t, boss.Key, http.StatusOK, a, b)

	ci := b.makeKey(boss.Key, http.MethodPost, "/admin/keys", submitKey)
	soon(t, ci.Key, http.StatusOK, a, b)
	for _, path := range []string{"/livez", "/readyz", "/docs"} {
		if got := b.asks("", http.MethodGet, path, "").status; got != http.StatusOK {
			t.Errorf("%s without a key: %d", path, got)
		}
	}
	wants(t, b.asks("", http.MethodPost, "/paid/submit", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wants(t, do(t, http.MethodGet, b.base+"/jobs/dead?key="+ci.Key+"&token="+ci.Key, ""), http.StatusUnauthorized,
		"UNAUTHORIZED")

	for _, k := range []madeKey{ci, boss} {
		if got := a.asks(boss.Key, http.MethodDelete, "/admin/keys/"+k.ID, ""); got.status != http.StatusNoContent {
			t.Fatalf("%d %s", got.status, got.body)
		}
		soon(t, k.Key, http.StatusUnauthorized, a, b)
	}
	third := c.start("TIERQ_ROLES=api")
	soon(t, "", http.StatusUnauthorized, a, b, third)
	var stored, changes int
	c.row("SELECT COUNT(*) FROM api_keys WHERE revoked_at IS NOT NULL AND LENGTH(hash) = 32", &stored)
	c.counts(4, "SELECT COUNT(*) FROM changes WHERE outcome = 'done' AND action LIKE 'key.%'")
	c.row("SELECT COUNT(*) FROM changes WHERE CONCAT_WS(' ', target, before_json, after_json) LIKE '%tq!_%' ESCAPE '!'",
		&changes)
	if stored != 2 || changes != 0 {
		t.Errorf("%d keys are stored, %d changes name a secret", stored, changes)
	}
}

// While SQL is frozen, known keys stay valid, and unknown ones are refused.
func TestKeysWhileSQLIsFrozen(t *testing.T) {
	t.Attr("proves", "A04")
	t.Parallel()
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	s := c.start("TIERQ_ROLES=api")
	boss := s.makeKey("", http.MethodPost, "/admin/keys", adminKey)
	ci := s.makeKey(boss.Key, http.MethodPost, "/admin/keys", submitKey)
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		a := s.asks(ci.Key, http.MethodPost, "/paid/submit", "")
		if a.status != http.StatusAccepted || a.took > 3*time.Second {
			t.Fatalf("%d after %v: %s", a.status, a.took, a.body)
		}
		wants(t, s.asks(theAdmin, http.MethodPost, "/paid/submit", ""), http.StatusUnauthorized, "UNAUTHORIZED")
		<-time.After(200 * time.Millisecond)
	}
	if err := m.Thaw(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, "a key can be revoked", func() (bool, string) {
		a := s.asks(boss.Key, http.MethodDelete, "/admin/keys/"+ci.ID, "")
		return a.status == http.StatusNoContent, string(a.body)
	})
	soon(t, ci.Key, http.StatusUnauthorized, s)
}

// Both secrets are valid while a key is rotated, and the key keeps its jobs. A key that expires is no longer
// valid.
func TestRotationAndExpiry(t *testing.T) {
	t.Attr("proves", "A04")
	t.Parallel()
	e := newEmbedded(t, "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_WORKERS=1")
	e.start()
	s := e.server
	if !strings.Contains(s.Output(), "only with an API key") {
		t.Errorf("the banner does not say that it is closed:\n%s", s.Output())
	}
	first := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", submitKey)
	a := s.asks(first.Key, http.MethodPost, "/paid/submit", "")
	path := "/result/poll?jobId=" + a.header.Get("Location")[strings.Index(a.header.Get("Location"), "=")+1:]
	second := s.makeKey(theAdmin, http.MethodPost, "/admin/keys/"+first.ID+"/rotate", `{"graceSeconds":60}`)
	if second.ID != first.ID || second.Key == first.Key {
		t.Errorf("%+v became %+v", first, second)
	}
	for _, k := range []madeKey{first, second} {
		wants(t, s.asks(k.Key, http.MethodGet, path, ""), http.StatusOK, "")
	}
	third := s.makeKey(theAdmin, http.MethodPost, "/admin/keys/"+first.ID+"/rotate", `{"graceSeconds":0}`)
	wants(t, s.asks(third.Key, http.MethodGet, path, ""), http.StatusOK, "")
	for _, k := range []madeKey{first, second} {
		soon(t, k.Key, http.StatusUnauthorized, s)
	}

	short := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"short","role":"submit","expiresInSeconds":2}`)
	wants(t, s.asks(short.Key, http.MethodGet, "/jobs/dead", ""), http.StatusOK, "")
	soon(t, short.Key, http.StatusUnauthorized, s)

	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	e.env = nil // the keys are in the store, so the server requires keys also without TIERQ_ADMIN_KEY
	e.start()
	wants(t, e.server.asks("", http.MethodGet, path, ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wants(t, e.server.asks(theAdmin, http.MethodGet, path, ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wants(t, e.server.asks(third.Key, http.MethodGet, path, ""), http.StatusOK, "")
}

// run runs a command to its end.
func run(t *testing.T, bin string, env []string, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir, cmd.Env = t.TempDir(), append([]string{"HOME=" + t.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// No default opens the server to the network. Without an API key the server refuses to listen for other machines.
// An empty or malformed key does not count, and a valid one lets the server start.
func TestWithoutAKeyItStaysAtHome(t *testing.T) {
	t.Attr("proves", "A49 A28 A50")
	t.Parallel()
	bin, dir := testkit.BuildTierq(t, "failpoint"), t.TempDir()
	file := func(text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "admin.key")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "TIERQ_ADMIN_KEY_FILE=" + path
	}
	wide := []string{"TIERQ_ADDR=0.0.0.0:0", "TIERQ_DATA_DIR=" + dir}
	for what, tc := range map[string]struct {
		env  []string
		code int
		says []string
	}{
		"no key": {wide, 1, []string{"TIERQ_ADDR=0.0.0.0:0", "TIERQ_INSECURE=on", "keys create --store",
			"TIERQ_ADMIN_KEY"}},
		"empty value": {append(wide, "TIERQ_ADMIN_KEY="), 1, []string{"TIERQ_INSECURE=on"}},
		"empty file":  {append(wide, file(" \n")), 2, []string{"TIERQ_ADMIN_KEY_FILE", "is empty"}},
		"no file":     {append(wide, "TIERQ_ADMIN_KEY_FILE=/nowhere"), 2, []string{"cannot be read"}},
		"a word":      {append(wide, file("changeme")), 2, []string{"TIERQ_ADMIN_KEY", "is not an API key"}},
		"the metrics": {[]string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_OPS_ADDR=0.0.0.0:0", "TIERQ_DATA_DIR=" + dir}, 1,
			[]string{"TIERQ_OPS_ADDR=0.0.0.0:0", "TIERQ_INSECURE=on"}},
	} {
		code, output := run(t, bin, tc.env, "serve")
		for _, part := range tc.says {
			if code != tc.code || !strings.Contains(output, part) || strings.Contains(output, "changeme") {
				t.Errorf("%s: exit %d, want %d and %q in\n%s", what, code, tc.code, part, output)
			}
		}
	}
	s := startServer(t, bin, append(wide, "TIERQ_INSECURE=on")...)
	if !strings.Contains(s.Output(), "open: every caller may do everything") {
		t.Errorf("the banner:\n%s", s.Output())
	}
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Errorf("exit %d", code)
	}
	code, text := run(t, bin, nil, "keys", "generate")
	text = strings.TrimSpace(text)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, text)
	}
	s = startServer(t, bin, append(wide, file(text+"\n"), "TIERQ_OPS_ADDR=0.0.0.0:0")...)
	ops := &server{t: t, base: here(regexp.MustCompile(`metrics       (http://\S+)/metrics`).FindStringSubmatch(s.Output())[1])}
	s.base = here(s.base)
	for _, path := range []string{"/metrics", "/debug/pprof/heap"} {
		wants(t, ops.asks("", http.MethodGet, path, ""), http.StatusUnauthorized, "UNAUTHORIZED")
		wants(t, ops.asks(text, http.MethodGet, path, ""), http.StatusOK, "")
		wants(t, s.asks(text, http.MethodGet, path, ""), http.StatusNotFound, "NOT_FOUND")
	}
	wants(t, ops.asks("", http.MethodGet, "/livez", ""), http.StatusOK, "")
	wants(t, s.asks(text, http.MethodGet, "/jobs/dead", ""), http.StatusOK, "")
	wants(t, s.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	if strings.Contains(s.Output(), text[len(text)-43:]) {
		t.Errorf("the log has the key:\n%s", s.Output())
	}
}

// here returns the address at which this machine reaches a server that listens on every address.
func here(base string) string { return "http://127.0.0.1" + base[strings.LastIndexByte(base, ':'):] }

// A first key can be created without a server. It cannot while an embedded server runs, which has its store to
// itself.
func TestKeyIntoTheStore(t *testing.T) {
	t.Parallel()
	bin := testkit.BuildTierq(t, "failpoint")
	create := []string{"keys", "create", "--store", "--name", "boss", "--role", "admin", "-o", "name"}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t)
		e.start()
		env := []string{"TIERQ_DATA_DIR=" + e.dir}
		if code, output := run(t, bin, env, create...); code != 1 || !strings.Contains(output, "leave out --store") {
			t.Errorf("beside a running server: exit %d, %s", code, output)
		}
		if code, _ := e.server.terminate(20 * time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
		code, output := run(t, bin, env, create...)
		if code != 0 {
			t.Fatalf("exit %d, %s", code, output)
		}
		e.start()
		wants(t, e.server.asks(key(t, output), http.MethodGet, "/admin/keys", ""), http.StatusOK, "")
		wants(t, e.server.asks("", http.MethodGet, "/admin/keys", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	})
	t.Run("redis and mariadb", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		s := c.start("TIERQ_ROLES=api")
		code, output := run(t, bin, []string{"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn}, create...)
		if code != 0 {
			t.Fatalf("exit %d, %s", code, output)
		}
		soon(t, key(t, output), http.StatusOK, s)
		soon(t, "", http.StatusUnauthorized, s)
		a := s.asks(key(t, output), http.MethodGet, "/admin/audit", "")
		if !strings.Contains(string(a.body), `"key.create"`) || !strings.Contains(string(a.body), `"boss"`) {
			t.Errorf("the log of changes: %s", a.body)
		}
	})
}

// key returns the key in a command's output.
func key(t *testing.T, output string) string {
	t.Helper()
	for line := range strings.Lines(output) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "tq_") {
			return text
		}
	}
	t.Fatalf("no key in %s", output)
	return ""
}
