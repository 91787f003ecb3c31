package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// scraper is a real Prometheus that scrapes the targets of deploy/prometheus.yml, here a test's handler.
type scraper struct {
	url    string
	client *http.Client
}

func newScraper(t *testing.T, target string) *scraper {
	t.Helper()
	bin, dir := program(t, "prometheus"), t.TempDir()
	change := strings.NewReplacer("127.0.0.1:8080", target, "15s", "200ms")
	for _, file := range []string{"prometheus.yml", "alerts.yml"} {
		text, err := os.ReadFile(deploy + "prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(change.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t))
	server := testkit.StartProcess(t, bin, nil, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := server.WaitOutput(ctx, "Server is ready to receive web requests"); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return &scraper{url: "http://" + address, client: client}
}

// query returns the first sample's value and the number of samples, or the error of the query.
func (p *scraper) query(expr string) (value string, samples int, err error) {
	res, err := p.client.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", 0, err
	}
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return "", 0, fmt.Errorf("%s: %s %w", expr, answer.Error, err)
	}
	if len(answer.Data.Result) > 0 {
		value, _ = answer.Data.Result[0].Value[1].(string)
	}
	return value, len(answer.Data.Result), nil
}

func TestPrometheusScrapesAndAnswers(t *testing.T) {
	t.Attr("proves", "S1-E7 S2-P14")
	m := busy()
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.Handler())
	target := httptest.NewServer(mux)
	defer target.Close()
	p := newScraper(t, target.Listener.Addr().String())

	shown := busySnapshot
	answers := func(expr, want string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, expr, func() (bool, string) {
			m.SetSnapshot(shown()) // on a busy machine the query takes longer than a snapshot is shown
			got, _, err := p.query(expr)
			return err == nil && got == want, fmt.Sprintf("%s, %v; want %s", got, err, want)
		})
	}
	answers(`up{job="tierq"}`, "1")
	answers(`max(tierq_queue_depth{tier="PAID"})`, "5")
	answers(`max(tierq_queue_oldest_age_seconds)`, "42")
	answers(`sum(tierq_jobs_finished_total{outcome="COMPLETED",tier="PAID"})`, "1")
	answers(`tierq_build_info{version="1.2.3-test"}`, "1")
	answers(`tierq_job_wait_seconds_bucket{tier="PAID",le="0.5"}`, "1")

	work(m)
	m.Recovered(job.Paid, job.Stuck, job.Discarded)
	answers(`sum(tierq_jobs_finished_total{tier="PAID"})`, "5")
	answers(`sum by (cause) (tierq_dead_letters_total{cause="MAX_TIME_EXCEEDED"}) > 0`, "1")

	// With two scrapes of an increase in store, each query of the dashboard has an answer.
	for _, q := range readDashboard(t).queries() {
		testkit.Eventually(t, 20*time.Second, q, func() (bool, string) {
			m.SetSnapshot(shown())
			_, samples, err := p.query(q)
			return err == nil && samples > 0, fmt.Sprintf("%d samples, %v", samples, err)
		})
	}

	shown = func() Snapshot { return Snapshot{} } // Redis and SQL are down, and the gate is closed
	answers(`min(tierq_gate_open)`, "0")
	answers(`count(up{job="tierq"} == 1) > 0 unless on() max(tierq_capacity_limit)`, "1")
	answers(`sum(ALERTS{alertname="TierqGateClosed",alertstate="pending"})`, "1")
}
