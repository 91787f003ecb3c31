package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// replacing is a schedule whose waiting job a later occurrence replaces. No worker claims from its queue.
const replacing = `{"everySeconds":1,"overlap":"replace","job":{"tier":"public","queue":"idle","type":"SIMULATION"}}`

// ranAs asks for a job of a schedule, and returns its id; "" if the server gave no such answer.
func ranAs(base, name, request string) (id string, err error) {
	a, err := try(http.MethodPost, base+"/admin/schedules/"+name+"/run", "", "Idempotency-Key", request)
	if err != nil || a.status != http.StatusAccepted {
		return "", errors.Join(err, fmt.Errorf("%d %s", a.status, a.body))
	}
	var made struct{ JobID string }
	return made.JobID, json.Unmarshal(a.body, &made)
}

// A request to run a schedule that replaces is repeated a thousand times at once: it makes one job, which lives.
func TestReplaces_RepeatedRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	servers := []*server{c.start(), c.start()}
	servers[0].changes(http.MethodPut, "/admin/queues/idle", `{}`, http.StatusOK)
	servers[0].schedules("s", `{"cron":"0 0 1 1 *","overlap":"replace","job":{"tier":"public","queue":"idle",`+
		`"type":"SIMULATION"}}`)
	testkit.Eventually(t, 10*time.Second, "the other server knows the queue", func() (bool, string) {
		a := do(t, http.MethodPost, servers[1].base+"/public/submit", `{"type":"SIMULATION","queue":"idle"}`)
		return a.status == http.StatusAccepted, string(a.body)
	})
	const rounds, callers = 10, 100
	var last string
	for round := range rounds {
		var group sync.WaitGroup
		var mu sync.Mutex
		ids := map[string]int{}
		for n := range callers {
			group.Go(func() {
				id, err := ranAs(servers[n%2].base, "s", fmt.Sprint(round))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[id]++
			})
		}
		group.Wait()
		if len(ids) != 1 {
			t.Fatalf("round %d: %v", round, ids)
		}
		for id := range ids {
			if j := servers[0].poll(id); j.Status != "PENDING" && j.Status != "HELD" {
				t.Errorf("round %d: the job is %s", round, j.Status)
			}
			if last != "" {
				servers[0].await(last, "CANCELLED", 10*time.Second)
			}
			last = id
		}
	}
}

// Twenty schedules that replace fire while SQL hangs, servers are killed, half of them right after the transaction, and
// operators pause schedules, delete others and run them. Nowhere is a job cancelled without a successor that lives, and
// the successor has the first job's place.
func TestReplaces_Faults(t *testing.T) {
	heavy(t)
	m := testkit.NewMariaDB(t)
	c := clusterWith(t, m.NewDatabase(t))
	servers := []*server{c.start(), c.start()}
	servers[0].changes(http.MethodPut, "/admin/queues/idle", `{}`, http.StatusOK)
	const schedules = 20
	name := func(n int) string { return fmt.Sprintf("s%d", n) }
	for n := range schedules {
		servers[0].schedules(name(n), replacing)
	}
	hangs := func() {
		t.Helper()
		if err := m.Freeze(); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if err := m.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	asks := func(method, path string) { _, _ = try(method, servers[0].base+"/admin/schedules/"+path, "") }
	lethal := 0
	for round := range 4 {
		<-time.After(2 * time.Second) // they fire
		hangs()
		for n := range schedules {
			if n%4 == round {
				asks(http.MethodPost, name(n)+"/pause")
				_, _ = ranAs(servers[0].base, name(n), fmt.Sprint("run ", round))
				asks(http.MethodPost, name(n)+"/resume")
			}
		}
		if servers[1].Exited() {
			lethal++
		}
		_ = servers[1].Kill()
		servers[1] = c.start("TIERQ_FAILPOINTS=schedule.after=kill@5")
		asks(http.MethodDelete, name(round))
	}
	_ = servers[1].Kill()
	servers[1] = c.start()
	for n := range schedules {
		asks(http.MethodPost, name(n)+"/pause")
	}
	fired, deleted := 0, 0
	for n := range schedules {
		a, err := try(http.MethodGet, servers[0].base+"/admin/schedules/"+name(n), "")
		if err != nil {
			t.Fatal(err)
		}
		if a.status == http.StatusNotFound {
			deleted++
			continue
		}
		s := servers[0].schedule(name(n))
		var waiting, cancelled []string
		testkit.Eventually(t, 20*time.Second, "one job of "+name(n)+" waits", func() (bool, string) {
			waiting, cancelled = nil, nil
			for _, r := range s.Runs {
				switch {
				case r.Status != "FIRED":
				case servers[0].poll(r.JobID).Status == "CANCELLED":
					cancelled = append(cancelled, r.JobID)
				default:
					waiting = append(waiting, r.JobID)
				}
			}
			return len(waiting) == 1, fmt.Sprint(waiting, cancelled)
		})
		fired += len(waiting) + len(cancelled)
		first, last := s.Runs[len(s.Runs)-1], servers[0].poll(waiting[0])
		if first.Status != "FIRED" {
			t.Fatalf("%+v", first)
		}
		if is := servers[0].poll(first.JobID); !last.ArrivedAt.Equal(is.ArrivedAt) {
			t.Errorf("%s: the job that waits arrived at %s, the first one at %s", name(n), last.ArrivedAt, is.ArrivedAt)
		}
	}
	if fired < 100 || deleted == 0 {
		t.Errorf("%d occurrences fired, %d schedules deleted: too few", fired, deleted)
	}
	t.Logf("evidence: %d occurrences fired, %d servers died between the commit and the script", fired, lethal)
}

// Jobs wait in the queue for longer than the interval of a schedule with overlap replace. Its jobs run all the same: each
// job has the arrival of the job that it replaces, so it does not begin to wait anew.
func TestReplaces_Runs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_WORKERS=1")
	body := `{"type":"SIMULATION","payload":{"steps":[{"type":"SLEEP","durationMs":200}]}}`
	for range 20 { // four seconds of work wait, always
		s.submit("public", body)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				_, _ = try(http.MethodPost, s.base+"/public/submit", body)
			}
		}
	}()
	s.schedules("s", `{"everySeconds":1,"overlap":"replace","job":{"tier":"public","type":"SIMULATION"}}`)
	testkit.Eventually(t, 30*time.Second, "a job of the schedule has run", func() (bool, string) {
		ends := map[string]int{}
		for _, r := range s.schedule("s").Runs {
			if r.Status == "FIRED" {
				ends[s.poll(r.JobID).Status]++
			}
		}
		return ends["COMPLETED"] > 0 && ends["CANCELLED"] > 0, fmt.Sprint(ends)
	})
	close(stop)
	<-stopped
}
