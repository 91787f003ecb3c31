package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// entry is the answer to one entry of a batch.
type entry struct {
	JobID     string `json:"jobId"`
	Status    string `json:"currentJobStatus"`
	Replayed  bool   `json:"idempotencyReplayed"`
	ErrorCode string `json:"errorCode"`
}

func (s *server) batch(tier, media string, entries []string) (all []entry, a answer) {
	s.t.Helper()
	body := "[" + strings.Join(entries, ",") + "]"
	if media == "application/x-ndjson" {
		body = strings.Join(entries, "\n") + "\n"
	}
	a = do(s.t, http.MethodPost, s.base+"/"+tier+"/submit/batch", body, "Content-Type", media)
	var r struct {
		Data []entry `json:"apiResponseData"`
	}
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != http.StatusAccepted || len(r.Data) != len(entries) {
		s.t.Fatalf("%d, %d answers to %d entries: %.500s", a.status, len(r.Data), len(entries), a.body)
	}
	return r.Data, a
}

// A call submits 1000 jobs, one per line: one line is not JSON, and one repeats a key. Each line has its answer,
// in its place; 998 jobs run, once each.
func TestBatchOfAThousand(t *testing.T) {
	t.Attr("proves", "S4-P1")
	t.Parallel()
	const wrong, first, again = 500, 100, 900
	send := func() (c *cluster, file string, answers []entry, a answer) {
		c, file = newCluster(t), filepath.Join(t.TempDir(), "runs")
		lines := make([]string, 1000)
		for i := range lines {
			lines[i] = counting(file, 0)
		}
		lines[wrong] = `{"type":"COUNT",`
		keyed := strings.TrimSuffix(counting(file, 0), "}") + `,"idempotencyKey":"one-of-a-kind"}`
		lines[first], lines[again] = keyed, keyed
		answers, a = c.start("TIERQ_WORKERS=32").batch("unpaid", "application/x-ndjson", lines)
		return c, file, answers, a
	}
	c, file, answers, a := send()
	busy := func(e entry) bool { return e.ErrorCode == "OUTCOME_UNKNOWN" || e.ErrorCode == "SYSTEM_UNHEALTHY" }
	for tries := 1; tries < 4 && slices.ContainsFunc(answers, busy); tries++ {
		t.Log("the machine was too busy for a thousand jobs in a second and a half: once more, in a cluster of its own")
		c, file, answers, a = send()
	}
	place := map[string]int{}
	var ids []string
	for i, e := range answers {
		switch i {
		case wrong:
			if e.ErrorCode != "INVALID_REQUEST" || e.JobID != "" {
				t.Errorf("the line that is no JSON: %+v", e)
			}
		case again:
			if e.JobID != answers[first].JobID || !e.Replayed {
				t.Errorf("the repeated line: %+v, the first: %+v", e, answers[first])
			}
		default:
			if other, twice := place[e.JobID]; twice || e.JobID == "" || e.ErrorCode != "" || e.Replayed {
				t.Errorf("line %d: %+v; line %d has that id", i, e, other)
			}
			place[e.JobID] = i
			ids = append(ids, e.JobID)
		}
	}
	t.Logf("1000 lines answered in %s", a.took.Round(time.Millisecond))
	outcomes := c.settled(30*time.Second, ids...)
	order, marks := executions(t, file)
	if len(ids) != 998 || len(outcomes) != 998 || len(order) != 998 || len(marks) != 998 {
		t.Errorf("%d ids, %d outcomes, %d runs of %d jobs; want 998 of each", len(ids), len(outcomes), len(order), len(marks))
	}
}

// Two processes send batches to a queue with too little room. As many entries are accepted as there is room for,
// each of the others is refused separately, and all accepted jobs run.
func TestBatchWithoutRoom(t *testing.T) {
	t.Attr("proves", "S2-P8")
	t.Parallel()
	c := newCluster(t)
	servers := []*server{c.start("TIERQ_ROLES=api", "TIERQ_CAPACITY=100"),
		c.start("TIERQ_ROLES=api", "TIERQ_CAPACITY=100")}
	entries := make([]string, 70)
	for i := range entries {
		entries[i] = `{}`
	}
	entries[0] = `{"delaySeconds":1}` // needs no room until it is due
	var got [2][]entry
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() {
			var a answer
			if got[i], a = s.batch("public", "application/json", entries); a.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
	all.Wait()
	var ids []string
	full := 0
	for _, answers := range got {
		for i, e := range answers {
			switch {
			case e.ErrorCode == "" && e.JobID != "" && (e.Status == "SCHEDULED") == (i == 0):
				ids = append(ids, e.JobID)
			case e.ErrorCode == "QUEUE_FULL" && e.JobID == "" && i > 0:
				full++
			default:
				t.Errorf("entry %d: %+v", i, e)
			}
		}
	}
	if len(ids) != 2+60 || full != 138-60 {
		t.Errorf("%d accepted, %d refused; want 2 delayed and PUBLIC's 60 of 100", len(ids), full)
	}
	for _, wrong := range c.audit() {
		t.Error("audit: " + wrong)
	}
	c.start("TIERQ_ROLES=worker,recovery", "TIERQ_CAPACITY=100")
	if outcomes := c.settled(20*time.Second, ids...); len(outcomes) != len(ids) {
		t.Errorf("%d outcomes of %d jobs", len(outcomes), len(ids))
	}
}
