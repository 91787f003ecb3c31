package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// flowNow is a flow as the API shows it.
type flowNow struct {
	State string
	Jobs  []struct{ Name, JobID, Status string }
}

func (s *server) flow(id string) (f flowNow) {
	s.t.Helper()
	a := do(s.t, "GET", s.base+"/api/flows/"+id, "")
	if err := json.Unmarshal(a.body, &f); err != nil || a.status != 200 {
		s.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	return f
}

// Servers are killed in turn and Redis loses everything twice while a random flow runs. Each job ends as an independent
// model says, and none begins before all that it waits for has ended: with the journal and without it.
func TestFlowUnderKills(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{"journal": "TIERQ_JOURNAL=on", "no journal": "TIERQ_JOURNAL=off"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heavy(t)
			flowUnderKills(t, env, uint64(len(name)))
		})
	}
}

func flowUnderKills(t *testing.T, env string, seed uint64) {
	t.Helper()
	c, r := newCluster(t), rand.New(rand.NewPCG(seed, 45))
	file := filepath.Join(t.TempDir(), "runs")
	start := func() *server { return c.start(env, "TIERQ_WORKERS=4") }
	servers := []*server{start(), start()}
	d := testkit.RandomDAG(r, flowSize, false)
	id := servers[0].submitDAG(d, file)
	for n := range flowKills {
		<-time.After(time.Duration(200+r.IntN(800)) * time.Millisecond)
		if n%3 == 2 {
			c.restartRedisEmpty()
			continue
		}
		at := n % 2
		if err := servers[at].Kill(); err != nil {
			t.Fatal(err)
		}
		servers[at] = start()
	}
	want := d.Ends(testkit.DAGEnds{}).Status
	var f flowNow
	testkit.Eventually(t, 120*time.Second, "the flow ends or is stuck", func() (bool, string) {
		f = servers[0].flow(id)
		return f.State != "RUNNING", fmt.Sprintf("%+v", f)
	})
	ids := map[string]string{}
	for _, j := range f.Jobs {
		ids[j.Name] = j.JobID
		if j.Status != want[j.Name] {
			t.Errorf("%s is %s instead of %s", j.Name, j.Status, want[j.Name])
		}
	}
	if len(f.Jobs) != len(want) {
		t.Errorf("%d jobs instead of %d", len(f.Jobs), len(want))
	}
	edges := c.inOrder(servers[0], d, ids, want)
	_, marks := executions(t, file)
	runs := 0
	for _, m := range marks {
		runs += len(m)
	}
	t.Logf("evidence: %d jobs, %s, %d edges in order, %d marks of %d jobs that ran", len(f.Jobs), f.State, edges, runs,
		len(marks))
}

// submitDAG submits a DAG as a flow, and returns its id. Jobs that are to fail count in a file that cannot be written.
func (s *server) submitDAG(d *testkit.DAG, file string) string {
	s.t.Helper()
	jobs := map[string]any{}
	for _, j := range d.Jobs {
		to := file
		if j.Fate == "FAILED" {
			to = filepath.Join(file, "not", "there")
		}
		jobs[j.Name] = map[string]any{
			"type": "COUNT", "tier": "PAID", "payload": map[string]any{"file": to, "sleepMs": 150}, "after": j.After,
			"onFailure": j.OnFailure, "maxRetries": 0,
		}
	}
	body, err := json.Marshal(map[string]any{"name": "random", "jobs": jobs})
	if err != nil {
		s.t.Fatal(err)
	}
	a := do(s.t, "POST", s.base+"/api/flows", string(body))
	var made struct{ FlowID string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
		s.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	return made.FlowID
}

// inOrder checks that no job was first claimed before the ends of all that it waits for, and returns how many edges it
// compared.
func (c *cluster) inOrder(s *server, d *testkit.DAG, ids, ends map[string]string) (edges int) {
	c.t.Helper()
	type times struct{ began, ended string }
	all := map[string]times{}
	for name, id := range ids {
		if ends[name] == "WAITING" {
			continue
		}
		var j struct{ FirstTriedAt, CompletedAt string }
		a := do(c.t, "GET", s.base+"/api/jobs/"+id, "")
		if err := json.Unmarshal(a.body, &j); err != nil || a.status != 200 {
			c.t.Fatalf("%d %s, %v", a.status, a.body, err)
		}
		all[name] = times{j.FirstTriedAt, j.CompletedAt}
	}
	for i := range d.Jobs {
		j := &d.Jobs[i]
		began := all[j.Name].began
		if began == "" {
			continue
		}
		for _, parent := range d.Parents(j) {
			if edges++; all[parent].ended == "" || all[parent].ended > began {
				c.t.Errorf("%s began at %s, and %s ended at %s", j.Name, began, parent, all[parent].ended)
			}
		}
	}
	return edges
}

// An embedded server is killed in the middle of a flow, and goes on with it. The jobs of the flow read the results of
// their parents; so does a job that was added while its parent ran.
func TestFlowEmbedded(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	e.start()
	file := filepath.Join(t.TempDir(), "runs")
	body := fmt.Sprintf(`{"jobs":{"a":%s,"b":%s,"c":%s,"d":%s}}`,
		step(file, 300), step(file, 300, "a"), step(file, 10, "a"),
		step(file, 10, "b", "c"))
	a := do(t, "POST", e.server.base+"/api/flows", body, "Idempotency-Key", "k")
	var made struct{ FlowID string }
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != 201 {
		t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	for range 3 {
		<-time.After(200 * time.Millisecond)
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
		e.start()
	}
	again := do(t, "POST", e.server.base+"/api/flows", body, "Idempotency-Key", "k")
	if again.status != 201 || string(again.body) != string(a.body) {
		t.Errorf("the repeat is answered %d %s", again.status, again.body)
	}
	testkit.Eventually(t, 60*time.Second, "it completes", func() (bool, string) {
		f := e.server.flow(made.FlowID)
		return f.State == "COMPLETED", fmt.Sprint(f)
	})
}

// step is a job of a flow that counts.
func step(file string, sleepMs int, after ...string) string {
	names := `"` + strings.Join(after, `","`) + `"`
	if len(after) == 0 {
		names = ""
	}
	return strings.TrimSuffix(counting(file, sleepMs), "}") + `,"after":[` + names + `]}`
}
