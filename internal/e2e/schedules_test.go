package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// became is an occurrence, fired or missed, as the API shows it.
type became struct {
	Occurrence, Through time.Time
	Status              string
	JobID               string
	Asked               bool
	Missed              *int
	Reason              string
}

// shownSchedule is a schedule as the API shows it.
type shownSchedule struct {
	Name           string
	LastOccurrence time.Time
	Next           []time.Time
	Paused         *struct{ Reason *string }
	Runs           []became
}

func (s *server) schedule(name string) shownSchedule {
	s.t.Helper()
	return get[shownSchedule](s.t, s.base+"/admin/schedules/"+name)
}

// schedules stores a schedule.
func (s *server) schedules(name, body string) {
	s.t.Helper()
	s.changes(http.MethodPut, "/admin/schedules/"+name, body, http.StatusOK)
}

// ledgerOfRuns has a job's id for each second's occurrence of some schedules, or why it was missed. A schedule
// remembers its last hundred jobs, so the ledger is filled while the schedules run.
type ledgerOfRuns map[string]map[int64]string

// read adds what a server tells of the schedules. It fails the test if an occurrence has become two things.
func (l ledgerOfRuns) read(t *testing.T, base string) error {
	t.Helper()
	for name, of := range l {
		a, err := try(http.MethodGet, base+"/admin/schedules/"+name, "")
		if err != nil || a.status != http.StatusOK {
			return fmt.Errorf("%d %s: %w", a.status, a.body, err)
		}
		var s shownSchedule
		if err := json.Unmarshal(a.body, &s); err != nil {
			return err
		}
		for _, r := range s.Runs {
			what := r.Reason
			if r.Status == "FIRED" {
				what = r.JobID
			}
			for at := r.Occurrence; !at.After(r.Through); at = at.Add(time.Second) {
				if is := of[at.Unix()]; is != "" && is != what {
					t.Errorf("%s at %s is %s, and %s", name, at, is, what)
				}
				of[at.Unix()] = what
			}
			if n := int(r.Through.Sub(r.Occurrence).Seconds()) + 1; r.Status == "MISSED" && (r.Missed == nil || *r.Missed != n) {
				t.Errorf("%s at %s: %d are missed, not %v", name, r.Occurrence, n, r.Missed)
			}
		}
	}
	return nil
}

// whole checks that no second is left out, and returns the ids of the jobs and how many seconds have each reason.
func (l ledgerOfRuns) whole(t *testing.T) (ids []string, missed map[string]int) {
	t.Helper()
	missed, seen := map[string]int{}, map[string]bool{}
	for name, of := range l {
		first, last := int64(1<<62), int64(0)
		for at := range of {
			first, last = min(first, at), max(last, at)
		}
		for at := first; at <= last; at++ {
			switch what := of[at]; {
			case what == "":
				t.Errorf("%s: nothing became of the occurrence at %s", name, time.Unix(at, 0).UTC())
			case strings.Contains(what, "-"):
				if seen[what] {
					t.Errorf("%s: the job %s is of two occurrences", name, what)
				}
				seen[what] = true
				ids = append(ids, what)
			default:
				missed[what]++
			}
		}
	}
	return ids, missed
}

// Five schedules of every second go on while each of three servers is killed in turn, half of them between the commit
// that fires and the script that gives Redis the job, and while Redis is killed twice, once losing its data. Each
// occurrence becomes exactly one job, which ends once, or is missed with a reason.
func TestSchedules_Killed(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"off", "on"} {
		t.Run("journal "+journal, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			file := filepath.Join(t.TempDir(), "runs")
			env := []string{"TIERQ_JOURNAL=" + journal, "TIERQ_WORKERS=4"}
			servers := []*server{c.start(env...), c.start(env...), c.start(env...)}
			l := ledgerOfRuns{}
			for i, more := range []string{
				`"overlap":"allow"`, `"overlap":"skip"`, `"overlap":"one"`, `"overlap":"replace"`,
				`"overlap":"allow","catchUp":"all"`,
			} {
				name := fmt.Sprintf("s%d", i)
				l[name] = map[int64]string{}
				servers[0].schedules(name, `{"everySeconds":1,`+more+`,"job":{"tier":"public",`+counting(file, 20)[1:]+`}`)
			}
			kills, lethal := 0, 0
			began, span := time.Now(), scheduleSpan
			for round := 0; time.Since(began) < span; round++ {
				victim := round % len(servers)
				part := 3 * time.Since(began) / span
				if part > time.Duration(kills) { // after a third, and after two thirds
					kills++
					if kills == 2 {
						c.restartRedisEmpty()
					} else {
						if err := errors.Join(c.redis.Kill(), c.redis.Restart()); err != nil {
							t.Fatal(err)
						}
					}
				}
				s := servers[victim]
				if round%2 == 1 { // it may have been killed by its own failpoint
					if s.Exited() {
						lethal++
					}
					_ = s.Kill()
					servers[victim] = c.start(env...)
				} else {
					_ = s.Kill()
					servers[victim] = c.start(append(env, "TIERQ_FAILPOINTS=schedule.after=kill@4")...)
				}
				testkit.Eventually(t, 30*time.Second, "the runs are read", func() (bool, string) {
					err := l.read(t, servers[victim].base)
					return err == nil, fmt.Sprint(err)
				})
				<-time.After(2 * time.Second) // of load
			}
			for _, s := range servers {
				_ = s.Kill()
			}
			last := c.start(env...)
			for name := range l {
				last.changes(http.MethodPost, "/admin/schedules/"+name+"/pause", "", http.StatusOK)
			}
			if err := l.read(t, last.base); err != nil {
				t.Fatal(err)
			}
			span = time.Since(began)
			ids, missed := l.whole(t)
			outcomes := c.settled(60*time.Second, ids...)
			if len(outcomes) != len(ids) {
				t.Errorf("%d jobs ended, and %d were fired", len(outcomes), len(ids))
			}
			ends := map[string]int{}
			for _, outcome := range outcomes {
				ends[outcome]++
			}
			if ends["FAILED"] > 0 || len(ids) < 2*int(scheduleSpan.Seconds()) {
				t.Errorf("too few jobs: %v", ends)
			}
			t.Logf("evidence: in %s %d occurrences became jobs (%v); missed %v; Redis killed %d times; %d servers died "+
				"between the commit and the script", span.Round(time.Second), len(ids), ends, missed, kills, lethal)
		})
	}
}

// The example of docs/API.md: a nightly report is stored, run once, and makes its report.
func TestSchedules_Example(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "../../docs/API.md"), "\n## Schedules\n")
	_, program, _ := strings.Cut(section, "```sh\n")
	program, _, _ = strings.Cut(program, "```")
	e := newEmbedded(t)
	e.start()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", program)
	cmd.Env = append(os.Environ(), "TIERQ_URL="+e.server.base)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := e.server.schedule("nightly-report")
	if len(s.Next) != 5 || s.Next[0].In(berlin(t)).Format("15:04") != "02:30" || len(s.Runs) != 1 || !s.Runs[0].Asked {
		t.Fatalf("%+v", s)
	}
	id := s.Runs[0].JobID
	e.server.await(id, "COMPLETED", 20*time.Second)
	if a := do(t, http.MethodGet, e.server.base+"/jobs/"+id+"/artifact", ""); a.status != http.StatusOK ||
		!strings.Contains(a.header.Get("Content-Type"), "csv") {
		t.Errorf("%d %v", a.status, a.header)
	}
	job := do(t, http.MethodGet, e.server.base+"/jobs/"+id, "")
	if !strings.Contains(string(job.body), `"schedule":"nightly-report"`) {
		t.Errorf("%s", job.body)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// A schedule of every second goes on in an embedded server that is killed: each occurrence is one job, or is missed.
func TestSchedules_Embedded(t *testing.T) {
	t.Parallel()
	e := newEmbedded(t)
	e.start()
	e.server.schedules("s", `{"everySeconds":1,"overlap":"allow","catchUp":"all",`+
		`"job":{"tier":"public","type":"SIMULATION"}}`)
	l := ledgerOfRuns{"s": map[int64]string{}}
	for range 3 {
		before := len(l["s"])
		testkit.Eventually(t, 20*time.Second, "two jobs more", func() (bool, string) {
			err := l.read(t, e.server.base)
			return err == nil && len(l["s"]) >= before+2, fmt.Sprint(len(l["s"]), err)
		})
		if err := e.server.Kill(); err != nil {
			t.Fatal(err)
		}
		e.start()
	}
	e.server.changes(http.MethodPost, "/admin/schedules/s/pause", "", http.StatusOK)
	if err := l.read(t, e.server.base); err != nil {
		t.Fatal(err)
	}
	ids, missed := l.whole(t)
	if outcomes := e.settled(60*time.Second, len(ids)); len(outcomes) != len(ids) || len(missed) > 0 {
		t.Errorf("%d jobs ended, %d were fired; missed are %v", len(outcomes), len(ids), missed)
	}
}

// The schedules of a key that is revoked are paused and say so. Another admin takes one over.
func TestSchedules_RevokedKey(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := c.start("TIERQ_ADMIN_KEY=" + theAdmin)
	made := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ops","role":"admin"}`)
	const path, body = "/admin/schedules/s", `{"everySeconds":1,"job":{"type":"SIMULATION"}}`
	if a := s.asks(made.Key, http.MethodPut, path, body); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	shown := func() (now shownSchedule) {
		a := s.asks(theAdmin, http.MethodGet, path, "")
		if err := json.Unmarshal(a.body, &now); err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return now
	}
	testkit.Eventually(t, 20*time.Second, "it fires", func() (bool, string) {
		now := shown()
		return len(now.Runs) > 1, fmt.Sprintf("%+v", now)
	})
	if a := s.asks(theAdmin, http.MethodDelete, "/admin/keys/"+made.ID, ""); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.body)
	}
	testkit.Eventually(t, 20*time.Second, "it is paused", func() (bool, string) {
		now := shown()
		return now.Paused != nil && strings.Contains(*now.Paused.Reason, made.ID), fmt.Sprintf("%+v", now)
	})
	for _, step := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPost, path + "/resume", http.StatusConflict}, {http.MethodPost, path + "/run", http.StatusConflict},
		{http.MethodPut, path, http.StatusOK}, {http.MethodPost, path + "/resume", http.StatusOK},
	} {
		send := ""
		if step.method == http.MethodPut {
			send = body
		}
		if a := s.asks(theAdmin, step.method, step.path, send); a.status != step.status {
			t.Errorf("%s %s: %d %s", step.method, step.path, a.status, a.body)
		}
	}
	was := shown()
	testkit.Eventually(t, 20*time.Second, "it fires for its new owner", func() (bool, string) {
		now := shown()
		return now.LastOccurrence.After(was.LastOccurrence) && now.Paused == nil, fmt.Sprintf("%+v", now)
	})
}
