package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

var aWholeKey = regexp.MustCompile(`tq_[a-z2-7]{16}_[A-Za-z0-9_-]{43}`)

// Several processes of a cluster have their first start at once, with no API key and no setting for one. None of
// them is open, one of them prints an admin's key, and their logs do not contain it.
func TestFirstStartPrintsAKey(t *testing.T) {
	t.Attr("proves", "A49")
	t.Parallel()
	c := emptyCluster(t)
	bare := func(roles string) *server {
		return &server{t: t, Process: testkit.StartProcess(t, c.bin, []string{
			"REDIS_URL=" + c.redis.URL(), "MYSQL_DSN=" + c.dsn, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(),
			"TIERQ_ROLES=" + roles,
		}, "serve")}
	}
	up := func(s *server) string {
		s.waitFor("callers  ", 60*time.Second)
		s.base = listening.FindStringSubmatch(s.Output())[1]
		return s.Output()
	}
	worker := bare("worker,recovery")
	worker.waitFor("this process", 60*time.Second)
	servers := []*server{bare("api"), bare("api"), bare("api")}
	var printed []string
	for _, s := range servers {
		banner, log := "", ""
		for line := range strings.Lines(up(s)) {
			if json.Valid([]byte(line)) {
				log += line
			} else {
				banner += line
			}
		}
		if aWholeKey.MatchString(log) {
			t.Errorf("the log has the key:\n%s", log)
		}
		if !strings.Contains(banner, "only with an API key") {
			t.Errorf("the banner:\n%s", banner)
		}
		printed = append(printed, aWholeKey.FindAllString(banner, -1)...)
	}
	if aWholeKey.MatchString(worker.Output()) {
		t.Error("a process that serves no API printed a key")
	}
	if len(printed) != 1 {
		t.Fatalf("%d keys were printed", len(printed))
	}
	soon(t, printed[0], http.StatusOK, servers...)
	for _, s := range servers {
		wants(t, s.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusUnauthorized, "UNAUTHORIZED")
		wants(t, s.asks("", http.MethodPost, "/paid/submit", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	}
	var made struct {
		Items []struct{ Name, Role string }
	}
	list := servers[0].asks(printed[0], http.MethodGet, "/admin/keys", "")
	if err := json.Unmarshal(list.body, &made); err != nil || len(made.Items) != 1 || made.Items[0].Role != "admin" {
		t.Errorf("%v: %s", err, list.body)
	}
	changes := servers[0].asks(printed[0], http.MethodGet, "/admin/audit", "")
	if !strings.Contains(string(changes.body), "key.create") {
		t.Errorf("the log of changes: %s", changes.body)
	}
	again := bare("api")
	if text := up(again); aWholeKey.MatchString(text) {
		t.Errorf("a second start prints a key:\n%s", text)
	}
}

// With TIERQ_ADMIN_KEY no key is printed. Only TIERQ_INSECURE=on makes an external server open.
func TestExternalIsOpenOnRequestOnly(t *testing.T) {
	t.Attr("proves", "A49")
	t.Parallel()
	c := emptyCluster(t)
	_, text := run(t, c.bin, nil, "keys", "generate")
	root := strings.TrimSpace(text)
	given := c.start("TIERQ_INSECURE=off", "TIERQ_ROLES=api", "TIERQ_ADMIN_KEY="+root)
	if aWholeKey.MatchString(given.Output()) {
		t.Errorf("a key is printed:\n%s", given.Output())
	}
	wants(t, given.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wants(t, given.asks(root, http.MethodGet, "/jobs/dead", ""), http.StatusOK, "")
	open := c.start("TIERQ_INSECURE=on", "TIERQ_ROLES=api")
	if text := open.Output(); aWholeKey.MatchString(text) || !strings.Contains(text, "open: every caller on this") {
		t.Errorf("the banner:\n%s", open.Output())
	}
	wants(t, open.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusOK, "")
	// An embedded server that listens only on this machine is open.
	own := startServer(t, c.bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
	wants(t, own.asks("", http.MethodGet, "/jobs/dead", ""), http.StatusOK, "")
}
