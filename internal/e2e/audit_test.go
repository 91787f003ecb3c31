package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// doctor runs tierq doctor against a server and returns its output and exit code.
func (c *cluster) doctor(s *server, args ...string) (text string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"doctor", "--server", s.base}, args...)...)
	cmd.Env, cmd.Dir = []string{}, c.t.TempDir()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Redis is edited by hand. The workers pass each broken entry once and run all other jobs. doctor names the errors
// and repairs what is safe to repair. What a person repairs afterwards returns to its place. In the end every job
// that was not deleted has its outcome.
func TestDoctor(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	c := newCluster(t)
	front := c.start("TIERQ_ROLES=api,recovery")
	ctx, jobs := t.Context(), make([]string, 7)
	for i := range jobs {
		jobs[i] = front.submit("paid", "{}")
	}
	key := func(i int) string { return queue.JobKey(job.ID(jobs[i])) }
	z := func(name string, i int) { c.rdb.ZAdd(ctx, "{tierq:0}:"+name, redis.Z{Score: 1, Member: jobs[i]}) }
	c.rdb.ZRem(ctx, "{tierq:0}:main:queue", jobs[0])
	c.rdb.ZAdd(ctx, "{tierq:0}:processing:by-maxtime", redis.Z{Score: 9e12, Member: jobs[0]}) // it does not run
	c.rdb.Del(ctx, key(1))
	z("scheduled", 2)
	z("processing:by-heartbeat", 2)
	third, fourth := c.record(jobs[3]), c.record(jobs[4])
	c.edit("job", jobs[3], func(record string) string { return "DREAMING " + record })
	c.rdb.Del(ctx, key(4))
	c.rdb.HSet(ctx, key(4), "record", fourth) // a hash, as an earlier build made
	c.rdb.Set(ctx, "{tierq:0}:clocks", "x", 0)
	c.rdb.HSet(ctx, "{tierq:0}:counters", "fresh", 99)
	z("main:queue", 5) // at a wrong place, but present

	c.start("TIERQ_ROLES=worker,recovery")
	for _, i := range []int{5, 6} {
		front.await(jobs[i], "COMPLETED", 20*time.Second)
	}
	testkit.Eventually(t, 10*time.Second, "the doctor sees the workers, and what they passed by", func() (bool, string) {
		text, code := c.doctor(front)
		return code == 0 && strings.Contains(text, "ok      workers") && strings.Contains(text, "warn    quarantine"), text
	})

	text, code := c.doctor(front, "--repair")
	for _, want := range []string{"missing", "misplaced", "counter", "unknown_key", "{tierq:0}:clocks", jobs[1], jobs[3],
		jobs[4]} {
		if !strings.Contains(text, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, text)
		}
	}
	if code != 0 {
		t.Errorf("code %d\n%s", code, text)
	}
	front.await(jobs[0], "COMPLETED", 20*time.Second)
	front.await(jobs[2], "COMPLETED", 20*time.Second)

	c.rdb.Del(ctx, "{tierq:0}:clocks")
	if text, _ = c.doctor(front, "--repair", "-o", "name"); strings.Count(text, "\n") != 3 {
		t.Errorf("in quarantine: %q", text)
	}
	c.rdb.Set(ctx, key(3), third, 0)
	c.rdb.Set(ctx, key(4), fourth, 0)
	c.rdb.ZRem(ctx, "{tierq:0}:quarantine", jobs[1])
	c.doctor(front, "--repair")
	front.await(jobs[3], "COMPLETED", 20*time.Second)
	front.await(jobs[4], "COMPLETED", 20*time.Second)
	testkit.Eventually(t, 20*time.Second, "a pass finds nothing", func() (bool, string) {
		text, code := c.doctor(front, "--repair")
		return code == 0 && strings.Contains(text, "ok      quarantine") && strings.Contains(text, "ok      audit"), text
	})
	c.quiet(20 * time.Second)
}

// With the journal on, a job that was deleted from Redis is restored, whole, and runs.
func TestDoctorGivesBackFromTheJournal(t *testing.T) {
	t.Attr("proves", "F53 F19")
	t.Parallel()
	c := newCluster(t)
	front := c.start("TIERQ_ROLES=api,recovery", "TIERQ_JOURNAL=on")
	ctx := t.Context()
	deleted, other := front.submit("paid", "{}"), front.submit("paid", "{}")
	// Until the journal knows that Redis took the jobs, the submits may take the rows back, and no audit restores them.
	testkit.Eventually(t, 10*time.Second, "the journal knows that Redis has the jobs", func() (bool, string) {
		var open int
		c.row("SELECT COUNT(*) FROM accepted_jobs WHERE submitting = 1", &open)
		return open == 0, fmt.Sprint(open, " rows may be taken back")
	})
	c.deleteRecord(deleted)
	if _, err := c.db.ExecContext(ctx,
		"UPDATE accepted_jobs SET recorded_at = recorded_at - INTERVAL 5 MINUTE"); err != nil {
		t.Fatal(err)
	}
	text, _ := c.doctor(front, "--repair")
	if !strings.Contains(text, "lost") || strings.Contains(text, "QUARANTINED") {
		t.Errorf("the doctor says:\n%s", text)
	}
	c.start("TIERQ_ROLES=worker,recovery", "TIERQ_JOURNAL=on")
	for _, id := range []string{deleted, other} {
		front.await(id, "COMPLETED", 20*time.Second)
	}
	c.quiet(20 * time.Second)
}
