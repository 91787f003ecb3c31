package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tierq/tierq/internal/testkit"
)

// program finds a program of the Debian package prometheus. Without it the test fails, because a skipped test
// proves nothing.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	t.Fatalf("%s is missing; type: apt-get install -y --no-install-recommends prometheus", name)
	return ""
}

// prometheus starts a real Prometheus that scrapes these addresses five times a second. query returns the first
// sample's value, "" if there is none.
func prometheus(t *testing.T, targets ...string) (query func(expr string) (string, error)) {
	t.Helper()
	bin, dir := program(t, "prometheus"), t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	settings := "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n" +
		fmt.Sprintf("scrape_configs: [{job_name: tierq, static_configs: [{targets: [%s]}]}]\n", strings.Join(targets, ", "))
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	p := testkit.StartProcess(t, bin, nil, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.WaitOutput(ctx, "Server is ready to receive web requests"); err != nil {
		t.Fatal(err)
	}
	return func(expr string) (string, error) {
		a, err := try(http.MethodGet, "http://"+address+"/api/v1/query?query="+url.QueryEscape(expr), "")
		if err != nil {
			return "", err
		}
		var r struct {
			Status, Error string
			Data          struct {
				Result []struct{ Value [2]any }
			}
		}
		if err := json.Unmarshal(a.body, &r); err != nil || r.Status != "success" {
			return "", fmt.Errorf("%s: %s %w", expr, r.Error, err)
		}
		if len(r.Data.Result) == 0 {
			return "", nil
		}
		value, _ := r.Data.Result[0].Value[1].(string)
		return value, nil
	}
}

// A real Prometheus scrapes two running servers, and returns how many jobs ran and wait. Its own tool finds no
// error in the metrics page.
func TestPrometheusSeesWhatRan(t *testing.T) {
	t.Attr("proves", "S1-E7 S2-P14")
	t.Parallel()
	c := newCluster(t)
	servers := []*server{c.start("TIERQ_WORKERS=1"), c.start("TIERQ_ROLES=api")}
	s := servers[0]
	query := prometheus(t, strings.TrimPrefix(s.base, "http://"), strings.TrimPrefix(servers[1].base, "http://"))
	var ids []string
	for i := range 4 {
		ids = append(ids, servers[i%2].submit("paid", "{}"))
	}
	ids = append(ids, s.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`))
	c.settled(15*time.Second, ids...)
	s.await(s.submit("paid", `{"payload":{"steps":[{"type":"SLEEP","durationMs":40000}]}}`), "PROCESSING", 5*time.Second)
	for range 3 {
		servers[1].submit("unpaid", "{}")
	}
	servers[1].submit("public", `{"delaySeconds":3600}`)
	for expr, want := range map[string]string{
		`count(up{job="tierq"} == 1)`:                                        "2",
		`sum(tierq_jobs_submitted_total{outcome="ACCEPTED"})`:                "10",
		`sum(tierq_jobs_finished_total{tier="PAID",outcome="COMPLETED"})`:    "4",
		`sum(tierq_jobs_finished_total{tier="PUBLIC",outcome="FAILED"})`:     "1",
		`sum(tierq_jobs_finished_total)`:                                     "5",
		`sum(tierq_dead_letters_total{tier="PUBLIC",cause="HANDLER_ERROR"})`: "1",
		`max(tierq_queue_depth{tier="UNPAID"})`:                              "3",
		`max(tierq_queue_depth{tier="PAID"})`:                                "0",
		`max(tierq_jobs_inflight{tier="PAID"})`:                              "1",
		`max(tierq_jobs_scheduled{tier="PUBLIC"})`:                           "1",
		`max(tierq_workers{kind="slot",state="running"})`:                    "1",
	} {
		testkit.Eventually(t, 10*time.Second, expr+" is "+want, func() (bool, string) {
			got, err := query(expr)
			return err == nil && got == want, fmt.Sprintf("%q, %v", got, err)
		})
	}
	for _, s := range servers {
		page := do(t, http.MethodGet, s.base+"/metrics", "")
		if page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%d %v", page.status, page.header)
		}
		check := exec.CommandContext(t.Context(), program(t, "promtool"), "check", "metrics")
		check.Stdin = bytes.NewReader(page.body)
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}
}

// span is a span that the collector received, with the name of its service.
type span struct {
	*otlp.Span
	service string
}

// newCollector starts an OTLP/HTTP collector.
func newCollector(t *testing.T) (endpoint string, spans <-chan span) {
	t.Helper()
	got := make(chan span, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		raw, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err := errors.Join(err, proto.Unmarshal(raw, &request)); err != nil {
			t.Errorf("%s got what is no OTLP: %v", r.URL.Path, err)
		}
		for _, rs := range request.ResourceSpans {
			service := ""
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					got <- span{s, service}
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

// One trace links four parties: the caller, the process that accepted the job, the process that ran it, and the
// receiver of its call.
func TestTraceOverProcesses(t *testing.T) {
	t.Attr("proves", "S2-P14 S4-O2")
	t.Parallel()
	c := newCluster(t)
	endpoint, spans := newCollector(t)
	r := newReceiver(t, nil)
	settings := append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint, "OTEL_BSP_SCHEDULE_DELAY=100"}, outward...)
	api := c.start(append(settings, "TIERQ_ROLES=api", "OTEL_SERVICE_NAME=tierq-api")...)
	c.start(append(settings, "TIERQ_ROLES=worker,recovery", "OTEL_SERVICE_NAME=tierq-worker")...)
	const caller = "00f067aa0ba902b7"
	a := api.ask("paid", fmt.Sprintf(`{"type":"SEND_WEBHOOK","payload":{"url":%q}}`, r.URL+"/hook"), "traceparent",
		"00-"+trace+"-"+caller+"-01")
	id := accepted(t, a)
	c.settled(15*time.Second, id)

	named := map[string]span{}
	for len(named) < 2 {
		select {
		case s := <-spans:
			named[s.Name] = s
		case <-time.After(10 * time.Second):
			t.Fatalf("the collector has %v", named)
		}
	}
	send, process := named["send paid"], named["process paid"]
	if send.Span == nil || process.Span == nil {
		t.Fatalf("%v", named)
	}
	if send.service != "tierq-api" || process.service != "tierq-worker" {
		t.Errorf("sent by %q, processed by %q", send.service, process.service)
	}
	for _, s := range named {
		about := ""
		for _, a := range s.Attributes {
			if a.Key == "messaging.message.id" {
				about = a.Value.GetStringValue()
			}
		}
		if hex.EncodeToString(s.TraceId) != trace || about != id {
			t.Errorf("%s: trace %x about %q", s.Name, s.TraceId, about)
		}
	}
	if hex.EncodeToString(send.ParentSpanId) != caller || len(process.Links) != 1 ||
		!bytes.Equal(process.Links[0].SpanId, send.SpanId) {
		t.Errorf("send %x below %x, process linked to %v", send.SpanId, send.ParentSpanId, process.Links)
	}
	calls := r.of(http.MethodPost, "/hook")
	if want := fmt.Sprintf("00-%s-%x-01", trace, process.SpanId); len(calls) != 1 ||
		calls[0].header.Get("traceparent") != want {
		t.Errorf("calls %v, want one with traceparent %s", calls, want)
	}
	if api.job(id).TraceID != trace || !strings.Contains(a.header.Get("X-Trace-Id"), trace) {
		t.Errorf("the job's trace is %s, the answer's %v", api.job(id).TraceID, a.header)
	}
}
