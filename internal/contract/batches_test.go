package contract

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handlers"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// batches makes batches, adds members, seals and cancels. It returns the id of a finished one.
func (s *server) batches() (id string) {
	s.t.Helper()
	content := s.c.at("#/paths/~1api~1batches/post/requestBody/content/application~1json")
	asked := string(text(s.t, "application/json", s.c.examplesOf(content)["an import with a mail at the end"]))
	ids := make([]string, 2)
	for i := range ids {
		var made struct{ BatchID string }
		a := s.want(201, "POST", "/api/batches", asked)
		if err := json.Unmarshal(a.body, &made); err != nil {
			s.t.Fatal(err)
		}
		ids[i] = made.BatchID
	}
	member := `{"batch":"` + ids[0] + `"}`
	done := s.id(s.want(202, "POST", "/paid/submit", member))
	s.want(202, "POST", "/paid/submit/batch", "["+member+"]")
	s.want(400, "POST", "/paid/submit", `{"batch":"`+ids[0]+`","unique":{"key":"one"}}`)
	s.want(404, "POST", "/paid/submit", `{"batch":"`+done+`"}`)
	s.want(200, "GET", "/api/batches", "")
	s.want(200, "GET", "/api/batches/"+ids[0], "")
	s.want(404, "GET", "/api/batches/"+done, "")
	s.want(200, "POST", "/api/batches/"+ids[0]+"/seal", "")
	s.want(409, "POST", "/paid/submit", member)
	testkit.Eventually(s.t, 20*time.Second, "the batch has finished", func() (bool, string) {
		a := s.want(200, "GET", "/api/batches/"+ids[0], "")
		return bytes.Contains(a.body, []byte(`"FINISHED"`)), string(a.body)
	})
	for _, status := range []string{"", "?status=COMPLETED", "?status=LIVING&limit=1"} {
		s.want(200, "GET", "/api/batches/"+ids[0]+"/members"+status, "")
	}
	s.want(200, "GET", "/api/batches/"+ids[0]+"/events", "")
	waits := s.id(s.want(202, "POST", "/paid/submit", `{"delaySeconds":3600,"batch":"`+ids[1]+`"}`))
	s.want(200, "POST", "/api/batches/"+ids[1]+"/cancel", "")
	s.ends(waits, "CANCELLED")
	return ids[0]
}

// The event that the callback of a batch sends fits its schema in the description.
func TestBatchCallback_IsDescribed(t *testing.T) {
	c := load(t)
	at := time.Date(2026, 5, 1, 11, 31, 57, 961931000, time.UTC)
	b := job.Batch{ID: "019de340-01fe-7a58-be69-567cd7d6b7d4", Name: "import", Round: 1, EndedRound: 1, Sealed: true,
		Total: 2, Completed: 1, Failed: 1, CreatedAt: at, EndedAt: at,
		BatchSpec: job.BatchSpec{Then: &job.Then{On: job.ThenSucceeded}}}
	for _, want := range []string{"batch.stuck", "batch.finished"} {
		var payload struct {
			Event struct{ Type string }
		}
		var raw struct{ Event json.RawMessage }
		text := handlers.BatchCallback(&b).Payload
		if err := json.Unmarshal(text, &payload); err != nil || payload.Event.Type != want {
			t.Fatalf("%v: %s", err, text)
		}
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		if err := c.Fits("BatchEnded", raw.Event); err != nil {
			t.Errorf("%v: %s", err, raw.Event)
		}
		b.Failed, b.Completed = 0, 2
	}
}
