package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// pool is a server of its own whose pool has the handlers of the table.
type pool struct {
	*testkit.Process
	base string
	ids  map[string]string // of jobs, by the names of rows
}

var listening = regexp.MustCompile(`curl -X POST (http://[^/]+)/paid/submit`)

func startPool(t testing.TB) *pool {
	t.Helper()
	p := programOf(t, "pool")
	process := testkit.StartProcess(t, p.bin, []string{
		"TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR=" + t.TempDir(), "TIERQ_ADDRESS_RATE=1000000",
	})
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := process.WaitOutput(ctx, "this process"); err != nil {
		t.Fatal(err)
	}
	at := listening.FindStringSubmatch(process.Output())
	if at == nil {
		t.Fatal("the server does not say where it listens")
	}
	return &pool{process, at[1], map[string]string{}}
}

func (p *pool) ask(t testing.TB, method, path, body string, into any) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(p.Output()))
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %.200s: %d %.300s", path, body, resp.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

// submit submits a job. Without a retry a failure is seen at once; with one, the wait before it.
func (p *pool) submit(t testing.TB, name, typ, payload string, retries int) error {
	t.Helper()
	var a struct {
		Data struct {
			JobID string `json:"jobId"`
		} `json:"apiResponseData"`
	}
	body := fmt.Sprintf(`{"type":%q,"payload":%s,"maxRetries":%d}`, typ, payload, retries)
	err := p.ask(t, http.MethodPost, "/paid/submit", body, &a)
	p.ids[name] = a.Data.JobID
	return err
}

// polled is the state of a job.
type polled struct {
	Status       string          `json:"currentJobStatus"`
	RetryCount   int             `json:"retryCount"`
	FirstTriedAt *time.Time      `json:"firstTriedAt"`
	RunAt        *time.Time      `json:"runAt"`
	Result       json.RawMessage `json:"result"`
	FailureCause string          `json:"failureCause"`
	LastError    string          `json:"lastError"`
}

// outcome waits for the end of a job's first attempt, and returns it as a worker's report would say it.
func (p *pool) outcome(t testing.TB, name string, most time.Duration) (r report, err error) {
	t.Helper()
	for end := time.Now().Add(most); ; <-time.After(20 * time.Millisecond) {
		var a struct {
			Data polled `json:"apiResponseData"`
		}
		if err := p.ask(t, http.MethodGet, "/result/poll?jobId="+p.ids[name], "", &a); err != nil {
			return r, err
		}
		if text := a.Data.report(); text != "" {
			return r, json.Unmarshal([]byte(text), &r)
		}
		if p.Exited() || time.Now().After(end) {
			return r, fmt.Errorf("the job is %s", a.Data.Status)
		}
	}
}

// report returns the report of a job's first attempt; "" = it has not ended.
func (d polled) report() string {
	message, _ := json.Marshal(d.LastError) // only a text
	failed := func(more string) string {
		return fmt.Sprintf(`{"failed":{"error":{"message":%s,"type":%q}%s}}`, message, d.FailureCause, more)
	}
	wait := func() int {
		if d.RunAt == nil || d.FirstTriedAt == nil {
			return 0
		}
		return int(math.Round(d.RunAt.Sub(*d.FirstTriedAt).Seconds()))
	}
	switch {
	case d.Status == "COMPLETED":
		return fmt.Sprintf(`{"completed":{"result":%s}}`, d.Result)
	case d.Status == "FAILED":
		return failed(fmt.Sprintf(`,"permanent":%v`, d.FailureCause == "PERMANENT_ERROR"))
	case d.Status == "SCHEDULED" && d.RetryCount > 0:
		return failed(fmt.Sprintf(`,"retryAfterSeconds":%d`, wait()))
	case d.Status == "SCHEDULED" && d.FirstTriedAt != nil:
		return fmt.Sprintf(`{"released":{"delaySeconds":%d,"reason":%s}}`, wait(), message)
	}
	return ""
}

// The pool of a server runs the table, and a good job after each row: each row ends as it must, each good job
// completes, and the server lives on.
func TestPool(t *testing.T) {
	t.Parallel()
	p := startPool(t)
	p.runTable(t, table("pool"))
	if err := ends(t, p.Process, 30*time.Second); err != nil {
		t.Errorf("at SIGTERM: %v", err)
	}
}

// runTable submits the jobs of rows and good jobs, and checks how each ends.
func (p *pool) runTable(t testing.TB, rows []row) {
	t.Helper()
	for i, r := range rows {
		retries := 0
		if w := r.wants("pool"); w.end == "released" || w.wait > 0 {
			retries = 3
		}
		err := p.submit(t, r.name(), r.behaviour, r.input(), retries)
		if err == nil {
			err = p.submit(t, good(i), "GOOD", fmt.Sprintf(`{"n":%d}`, i), 0)
		}
		if err != nil {
			t.Fatalf("pool: %s: %v", r.name(), err)
		}
	}
	for i, r := range rows {
		said, err := p.outcome(t, r.name(), 20*time.Second)
		if err == nil {
			err = r.wants("pool").inAPI().check(said)
		}
		if err != nil {
			t.Errorf("pool: %s: %v", r.name(), err)
			if p.Exited() {
				t.Fatalf("pool: %s: the server has ended: %s", r.name(), tail(p.Output()))
			}
		}
		said, err = p.outcome(t, good(i), 20*time.Second)
		if err == nil {
			err = completed(fmt.Sprintf(`{"good":%d,"starts":1}`, i)).check(said)
		}
		if err != nil {
			t.Errorf("pool: beside %s: %v", r.name(), err)
		}
	}
}

// inAPI is what an API shows of a report: the reason of a Later is in the job's history only.
func (w want) inAPI() want {
	if w.end == "released" {
		w.prefix, w.has = "", ""
	}
	return w
}
