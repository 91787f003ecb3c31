package telemetry

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const deploy = "../../deploy/"

// busy returns metrics in which every family has a sample.
func busy() *Metrics {
	m := measured()
	m.SetSnapshot(busySnapshot())
	work(m)
	return m
}

// busySnapshot returns the snapshot of busy. The gauges of its cluster are shown for 15 s.
func busySnapshot() Snapshot {
	return Snapshot{
		Cluster: &Cluster{
			Tiers: map[job.Tier]Level{
				job.Paid: {Depth: 5, InFlight: 3, OldestAge: 42 * time.Second}, job.Unpaid: {}, job.Public: {Scheduled: 1},
			},
			CapacityUsed: 7, CapacityLimit: 10_000, Outbox: 4, OutboxBytes: 4096,
			Workers: []job.WorkerInfo{{Slots: 16, Running: 3}},
			Queues:  []QueueLevel{{Name: "main", Count: job.QueueCount{Ready: 5}, Workers: 1}},
		},
		Paused:   map[string]time.Duration{"tier:PUBLIC": time.Minute},
		Slots:    []SlotLevel{{Tiers: "PAID", Busy: 1, Free: 1}, {Busy: 2, Free: 12}},
		GateOpen: true, SQLUp: true, Schedulers: map[string]time.Duration{"crashed": 3 * time.Second,
			"stuck": 5 * time.Second},
	}
}

// work records one event of each kind.
func work(m *Metrics) {
	m.Submitted(job.Paid, Accepted)
	m.Started(first(job.Paid), 300*time.Millisecond)
	m.Ended(first(job.Paid), "COMPLETED", "", time.Second)
	m.Ended(first(job.Paid), "FAILED", job.HandlerError, time.Second)
	m.Recovered(job.Paid, job.Crashed, job.OK)
	m.RedisOp("claim", time.Millisecond)
	m.Quarantined(0)
	m.SQLRows(map[string]int64{"job_outcomes": 1})
	m.AuditEnded(job.AuditReport{StartedAt: time.Now()})
}

// dashboard has those fields of a Grafana dashboard that the tests check.
type dashboard struct {
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		Repeat  string
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(deploy + "grafana/tierq.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries returns the dashboard's queries with the variables filled in.
func (d dashboard) queries() (all []string) {
	fill := strings.NewReplacer("$__rate_interval", "10s", "$tier", "PAID", "$instance", ".*")
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, fill.Replace(q.Expr))
		}
	}
	return all
}

func TestDashboardIsWhole(t *testing.T) {
	t.Attr("proves", "S1-E7")
	d := readDashboard(t)
	if d.SchemaVersion != 39 {
		t.Errorf("schema version %d: pinned, so that an import does not migrate it", d.SchemaVersion)
	}
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if variables["datasource"] != "datasource" || variables["tier"] != "query" {
		t.Errorf("variables %v", variables)
	}
	repeated := false
	ids := map[int]bool{}
	for _, p := range d.Panels {
		repeated = repeated || p.Type == "row" && p.Repeat == "tier"
		if ids[p.ID] || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: id %d, place %+v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q is bound to the data source %q", p.Title, q.Datasource.UID)
			}
		}
	}
	if !repeated {
		t.Error("no row is repeated for each tier")
	}
}

// Every metric in the dashboard and the alerts exists, and every metric of tierq is used by one of them.
func TestDashboardAndAlertsAskForWhatExists(t *testing.T) {
	families, err := busy().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]string{"up": ""} // name as queried -> family
	unseen := map[string]bool{}
	for _, f := range families {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if suffix == "" || f.GetMetric()[0].GetHistogram() != nil {
				exists[f.GetName()+suffix] = f.GetName()
			}
		}
		unseen[f.GetName()] = strings.HasPrefix(f.GetName(), "tierq_")
	}
	delete(unseen, "tierq_build_info")
	maps.DeleteFunc(unseen, func(_ string, ours bool) bool { return !ours })
	metric := regexp.MustCompile(`\b(?:tierq|process|go)_[a-z_]+`)
	look := func(where, text string) {
		for _, name := range metric.FindAllString(text, -1) {
			if _, ok := exists[name]; !ok {
				t.Errorf("%s asks for %s, which nobody measures", where, name)
			}
			delete(unseen, exists[name])
		}
	}
	for _, q := range readDashboard(t).queries() {
		look(q, q)
	}
	for _, file := range []string{"alerts.yml", "alerts_test.yml"} {
		text, err := os.ReadFile(deploy + "prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		look(file, string(text))
	}
	if len(unseen) > 0 {
		t.Errorf("measured and shown nowhere: %v", slices.Sorted(maps.Keys(unseen)))
	}
}

func TestPromtoolIsContent(t *testing.T) {
	t.Attr("proves", "S1-E7")
	promtool := program(t, "promtool")
	run := func(stdin string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, promtool, args...)
		cmd.Dir, cmd.Stdin = filepath.Join(deploy, "prometheus"), strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	page := httptest.NewRecorder()
	busy().Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	run(page.Body.String(), "check", "metrics")
	run("", "check", "config", "prometheus.yml")
	run("", "check", "rules", "alerts.yml")
	run("", "test", "rules", "alerts_test.yml")
	for _, name := range []string{"tierq_queue_depth", "tierq_capacity_used", "tierq_workers"} {
		if !regexp.MustCompile(`# HELP ` + name + ` .*use max\(\)`).MatchString(page.Body.String()) {
			t.Errorf("the help of %s does not say that it is the same everywhere", name)
		}
	}
}
