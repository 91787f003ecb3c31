package contract

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m).Run()) }

// server is a real server with the built-in job types. Each of its answers is checked against the description, and
// each operation that succeeded is recorded.
type server struct {
	t      *testing.T
	c      *Contract
	base   string
	key    string          // sent with every call; "" = none
	worked map[string]bool // operations that succeeded: method and path as described
}

func start(t *testing.T, env ...string) *server {
	t.Helper()
	env = append(env, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+filepath.Join(t.TempDir(), "data"), "TIERQ_WORKERS=4",
		"TIERQ_GATEWAY_SECRET=for tests only, and nothing else.")
	p := testkit.StartProcess(t, testkit.BuildTierq(t), env, "serve")
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	s := &server{t: t, c: load(t), worked: map[string]bool{}}
	testkit.Eventually(t, 20*time.Second, "the server serves", func() (bool, string) {
		s.base = address.FindString(p.Output())
		return s.base != "", p.Output()
	})
	return s
}

// answer is the answer to a call.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes one call; headers has name, value, name, value. It reads a stream that does not end for a second.
func (s *server) do(method, target, body string, headers ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	if target == "/api/events" {
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil && target != "/api/events" {
		s.t.Fatal(err)
	}
	if err := s.c.Check(Call{Request: req, Sent: []byte(body), Status: res.StatusCode, Header: res.Header,
		Body: text}); err != nil {
		s.t.Error(err)
	}
	if o, _ := s.c.find(method, req.URL.EscapedPath()); o != nil && res.StatusCode < 400 {
		s.worked[method+" "+o.Path] = true
	}
	return answer{res.StatusCode, res.Header, text}
}

// want is do with a check of the answer's status.
func (s *server) want(status int, method, target, body string, headers ...string) answer {
	s.t.Helper()
	a := s.do(method, target, body, headers...)
	if a.status != status {
		s.t.Errorf("%s %s: %d, want %d: %.500s", method, target, a.status, status, a.body)
	}
	return a
}

var anID = regexp.MustCompile(`"jobId":"([^"]+)"`)

// id returns the first job id in an answer.
func (s *server) id(a answer) string {
	s.t.Helper()
	found := anID.FindSubmatch(a.body)
	if found == nil {
		s.t.Fatalf("%d %s names no job", a.status, a.body)
	}
	return string(found[1])
}

// ends polls a job until it has ended, and checks its status.
func (s *server) ends(id, status string) {
	s.t.Helper()
	var p struct {
		Data struct{ CurrentJobStatus, LastError string } `json:"apiResponseData"`
	}
	a := s.want(200, "GET", "/result/poll?wait=15s&jobId="+id, "")
	if err := json.Unmarshal(a.body, &p); err != nil || p.Data.CurrentJobStatus != status {
		s.t.Errorf("job %s: %s, want %s", id, a.body, status)
	}
}
