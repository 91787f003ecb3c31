package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two queues of one type each, two workers, 10,000 jobs that name no queue: each job runs once, at the worker of its
// type's queue, although either worker knows both types.
func TestWorkersElsewhere_TypesApart(t *testing.T) {
	t.Parallel()
	const jobs = 10_000
	text, err := os.ReadFile(filepath.Join("testdata", "libraries", "types.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p := workerOf(t, "go", string(text))
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery", "TIERQ_ADDRESS_RATE=1000000")
	queueOf := map[string]string{"RESIZE": "pictures", "SEND": "mails"}
	for typ, queue := range queueOf {
		s.changes(http.MethodPut, "/admin/queues/"+queue, fmt.Sprintf(`{"types":[%q],"limit":20000}`, typ), 200)
		p.with("TAKES="+queue).start(t, s)
	}
	types, ids := map[string]string{}, make([]string, 0, jobs)
	for range jobs / 1000 {
		entries, of := make([]string, 1000), make([]string, 1000)
		for i := range entries {
			of[i] = []string{"RESIZE", "SEND"}[i%2]
			entries[i] = fmt.Sprintf(`{"type":%q}`, of[i])
		}
		answers, _ := s.batch("paid", "application/json", entries)
		for i, one := range answers {
			types[one.JobID], ids = of[i], append(ids, one.JobID)
		}
	}
	for id, outcome := range c.settled(2*time.Minute, ids...) {
		if outcome != "COMPLETED" {
			t.Errorf("%s is %s", id, outcome)
		}
	}
	n := 0
	c.each(`SELECT job_id, result FROM job_results`, func(id, result string) {
		var got struct{ Type, Queue string }
		n++
		if err := json.Unmarshal([]byte(result), &got); err != nil || got.Type != types[id] || got.Queue != queueOf[got.Type] {
			t.Errorf("the job %s of type %s ran as %s", id, types[id], result)
		}
	})
	if n != jobs {
		t.Errorf("%d results of %d jobs", n, jobs)
	}
	c.each(`SELECT job_id, outcome FROM job_attempts WHERE outcome <> 'COMPLETED'`, func(id, outcome string) {
		t.Errorf("an attempt of %s ended as %s", id, outcome)
	})
	c.quiet(20 * time.Second)
}
