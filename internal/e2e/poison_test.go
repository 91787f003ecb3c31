package e2e

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// swift holds the times of a test plan. A dead process is found after the heartbeat timeout of 0.5 s, 3 s to a
// look and 2 s to the second look. The maximum time is long, so that a slow start does not look like a hang.
var swift = map[string]any{"heartbeatTimeoutMs": 500, "maxProcessingTimeMs": 60_000}

// crashes are the maxCrashes of the test's plans: how many crashes a job of a tier survives.
var crashes = map[string]int{"paid": 3, "unpaid": 2, "public": 1}

// swiftly returns swift with the crashes of a tier.
func swiftly(tier string) map[string]any {
	plan := maps.Clone(swift)
	plan["maxCrashes"] = crashes[tier]
	return plan
}

// victim is a server with all roles in one process, a poison job in its queue, and a supervisor that starts it
// again.
type victim struct {
	*cluster
	how, says string // the poison; the dying process' message
	code      int    // its exit code, -1 for a signal
	server    *server
	file      string
	poison    string
	tiers     map[string]string // of the other jobs
	crashed   map[string]bool   // pids
}

func (v *victim) add(tier string, sleepMs int) string {
	id := v.server.submit(tier, counting(v.file, sleepMs))
	v.tiers[id] = tier
	return id
}

// dies waits for the crash, and starts the server again.
func (v *victim) dies() {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), detected)
	defer cancel()
	if err := v.server.WaitOutput(ctx, "crashing job="+v.poison); err != nil {
		v.t.Fatalf("%s: %v", v.how, err)
	}
	code, err := v.server.WaitExit(ctx)
	if err != nil || code != v.code || !strings.Contains(v.server.Output(), v.says) {
		v.t.Fatalf("%s: exit %d, %v, want %d and a word of %q:\n%s", v.how, code, err, v.code, v.says, v.server.Output())
	}
	v.crashed[fmt.Sprint(v.server.Pid())] = true
	v.t.Logf("evidence: %s: %s, exit %d", v.how, line(v.server.Output(), "crashing"), code)
	v.server = v.start()
}

// A job that ends its process in a way that no recover stops is a dead letter after maxCrashes + 1 crashes, with no
// retry spent. Jobs that ran at the same time have a crash more per crash, and waiting jobs none.
func TestPoison(t *testing.T) {
	t.Attr("proves", "F46")
	t.Parallel()
	victims := []*victim{
		{how: "kill", code: -1},
		{how: "exit", code: 3},
		{how: "stack", code: 2, says: "stack overflow"},
		{how: "maps", code: 2, says: "concurrent map writes"},
		{how: "goroutinePanic", code: 2, says: "panic: a goroutine of the handler"},
		{how: "oom", code: 2, says: "goroutine "}, // the first words depend on the allocation that failed
	}
	for _, v := range victims { // all at once, step by step: they mostly wait for the watches
		v.cluster, v.file, v.tiers, v.crashed = newCluster(t), filepath.Join(t.TempDir(), "runs"), map[string]string{},
			map[string]bool{}
		v.server = v.start()
		for tier := range crashes {
			v.server.tune(strings.ToUpper(tier), swiftly(tier))
		}
		v.server.await(v.add("public", 0), "COMPLETED", 5*time.Second)
		for _, tier := range []string{"paid", "unpaid", "public"} {
			v.add(tier, 1500) // is running at both crashes
		}
		v.poison = v.server.submit("public", `{"type":"CRASH","payload":{"afterMs":500,"how":"`+v.how+`"}}`)
	}
	for _, v := range victims {
		v.dies()
		v.add("public", 1000) // is running at the second crash only
	}
	for _, v := range victims {
		v.dies()
		v.add("public", 0)
	}
	for _, v := range victims {
		t.Run(v.how, func(t *testing.T) {
			v.cluster.t, v.server.t = t, t
			v.verdict()
		})
	}
}

func (v *victim) verdict() {
	ids := []string{v.poison}
	for id := range v.tiers {
		ids = append(ids, id)
	}
	outcomes := v.settled(detected+5*time.Second, ids...)
	if code, _ := v.server.terminate(10 * time.Second); code != 0 {
		v.t.Errorf("the third process ended with %d, want it to outlive the poison", code)
	}
	var cause string
	var spent, crashed int
	v.row(`SELECT failure_cause, total_retries FROM failed_jobs WHERE job_id = '`+v.poison+`'`, &cause, &spent)
	v.row(`SELECT COUNT(*) FROM job_attempts WHERE job_id = '`+v.poison+`' AND outcome = 'HEARTBEAT_STOPPED'`, &crashed)
	if cause != "HEARTBEAT_STOPPED" || spent != 0 || crashed != crashes["public"]+1 {
		v.t.Errorf("the poison: %s after %d retries, %d crashes in its history", cause, spent, crashed)
	}
	v.explained(v.file, v.tiers, v.crashed, outcomes)
}

// explained checks every run of a COUNT job against the crashed processes. A run has an end, or its process died.
// Before a repeated run its last process died. Every crash in a job's history names a dead process and cost no retry.
// A FAILED job had one crash more than its plan allows. explained returns the number of lost runs of each job.
func (c *cluster) explained(file string, tiers map[string]string, crashed map[string]bool,
	outcomes map[string]string) map[string]int {
	c.t.Helper()
	_, marks := executions(c.t, file)
	found, spent := c.crashes(crashed), c.spent()
	lost := map[string]int{}
	for id, tier := range tiers {
		lost[id] = 0
		last, open := "", false // the process of the latest run, and whether that run has no end
		for _, m := range marks[id] {
			var attempt, pid, what string
			if _, err := fmt.Sscan(m, &attempt, &pid, &what); err != nil {
				c.t.Fatalf("mark %q: %v", m, err)
			}
			switch {
			case what == "end" && open && pid == last:
				lost[id]--
				open = false
			case what == "start" && (last == "" || crashed[last]):
				lost[id]++
				last, open = pid, true
			default:
				c.t.Errorf("%s %s: nothing explains %q in %v", tier, id, m, marks[id])
			}
		}
		switch n := found[id]; {
		case open && !crashed[last], lost[id] > n:
			c.t.Errorf("%s %s: a run without an end: %v, %d crashes", tier, id, marks[id], n)
		case spent[id] != 0:
			c.t.Errorf("%s %s lost %d retries in %d crashes", tier, id, spent[id], n)
		case outcomes[id] != "COMPLETED" && (outcomes[id] != "FAILED" || n != crashes[tier]+1):
			c.t.Errorf("%s %s is %q after %d crashes: %v", tier, id, outcomes[id], n, marks[id])
		}
	}
	return lost
}

// crashes counts the crashes in each job's history. A worker's name contains its process id.
func (c *cluster) crashes(crashed map[string]bool) map[string]int {
	c.t.Helper()
	found := map[string]int{}
	c.each(`SELECT job_id, worker FROM job_attempts WHERE outcome = 'HEARTBEAT_STOPPED'`, func(id, worker string) {
		found[id]++
		if parts := strings.Split(worker, "-"); len(parts) < 3 || !crashed[parts[len(parts)-2]] {
			c.t.Errorf("%s: a crash of %q, which did not crash", id, worker)
		}
	})
	return found
}

// spent returns how many retries each ended job has lost.
func (c *cluster) spent() map[string]int {
	c.t.Helper()
	found := map[string]int{}
	c.each(`SELECT job_id, retry_count FROM `+endings+` ORDER BY job_id, generation`, func(id, n string) {
		found[id], _ = strconv.Atoi(n)
	})
	return found
}

// each reads rows of two columns.
func (c *cluster) each(query string, row func(a, b string)) {
	c.t.Helper()
	rows, err := c.db.Query(query)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			c.t.Fatal(err)
		}
		row(a, b)
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
}
