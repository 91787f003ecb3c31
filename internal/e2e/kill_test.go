package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// detected is enough time for a dead PUBLIC worker to be found and for the next steps, on a busy machine. Tests of
// the detection itself use found.
const detected = 9*time.Second + 6*time.Second

// found returns the time within which a dead worker's job must be back, by its tier's plan: its heartbeat timeout,
// 3 s to a look, 2 s to the second look, and 1 s; and 2 s of slack for a busy machine.
func (c *cluster) found(tier string) time.Duration {
	c.t.Helper()
	ms, err := c.rdb.HGet(c.t.Context(), "{tierq}:system:config:tier:"+tier, "heartbeatTimeoutMs").Int()
	if err != nil || ms == 0 {
		c.t.Fatalf("the heartbeat timeout of %s: %d ms, %v", tier, ms, err)
	}
	const look, second, after, slack = 3 * time.Second, 2 * time.Second, time.Second, 2 * time.Second
	return time.Duration(ms)*time.Millisecond + look + second + after + slack
}

// A worker is killed in the middle of a job. Another worker runs the job again, a retry is spent, and the job ends
// once.
func TestKilledMidJob(t *testing.T) {
	t.Attr("proves", "F01 S2-P7 S0-P6 S3-Q4 T-4")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	worker := c.start("TIERQ_ROLES=worker")
	file := filepath.Join(t.TempDir(), "runs")
	bystander := api.submit("paid", counting(file, 0))
	api.await(bystander, "COMPLETED", 5*time.Second)
	id := api.submit("public", counting(file, 30_000))
	testkit.Eventually(t, 5*time.Second, "the job is running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 2, ""
	})
	if !c.leased(id) {
		t.Fatal("no lease is open")
	}
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Logf("evidence: pid %d killed while it held the lease of %s: %v", worker.Pid(), id, c.leased(id))
	killed := time.Now()
	p := api.await(id, "PENDING", c.found("PUBLIC"))
	t.Logf("taken back after %s", time.Since(killed).Round(10*time.Millisecond))
	if p.RetryCount != 1 {
		t.Errorf("retryCount %d, want 1", p.RetryCount)
	}
	// The next worker runs it to its end: the plan now allows enough time.
	c.plan("PUBLIC", "maxProcessingTimeMs", 60_000)
	c.rewrite(id, `{"file":"`+file+`","sleepMs":0}`)
	c.start("TIERQ_ROLES=worker")
	api.await(id, "COMPLETED", 5*time.Second)
	if got := c.settled(10*time.Second, id, bystander); got[id] != "COMPLETED" {
		t.Errorf("outcome %q", got[id])
	}
	_, marks := executions(t, file)
	if len(marks[id]) != 3 || !strings.HasPrefix(marks[id][1], "2 ") {
		t.Errorf("runs: %v, want a start, then a start and an end of attempt 2", marks[id])
	}
	if len(marks[bystander]) != 2 {
		t.Errorf("the bystander ran %v", marks[bystander])
	}
	var outcome, worked string
	c.row(`SELECT outcome, worker FROM job_attempts WHERE job_id = '`+id+`' AND attempt = 1`, &outcome, &worked)
	if outcome != "HEARTBEAT_STOPPED" || worked == "" {
		t.Errorf("history: attempt 1 ended %s on %q", outcome, worked)
	}
}

// A process is killed at each failpoint in a job's life, and the job then ends as the table says.
func TestKilledAtPoint(t *testing.T) {
	t.Attr("proves", "S2-P20 S4-P9")
	t.Parallel()
	for _, tc := range []struct {
		name, point string
		runs        int // executions in all
		retries     int
		evidence    string
	}{
		{"F02 between claim and handler", "claim.after", 1, 1, "failpoint claim.after hit"},
		{"F03 between handler and complete", "handler.after", 2, 1, "failpoint handler.after hit"},
		{"F04 between complete and SQL: no second run", "complete.after", 1, 0, "failpoint complete.after hit"},
		{"F05 between SQL and acknowledge", "record.after", 1, 0, "failpoint record.after hit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			file := filepath.Join(t.TempDir(), "runs")
			api := c.start("TIERQ_ROLES=api,recovery")
			doomed := c.start("TIERQ_ROLES=worker", "TIERQ_FAILPOINTS="+tc.point+"=kill")
			id := api.submit("public", counting(file, 0))
			doomed.waitFor(tc.evidence, 5*time.Second)
			if _, err := doomed.WaitExit(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("evidence: %s; then pid %d was gone; lease open: %v, status: %s", line(doomed.Output(), "failpoint"),
				doomed.Pid(), c.leased(id), api.poll(id).Status)
			c.start("TIERQ_ROLES=worker")
			p := api.await(id, "COMPLETED", detected)
			if p.RetryCount != tc.retries {
				t.Errorf("retryCount %d, want %d", p.RetryCount, tc.retries)
			}
			// Other processes may take a first attempt's outcome from the outbox 10 s after its end.
			if got := c.settled(20*time.Second, id); got[id] != "COMPLETED" {
				t.Errorf("outcome %q", got[id])
			}
			_, marks := executions(t, file)
			ends := 0
			for _, m := range marks[id] {
				if strings.HasSuffix(m, " end") {
					ends++
				}
			}
			if ends != tc.runs {
				t.Errorf("%d executions, want %d: %v", ends, tc.runs, marks[id])
			}
			var rows int
			c.row(`SELECT COUNT(*) FROM job_results WHERE job_id = '`+id+`'`, &rows)
			if rows != 1 {
				t.Errorf("%d rows, want one", rows)
			}
		})
	}
}

// A process is killed at each failpoint on a dead letter's way to SQL. There is always exactly one row.
func TestKilledWhileDiscarding(t *testing.T) {
	t.Attr("proves", "F06")
	t.Parallel()
	for _, tc := range []struct {
		name, point string
		attempts    int // in all; the last one is the dead letter's, and each before spends a retry
	}{
		{"between handler and fail", "handler.after", 2},
		{"between fail and SQL", "fail.after", 1},
		{"between SQL and acknowledge", "record.after", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			api := c.start("TIERQ_ROLES=api")
			doomed := c.start("TIERQ_ROLES=worker,recovery", "TIERQ_FAILPOINTS="+tc.point+"=kill")
			id := api.submit("public", fmt.Sprintf(`{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":%d}`,
				tc.attempts-1))
			doomed.waitFor("failpoint "+tc.point+" hit", 10*time.Second)
			if _, err := doomed.WaitExit(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("evidence: %s; then pid %d was gone; lease open: %v", line(doomed.Output(), "failpoint"), doomed.Pid(),
				c.leased(id))
			c.start("TIERQ_ROLES=worker,recovery")
			// Another process may take an outcome that was claimed from the outbox after 10 s.
			if got := c.settled(c.found("PUBLIC")+20*time.Second, id); got[id] != "FAILED" {
				t.Errorf("outcome %q", got[id])
			}
			api.await(id, "FAILED", time.Second)
			var rows, attempts, outcomes int
			var cause string
			c.row(`SELECT COUNT(*), MAX(attempts), MAX(failure_cause) FROM failed_jobs WHERE job_id = '`+id+`'`, &rows,
				&attempts, &cause)
			c.row(`SELECT COUNT(*) FROM `+endings+` WHERE job_id = '`+id+`'`, &outcomes)
			if rows != 1 || outcomes != 1 || attempts != tc.attempts || cause != "HANDLER_ERROR" {
				t.Errorf("%d dead letters and %d outcomes: %s after %d attempts, want one of each after %d", rows, outcomes, cause,
					attempts, tc.attempts)
			}
		})
	}
}

// A frozen worker wakes after its lease has expired. Its job was reclaimed and run elsewhere, and the zombie's
// report is refused.
func TestZombie(t *testing.T) {
	t.Attr("proves", "F10 S2-G2 S2-G3 S2-P5")
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api,recovery")
	c.plan("PUBLIC", "maxProcessingTimeMs", 60_000)
	zombie := c.start("TIERQ_ROLES=worker")
	file := filepath.Join(t.TempDir(), "runs")
	id := api.submit("public", counting(file, 40_000))
	testkit.Eventually(t, 5*time.Second, "the job is running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, ""
	})
	if err := zombie.Freeze(); err != nil {
		t.Fatal(err)
	}
	t.Logf("evidence: pid %d stopped; its lease is open: %v", zombie.Pid(), c.leased(id))
	api.await(id, "PENDING", c.found("PUBLIC"))
	c.rewrite(id, `{"file":"`+file+`","sleepMs":2000}`)
	c.start("TIERQ_ROLES=worker")
	api.await(id, "PROCESSING", 5*time.Second)
	if err := zombie.Thaw(); err != nil {
		t.Fatal(err)
	}
	var said string
	testkit.Eventually(t, 5*time.Second, "the zombie hears that its lease is lost, by a heartbeat or by its ending",
		func() (bool, string) {
			said = line(strings.ReplaceAll(zombie.Output(), "the lease was lost", "the lease is lost"), "the lease is lost")
			return strings.Contains(said, "job_id"), said
		})
	t.Logf("evidence: the zombie says: %s", said)
	p := api.await(id, "COMPLETED", 10*time.Second)
	if p.RetryCount != 1 {
		t.Errorf("retryCount %d, want 1", p.RetryCount)
	}
	c.settled(15*time.Second, id)
	_, marks := executions(t, file)
	if n := len(marks[id]); n != 3 || !strings.HasSuffix(marks[id][2], " end") || !strings.HasPrefix(marks[id][2], "2 ") {
		t.Errorf("runs %v: want two starts and one end, of attempt 2", marks[id])
	}
	// Its handler would sleep for half a minute more. It has returned, because its context ended.
	code, took := zombie.terminate(10 * time.Second)
	if code != 0 || took > 8*time.Second || strings.Contains(zombie.Output(), "handlers still run") {
		t.Errorf("the zombie ended with %d after %s: %s", code, took, line(zombie.Output(), "handlers still run"))
	}
}

// A worker that stands still for half of its lease keeps its job.
func TestShortFreeze(t *testing.T) {
	t.Attr("proves", "F11")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	file := filepath.Join(t.TempDir(), "runs")
	id := s.submit("public", counting(file, 3_000))
	testkit.Eventually(t, 5*time.Second, "the job is running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == 1, ""
	})
	if err := s.Freeze(); err != nil {
		t.Fatal(err)
	}
	<-time.After(1500 * time.Millisecond)
	if err := s.Thaw(); err != nil {
		t.Fatal(err)
	}
	p := s.await(id, "COMPLETED", 10*time.Second)
	_, marks := executions(t, file)
	if p.RetryCount != 0 || len(marks[id]) != 2 {
		t.Errorf("retryCount %d, runs %v", p.RetryCount, marks[id])
	}
	c.settled(15*time.Second, id)
}

// A job whose retries were spent by crashing or by hanging, or that crashed as often as its plan allows, is a dead
// letter that says so.
func TestRetriesExhausted(t *testing.T) {
	t.Attr("proves", "S2-T2 S2-S8 S0-P1 T-4 T-7")
	t.Parallel()
	for _, tc := range []struct {
		name, body, cause string
		maxCrashes        string
		retries           int
	}{
		{"by crash S2-N5", `{"type":"CRASH","payload":{"afterMs":50}}`, "HEARTBEAT_STOPPED", "", 1},
		{"by crash, counted apart", `{"type":"CRASH","payload":{"afterMs":50}}`, "HEARTBEAT_STOPPED", "1", 0},
		{"by hang S2-N6", `{"type":"HANG","payload":{"forMs":3000}}`, "MAX_TIME_EXCEEDED", "0", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			api := c.start("TIERQ_ROLES=api,recovery")
			c.plan("PUBLIC", "backoffBaseMs", 0, "maxCrashes", tc.maxCrashes)
			if tc.cause == "MAX_TIME_EXCEEDED" {
				c.plan("PUBLIC", "maxProcessingTimeMs", 1000)
			}
			before := time.Now().Add(-time.Second)
			id := api.submit("public", tc.body)
			if tc.cause == "HEARTBEAT_STOPPED" {
				for i := range 2 { // the poison kills each process that claims it: maxRetries + 1 or maxCrashes + 1 times
					doomed := c.start("TIERQ_ROLES=worker")
					doomed.waitFor("crashing job="+id, detected)
					if _, err := doomed.WaitExit(t.Context()); err != nil {
						t.Fatal(err)
					}
					t.Logf("evidence: crash %d: %s, lease open: %v", i+1, line(doomed.Output(), "crashing"), c.leased(id))
				}
			} else {
				w := c.start("TIERQ_ROLES=worker")
				w.waitFor("started job="+id+" attempt=2", detected)
				t.Logf("evidence: %s", line(w.Output(), "started job"))
			}
			p := api.await(id, "FAILED", detected)
			if p.FailureCause == nil || *p.FailureCause != tc.cause {
				t.Errorf("failureCause %v, want %s", p.FailureCause, tc.cause)
			}
			if got := c.settled(15*time.Second, id); got[id] != "FAILED" {
				t.Errorf("outcome %q", got[id])
			}
			var tier, cause string
			var retries int
			var tried, discarded time.Time
			c.row(`SELECT tier, total_retries, failure_cause, first_tried_at, discarded_at FROM failed_jobs WHERE job_id = '`+id+
				`'`,
				&tier, &retries, &cause, &timeText{&tried}, &timeText{&discarded})
			if tier != "PUBLIC" || retries != tc.retries || cause != tc.cause {
				t.Errorf("dead letter: tier %s, total_retries %d, cause %s", tier, retries, cause)
			}
			if tried.Before(before) || !discarded.After(tried) || discarded.After(time.Now().Add(time.Second)) {
				t.Errorf("first_tried_at %s, discarded_at %s", tried, discarded)
			}
		})
	}
}

// timeText scans a DATETIME(6) in the form that the driver returns without parseTime.
type timeText struct{ into *time.Time }

func (s *timeText) Scan(v any) (err error) {
	if at, ok := v.(time.Time); ok {
		*s.into = at
		return nil
	}
	*s.into, err = time.Parse("2006-01-02 15:04:05.999999", string(v.([]byte)))
	return err
}

// line returns the first line of a text that contains a word.
func line(text, word string) string {
	for l := range strings.Lines(text) {
		if strings.Contains(l, word) {
			return strings.TrimSpace(l)
		}
	}
	return "(no line with " + word + ")"
}

// A job whose handler fails is retried after its tier's backoff, and then becomes a dead letter with its own cause
// and message.
func TestHandlerFails(t *testing.T) {
	t.Attr("proves", "S2-G8 S1-S3 S4-S4")
	t.Parallel()
	c := newCluster(t)
	s := c.start()
	id := s.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]}}`)
	if p := s.await(id, "SCHEDULED", 5*time.Second); p.RetryCount != 1 {
		t.Errorf("retryCount %d while it waits for its second attempt", p.RetryCount)
	}
	p := s.await(id, "FAILED", 10*time.Second)
	if p.FailureCause == nil || *p.FailureCause != "HANDLER_ERROR" || p.RetryCount != 1 {
		t.Errorf("%+v", p)
	}
	c.settled(15*time.Second, id)
	var cause, words string
	var attempts, history int
	c.row(`SELECT failure_cause, last_error, attempts FROM failed_jobs WHERE job_id = '`+id+`'`, &cause, &words, &attempts)
	c.row(`SELECT COUNT(*) FROM job_attempts WHERE job_id = '`+id+`' AND outcome = 'HANDLER_ERROR'`, &history)
	if cause != "HANDLER_ERROR" || !strings.Contains(words, "boom") || attempts != 2 || history != 2 {
		t.Errorf("dead letter: %s %q, %d attempts, %d in the history", cause, words, attempts, history)
	}
}
