package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

var (
	uuidv7   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seedTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$`)
)

// A server without any settings accepts a job, and a poll shows its result: the first five minutes.
func TestFirstJob(t *testing.T) {
	t.Attr("proves", "S2-P1 S2-P15 S2-P16 S2-N12 S0-P10 S2-S6")
	t.Parallel()
	bin := testkit.BuildTierq(t)
	t.Run("miniredis and sqlite", func(t *testing.T) {
		dir := t.TempDir()
		s := startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+dir, "TIERQ_WORKERS=3")
		for _, part := range []string{"embedded mode", filepath.Join(dir, "tierq.sqlite"), "also if the process is killed",
			"curl -X POST " + s.base + "/paid/submit", `"slots":3`} {
			if !strings.Contains(s.Output(), part) {
				t.Errorf("the banner and log do not say %q", part)
			}
		}
		if !regexp.MustCompile(`"started".*"seconds":"\d+\.\d`).MatchString(s.Output()) {
			t.Error("the log does not say how long the start took")
		}
		firstJob(t, s)
		if code, took := s.terminate(20 * time.Second); code != 0 || took > 10*time.Second {
			t.Errorf("exit %d after %s", code, took)
		}
	})
	t.Run("redis and mariadb", func(t *testing.T) {
		c := newCluster(t)
		c.bin = bin
		s := c.start()
		if !strings.Contains(s.Output(), "external mode") {
			t.Error("the banner does not say the mode")
		}
		id := firstJob(t, s)
		c.settled(15*time.Second, id)
		var tier, result string
		c.row(`SELECT tier, result FROM job_results WHERE job_id = '`+id+`'`, &tier, &result)
		if tier != "PAID" || !json.Valid([]byte(result)) {
			t.Errorf("row: %s %s", tier, result)
		}
		c.forget(id) // SQL answers
		if p := s.poll(id); p.Status != "COMPLETED" || string(p.Result) != result {
			t.Errorf("from SQL: %+v", p)
		}
	})
}

func firstJob(t *testing.T, s *server) string {
	t.Helper()
	a := do(t, http.MethodPost, s.base+"/paid/submit", "") // as curl -X POST without a body does
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var exact map[string]any
	if err := json.Unmarshal(a.body, &exact); err != nil {
		t.Fatal(err)
	}
	data, _ := exact["apiResponseData"].(map[string]any)
	id, _ := data["jobId"].(string)
	at, _ := exact["timestamp"].(string)
	if len(exact) != 2 || len(data) != 2 || data["currentJobStatus"] != "PENDING" || !uuidv7.MatchString(id) ||
		!seedTime.MatchString(at) {
		t.Errorf("not the seed's shape: %s", a.body)
	}
	if got := a.header.Get("Location"); got != "/result/poll?jobId="+id {
		t.Errorf("Location %q", got)
	}
	p := s.await(id, "COMPLETED", 5*time.Second)
	if p.Tier != "PAID" || !strings.Contains(string(p.Result), `"stepsRun":1`) {
		t.Errorf("%+v", p)
	}
	return id
}

// After a restart, the embedded mode has exactly what its banner says: results, not waiting jobs. Only one process
// may use a data folder.
func TestEmbeddedRestart(t *testing.T) {
	t.Attr("proves", "S2-P11")
	t.Parallel()
	bin, dir := testkit.BuildTierq(t), t.TempDir()
	env := []string{"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + dir}
	s := startServer(t, bin, env...)
	id := firstJob(t, s)

	second := testkit.StartProcess(t, bin, env, "serve")
	if code, err := second.WaitExit(t.Context()); err != nil || code != 1 ||
		!strings.Contains(second.Output(), "TIERQ_DATA_DIR") {
		t.Errorf("a second server on the same folder: exit %d, %v, %s", code, err, second.Output())
	}
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Fatalf("exit %d", code)
	}
	s = startServer(t, bin, env...)
	if p := s.poll(id); p.Status != "COMPLETED" || len(p.Result) == 0 {
		t.Errorf("after the restart: %+v", p)
	}
	if info, err := os.Stat(filepath.Join(dir, "tierq.sqlite")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v %v", info.Mode(), err)
	}
}

// A start on a port in use fails with an error that names the setting.
func TestPortTaken(t *testing.T) {
	t.Attr("proves", "S2-N15")
	t.Parallel()
	bin := testkit.BuildTierq(t)
	s := startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
	taken := strings.TrimPrefix(s.base, "http://")
	p := testkit.StartProcess(t, bin, []string{"TIERQ_ADDR=" + taken, "TIERQ_DATA_DIR=" + t.TempDir()}, "serve")
	if code, err := p.WaitExit(t.Context()); err != nil || code != 1 || !strings.Contains(p.Output(), "TIERQ_ADDR") {
		t.Errorf("exit %d, %v, %s", code, err, p.Output())
	}
}
