package client

import (
	"encoding/json"
	"slices"
	"testing"
)

// A submit says the key of the job's line alone, in a batch, and where a client gathers submits.
func TestLineKeyIsSent(t *testing.T) {
	t.Parallel()
	s, plain := newServer(t)
	if _, err := plain.Submit(t.Context(), Paid, "REPORT", nil, WithKey("alone")); err != nil {
		t.Fatal(err)
	}
	if _, err := plain.SubmitBatch(t.Context(), Paid, []Submission{{}, {LineKey: "in a batch"}}); err != nil {
		t.Fatal(err)
	}
	var gathered Submission
	WithKey("gathered")(&gathered)
	body, err := gathered.encode("")
	if err != nil {
		t.Fatal(err)
	}
	var entry struct {
		LineKey string `json:"key"`
		Key     string `json:"idempotencyKey"`
	}
	pending := newPending(&call{body: body, key: "order-7"}, "")
	if err := json.Unmarshal(pending.entry, &entry); err != nil || entry.LineKey != "gathered" || entry.Key != "order-7" {
		t.Errorf("%s, %v", pending.entry, err)
	}
	var keys []string
	for _, j := range s.Jobs() {
		keys = append(keys, j.LineKey)
	}
	if !slices.Equal(keys, []string{"alone", "", "in a batch"}) {
		t.Errorf("%q", keys)
	}
}

// A job and a place in a line are read as the server writes them.
func TestLineKeyIsRead(t *testing.T) {
	t.Parallel()
	s, c := newServer(t)
	answers(s, "GET /jobs/"+unknownID, 200, `{"jobId":"`+unknownID+`","key":"a b"}`)
	if j, err := c.Job(t.Context(), unknownID); err != nil || j.Key != "a b" {
		t.Errorf("%+v, %v", j, err)
	}
}
