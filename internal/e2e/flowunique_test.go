package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// Jobs of two flows with one unique key run one after the other, and none is lost. A job that no worker claims within
// expiresIn of its release ends EXPIRED, and its flow goes on as onFailure says.
func TestFlowUniqueAndExpiry(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := newEmbedded(t)
		e.start()
		flowsWithOneKey(t, e.server)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		flowsWithOneKey(t, newCluster(t).start())
	})
}

func flowsWithOneKey(t *testing.T, s *server) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "runs")
	step := func(sleepMs int) string {
		return fmt.Sprintf(`"type":"COUNT","payload":{"file":%q,"sleepMs":%d}`, file, sleepMs)
	}
	flow := func(n int) string {
		a := do(t, "POST", s.base+"/api/flows", fmt.Sprintf(`{"name":"flow %d","jobs":{"a":{%s},
			"b":{%s,"after":["a"],"unique":{"key":"shop 7"}},
			"late":{%s,"after":["a"],"expiresIn":0.001},
			"then":{%s,"after":["late"],"onFailure":"run"},"not":{%s,"after":["late"]}}}`,
			n, step(0), step(700), step(0), step(0), step(0)))
		if a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		var made struct{ FlowID string }
		if err := json.Unmarshal(a.body, &made); err != nil {
			t.Fatal(err)
		}
		return made.FlowID
	}
	ids := []string{flow(1), flow(2), flow(3)}
	unique := map[string]bool{} // the jobs with the unique key
	testkit.Eventually(t, 60*time.Second, "the flows have ended", func() (bool, string) {
		ended := 0
		for _, id := range ids {
			f := s.flow(id)
			if f.State == "FAILED" {
				ended++
			}
			for _, j := range f.Jobs {
				if j.Name == "b" {
					unique[j.JobID] = true
				}
			}
		}
		return ended == len(ids), fmt.Sprint(ended, " have ended")
	})
	for _, id := range ids {
		for _, j := range s.flow(id).Jobs {
			want := map[string]string{"a": "COMPLETED", "b": "COMPLETED", "late": "EXPIRED", "then": "COMPLETED",
				"not": "CANCELLED"}[j.Name]
			if j.Status != want {
				t.Errorf("%s is %s instead of %s", j.Name, j.Status, want)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	running := ""
	for line := range strings.Lines(string(text)) {
		id, mark, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !unique[id]:
		case strings.HasSuffix(mark, " start"):
			if running != "" {
				t.Errorf("%s began while %s ran", id, running)
			}
			runs, running = runs+1, id
		case running == id:
			running = ""
		}
	}
	if runs != len(ids) {
		t.Errorf("%d runs of %d jobs with the unique key", runs, len(ids))
	}
}
