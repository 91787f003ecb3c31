package client

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // reads the rows that the servers wrote
	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

var listening = regexp.MustCompile(`curl -X POST (http://[^/]+)/paid/submit`)

// Two real servers under a load with some jobs of each kind break no promise without faults. Every job has its
// rows, and every handler ran once unless its payload asked for more.
func TestCleanRun(t *testing.T) {
	t.Attr("proves", "S7 S8 S20")
	t.Parallel()
	store, dsn := testkit.SharedRedisDB(t), testkit.SharedMariaDB(t)
	bin := testkit.BuildTierq(t, "failpoint")
	var bases []string
	for range 2 {
		s := testkit.StartProcess(t, bin, []string{
			"REDIS_URL=" + store, "MYSQL_DSN=" + dsn, "TIERQ_INSECURE=on", "TIERQ_ADDR=127.0.0.1:0",
			"TIERQ_DATA_DIR=" + t.TempDir(),
		}, "serve")
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := s.WaitOutput(ctx, "this process"); err != nil {
			t.Fatal(err)
		}
		bases = append(bases, listening.FindStringSubmatch(s.Output())[1])
	}
	e := check.Evidence{Plans: quickPlans(t, bases[0]), Bound: time.Minute}
	runs := filepath.Join(t.TempDir(), "runs")
	mix := DefaultMix()
	mix.Fail, mix.Requeue = 0.1, 1
	l := newLoad(t, Options{Runs: runs, History: runs + ".history", Jobs: 600, Rate: 300, Seed: 1, Mix: mix,
		MaxDelay: 500 * time.Millisecond}, bases...)
	if err := l.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	requeuesSome(t, l)
	e.Quiet = time.Now()
	o, err := redis.ParseURL(store)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	testkit.Eventually(t, 40*time.Second, "everything is at rest", func() (bool, string) {
		if err := ReadRedis(t.Context(), rdb, 1, &e); err != nil {
			return false, err.Error()
		}
		p := e.Places
		return p["queue"]+p["scheduled"]+p["heartbeat_deadlines"]+p["outbox"] == 0, fmt.Sprint(p)
	})
	e.Rested = time.Now()
	if err := l.Look(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := ReadSQL(t.Context(), db, false, &e); err != nil {
		t.Fatal(err)
	}
	if err := ReadBatches(t.Context(), db, &e); err != nil {
		t.Fatal(err)
	}
	e.BatchesSeen = l.BatchesSeen()
	if err := ReadMetrics(t.Context(), bases, "", &e); err != nil {
		t.Fatal(err)
	}
	e.Ops, e.Polls = l.Ops(), l.Polls()
	if e.Runs, err = ReadRuns(runs); err != nil {
		t.Fatal(err)
	}
	r := check.Check(e)
	r.Violations = append(r.Violations, check.CheckOrder(e)...)
	var table bytes.Buffer
	r.Table(&table)
	t.Log("\n" + table.String())
	if len(r.Violations) > 0 {
		t.Error("promises were broken")
	}
	if c := r.Counts; c.Accepted < 600 || c.Completed < 500 || c.Failed == 0 || c.Cancelled == 0 || c.Requeued == 0 ||
		c.Beyond == 0 || c.Unknown > 0 {
		t.Errorf("a poor run: %+v", c)
	}
	if len(e.Polls) < 600 || e.Metrics.Accepted == 0 || r.Stuck.N > 0 {
		t.Errorf("%d polls, %+v, %s", len(e.Polls), e.Metrics, r.Stuck)
	}
	seesDamage(t, e)
}

// requeuesSome polls on until a dead job was requeued. On a slow machine no job is dead yet when the last one was
// submitted.
func requeuesSome(t *testing.T, l *Load) {
	t.Helper()
	polling, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	defer over.Wait()
	defer stop()
	over.Go(func() { l.poller(polling, "late poller", l.dice(4000)) })
	testkit.Eventually(t, 30*time.Second, "a dead job was requeued", func() (bool, string) {
		return slices.ContainsFunc(l.Ops(), func(o check.Op) bool { return o.Kind == "requeue" && o.Fate == check.OK }), ""
	})
}

// seesDamage shows that the checker finds damage in the evidence that the collectors read.
func seesDamage(t *testing.T, e check.Evidence) {
	t.Helper()
	for name, damage := range map[string]func(*check.Evidence){
		"S1": func(e *check.Evidence) {
			accepted := slices.IndexFunc(e.Ops, func(o check.Op) bool { return o.Kind == "submit" && o.Fate == check.OK })
			id := e.Ops[accepted].ID
			delete(e.Live, id)
			e.Outcomes = slices.DeleteFunc(slices.Clone(e.Outcomes), func(o check.Outcome) bool { return o.ID == id })
			e.Tables, e.Metrics = nil, nil
		},
		"S14": func(e *check.Evidence) {
			e.Ops = append([]check.Op(nil), e.Ops...)
			for i := range e.Ops {
				e.Ops[i].Fails = 0
			}
		},
		"S18": func(e *check.Evidence) {
			e.Runs = append([]check.Run(nil), e.Runs...)
			e.Runs[0].Sum = "changed"
		},
		"S20": func(e *check.Evidence) { e.Metrics = &check.Sums{} },
	} {
		broken := e
		damage(&broken)
		found := map[string]bool{}
		for _, v := range check.Check(broken).Violations {
			found[v.Invariant] = true
		}
		if !found[name] {
			t.Errorf("%s was not seen: %v", name, found)
		}
	}
}

// quickPlans shortens the backoff of the tiers. It returns the default plans, which differ in their backoff only.
func quickPlans(t *testing.T, base string) map[job.Tier]job.Plan {
	t.Helper()
	plans := map[job.Tier]job.Plan{}
	for _, p := range job.DefaultPlans() {
		path := base + "/admin/tiers/" + string(p.Tier)
		var plan map[string]any
		if err := json.Unmarshal(request(t, http.MethodGet, path, ""), &plan); err != nil {
			t.Fatal(err)
		}
		delete(plan, "tier")
		delete(plan, "version")
		plan["backoff"] = map[string]any{"baseMs": 20, "factor": 1, "capMs": 20, "jitter": 0}
		body, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		request(t, http.MethodPut, path, string(body))
		plans[p.Tier] = p
	}
	return plans
}

func request(t *testing.T, method, url, body string) []byte {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s %v", method, url, resp.StatusCode, text, err)
	}
	return text
}
