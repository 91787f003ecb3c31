package compat

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		if err := runWorker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := testkit.Main(m).Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// binary builds tierq once.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		built.dir, built.err = os.MkdirTemp("", "compat-") //nolint:usetesting // all tests share it
		if built.err != nil {
			return
		}
		build := exec.Command("go", "build", "-trimpath", "-tags", "nomsgpack", "-o", built.dir, "./cmd/tierq")
		build.Dir = ".."
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "tierq")
}

// tierq is a process with the gateway.
type tierq struct {
	*testkit.Process
	t    *testing.T
	url  string // of the gateway
	base string // of the API
}

var (
	gateway = regexp.MustCompile(`FAKTORY_URL=(\S+)`)
	api     = regexp.MustCompile(`dashboard +(http://[^/]+)/`)
)

// starts starts a process with some settings.
func starts(t *testing.T, env ...string) *tierq {
	t.Helper()
	s := &tierq{t: t, Process: testkit.StartProcess(t, binary(t), append([]string{
		"TIERQ_ADDR=127.0.0.1:0", "TIERQ_FAKTORY_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(), "TIERQ_DEMO=off",
		"TIERQ_CAPACITY=100000", "TIERQ_INSECURE=on", "TIERQ_DRAIN_TIMEOUT=2s",
	}, env...), "serve")}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := s.WaitOutput(ctx, "this process"); err != nil {
		t.Fatal(err)
	}
	s.url, s.base = gateway.FindStringSubmatch(s.Output())[1], api.FindStringSubmatch(s.Output())[1]
	return s
}

// cluster starts processes that share a Redis and a MariaDB.
func cluster(t *testing.T, n int, env ...string) (all []*tierq) {
	t.Helper()
	stores := []string{"REDIS_URL=" + testkit.NewRedis(t).URL(), "MYSQL_DSN=" + testkit.SharedMariaDB(t)}
	for range n {
		all = append(all, starts(t, append(stores, env...)...))
	}
	return all
}

// backends runs a test with the embedded stores, and with a Redis and a MariaDB.
func backends(t *testing.T, test func(t *testing.T, s *tierq)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, starts(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, cluster(t, 1)[0])
	})
}

// dials connects a client.
func (s *tierq) dials() *faktory.Client {
	s.t.Helper()
	return s.worker("")
}

var named sync.Mutex

// worker connects a client as a worker of this name, "" = of none.
func (s *tierq) worker(wid string) *faktory.Client {
	s.t.Helper()
	server := faktory.DefaultServer()
	server.Timeout, server.Address = 5*time.Second, strings.TrimPrefix(s.url, "tcp://")
	// The library takes the name from a variable of the package while it connects.
	named.Lock()
	defer named.Unlock()
	faktory.RandomProcessWid = wid
	defer func() { faktory.RandomProcessWid = "" }()
	c, err := server.Open()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// state returns what INFO says.
func state(t *testing.T, c *faktory.Client) *faktory.FaktoryState {
	t.Helper()
	state, err := c.CurrentState()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// calls sends a request to the API, and returns the answer's body.
func (s *tierq) calls(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
	}
	return string(text)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, cond func() (bool, string)) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, what, cond)
}
