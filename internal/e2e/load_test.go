package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// load is traffic during a fault: clients that submit jobs without a pause, and one job whose lease spans the
// fault. The handlers record their executions in file.
type load struct {
	c    *cluster
	s    *server
	file string
	span string // the long job's id; "" = none
	stop chan struct{}
	h    hammer

	also      []string // jobs that the test itself submitted: they complete as well
	cancelled []string // jobs that the test cancelled
	// fenced means that the fault outlasts the long job's lease: its worker stops the job and releases it, at no
	// cost.
	fenced  bool
	repeats string // the fault by which any run may be repeated; "" = none may
	again   string // the only job that may run again
	forgets bool   // Redis may lose the jobs accepted in the 2 s before a fault
	forgot  int    // the accepted jobs that it did lose; they may have run

	faults []time.Time // the beginning of each fault
}

const reopens = 5 * time.Second // the limit of the time from a fault's end to accepted submits

// underLoad starts the traffic and returns when submits are accepted. spanMs is the duration of the long job; 0 =
// no long job.
func (c *cluster) underLoad(s *server, clients, spanMs int) *load {
	c.t.Helper()
	l := &load{c: c, s: s, file: filepath.Join(c.t.TempDir(), "runs"), stop: make(chan struct{})}
	if spanMs > 0 {
		l.span = s.submit("public", counting(l.file, spanMs))
		testkit.Eventually(c.t, 5*time.Second, "the long job is running", func() (bool, string) {
			order, _ := executions(c.t, l.file)
			return len(order) == 1, ""
		})
	}
	l.h.run(s, l.stop, clients, "unpaid", counting(l.file, 0))
	l.flows("before the fault")
	return l
}

// flows waits until submits are accepted. It returns their number so far and the time that this took.
func (l *load) flows(when string) (int, time.Duration) {
	l.c.t.Helper()
	began, before, now := time.Now(), len(l.h.snapshot()), 0
	testkit.Eventually(l.c.t, reopens+time.Second, "submits are accepted "+when, func() (bool, string) {
		now = len(l.h.snapshot())
		return now > before+8, fmt.Sprintf("%d accepted", now-before)
	})
	took := time.Since(began)
	if took > reopens {
		l.c.t.Errorf("submits were accepted %s only after %s", when, took)
	}
	return now, took
}

// suffer applies a fault for the time out and ends it. Then submits must soon be accepted again.
func (l *load) suffer(fault, heal func() error, out time.Duration) {
	l.c.t.Helper()
	before := len(l.h.snapshot())
	l.faults = append(l.faults, time.Now())
	if err := fault(); err != nil {
		l.c.t.Fatal(err)
	}
	<-time.After(out)
	during := len(l.h.snapshot())
	if err := heal(); err != nil {
		l.c.t.Fatal(err)
	}
	_, took := l.flows("after the fault")
	l.c.t.Logf("evidence: %d accepted before, %d during %s of it; accepted again %s after it", before, during-before, out,
		took.Round(10*time.Millisecond))
}

// end stops the traffic and waits until it is settled. Every answer came in time, every accepted job ended once
// and successfully, no refused job ran, and no run was repeated without a reason.
func (l *load) end() {
	t := l.c.t
	t.Helper()
	close(l.stop)
	l.h.group.Wait()
	l.h.check(t)
	ids := append(l.remembered(), l.also...)
	if l.span != "" {
		ids = append(ids, l.span)
		if p := l.s.await(l.span, "COMPLETED", 20*time.Second); p.RetryCount != 0 && l.repeats == "" {
			t.Errorf("the long job was taken for dead: retryCount %d", p.RetryCount)
		}
	}
	outcomes := l.c.settled(45*time.Second, append(ids, l.cancelled...)...)
	for _, id := range l.cancelled {
		if outcomes[id] != "CANCELLED" {
			t.Errorf("%s was cancelled and ended %s", id, outcomes[id])
		}
		delete(outcomes, id)
	}
	may := map[string]bool{}
	for _, id := range append(ids, l.h.maybe(t)...) {
		may[id] = true
	}
	for id, o := range outcomes {
		if o != "COMPLETED" || !may[id] {
			t.Errorf("%s ended %s; was it accepted, or may it have been: %v", id, o, may[id])
		}
	}
	l.ranOnce(outcomes)
}

// remembered returns the accepted jobs without those that Redis was allowed to lose, which no poll finds. A client
// may have read an answer shortly after the fault that Redis gave shortly before it.
func (l *load) remembered() (ids []string) {
	t := l.c.t
	t.Helper()
	all := l.h.snapshot()
	if !l.forgets {
		return all
	}
	for _, id := range all {
		switch {
		case do(t, http.MethodGet, l.s.base+"/result/poll?jobId="+id, "").status != http.StatusNotFound:
			ids = append(ids, id)
		case !l.late(id):
			t.Errorf("%s is lost, and was accepted more than 2 s before Redis was killed", id)
		}
	}
	l.forgot = len(all) - len(ids)
	t.Logf("Redis forgot %d of %d accepted jobs", l.forgot, len(all))
	return ids
}

// late reports whether a client got a job's answer in the 2 s before a fault: an AOF that is synced once a second
// may lack such a job.
func (l *load) late(id string) bool {
	l.h.mu.Lock()
	at := l.h.when[id]
	l.h.mu.Unlock()
	return slices.ContainsFunc(l.faults, func(began time.Time) bool {
		return at.After(began.Add(-2*time.Second)) && at.Before(began.Add(500*time.Millisecond))
	})
}

// ranOnce compares the handlers' own records with the outcomes.
func (l *load) ranOnce(outcomes map[string]string) {
	t := l.c.t
	t.Helper()
	_, marks := executions(t, l.file)
	repeated := 0
	for id := range outcomes {
		starts, ends := 0, 0
		for _, m := range marks[id] {
			if strings.HasSuffix(m, " end") {
				ends++
			} else {
				starts++
			}
		}
		if starts == 0 || ends == 0 {
			t.Errorf("%s is COMPLETED and ran %v", id, marks[id])
		}
		if starts > 1 && !(l.fenced && id == l.span) && id != l.again {
			repeated++
		}
	}
	if len(marks) > len(outcomes)+l.forgot {
		t.Errorf("%d jobs ran, %d have an outcome and %d were forgotten", len(marks), len(outcomes), l.forgot)
	}
	switch {
	case repeated > 0 && l.repeats == "":
		t.Errorf("%d jobs ran more than once", repeated)
	case repeated > 0:
		t.Logf("%d of %d jobs ran more than once, by %s", repeated, len(outcomes), l.repeats)
	}
}

// maybe returns the jobs that the server may have accepted, according to its answer.
func (h *hammer) maybe(t testing.TB) (ids []string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.unknown {
		var e struct {
			JobID string `json:"jobId"`
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil || e.JobID == "" {
			t.Errorf("an unknown outcome without a job: %s", body)
		}
		ids = append(ids, e.JobID)
	}
	return ids
}
