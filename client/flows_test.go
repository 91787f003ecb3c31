package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/tierq/tierq/client"
)

// Flows are sent and read as the server has them.
func TestFlows(t *testing.T) {
	t.Parallel()
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	state := "RUNNING"
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		row := `{"flowId":"` + id + `","name":"n","state":"` + state + `","counts":{"waiting":1,"living":2}`
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/api/flows":
			w.Header().Set("Idempotency-Replayed", "true")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"flowId":"`+id+`","jobs":{"a":"`+id+`"}}`)
		case r.URL.Path == "/api/flows":
			_, _ = io.WriteString(w, `{"items":[`+row+`}],"next":null}`)
		default:
			_, _ = io.WriteString(w, row+`,"jobs":[{"name":"a","jobId":"`+id+`","status":"WAITING","after":["b/*"]}]}`)
			state = "STUCK"
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := client.New(server.URL)
	accepted, err := c.SubmitFlow(t.Context(), client.NewFlow{Name: "n", Jobs: map[string]client.FlowJob{
		"b": {Submission: client.Submission{Type: "SPLIT", Payload: map[string]int{"n": 1}}, Tier: client.Paid},
		"a": {After: []string{"b/*"}, OnFailure: client.FlowRuns},
	}})
	if err != nil || !accepted.Replayed || accepted.FlowID != id || accepted.Jobs["a"] != id {
		t.Errorf("%+v, %v", accepted, err)
	}
	var failed *client.FlowError
	f, err := c.WaitFlow(t.Context(), id)
	if !errors.As(err, &failed) || f.State != client.FlowStuck ||
		f.Jobs[0].Status != client.Waiting || f.Counts.Living != 2 {
		t.Errorf("%+v, %v", f, err)
	}
	n := 0
	for one, err := range c.AllFlows(t.Context(), client.FlowFilter{State: client.FlowStuck}) {
		if n++; err != nil || one.FlowID != id {
			t.Errorf("%+v, %v", one, err)
		}
	}
	if f, err := c.CancelFlow(t.Context(), id, "enough"); err != nil || f.FlowID != id || n != 1 {
		t.Errorf("%+v, %v, %d flows", f, err, n)
	}
	if err := c.RequeueCascade(t.Context(), id, ""); err != nil {
		t.Error(err)
	}
	at := "/api/flows/" + id
	want := []string{
		`POST /api/flows {"name":"n","jobs":{"a":{"after":["b/*"],"onFailure":"run"},"b":{"payload":{"n":1},"tier":"PAID",` +
			`"type":"SPLIT"}}}`,
		"GET " + at, "GET " + at, "GET /api/flows?limit=100&state=STUCK", "POST " + at + `/cancel {"reason":"enough"}`,
		"POST /jobs/" + id + `/retry {"cascade":true}`,
	}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("%q", asked)
	}
	for _, wrong := range []client.FlowJob{
		{Submission: client.Submission{BatchID: id}}, {Submission: client.Submission{IdempotencyKey: "k"}},
		{Submission: client.Submission{TraceID: "t"}}, {Submission: client.Submission{Delay: -1}},
	} {
		if _, err := c.SubmitFlow(t.Context(), client.NewFlow{Jobs: map[string]client.FlowJob{"a": wrong}}); err == nil {
			t.Errorf("%+v is sent", wrong)
		}
	}
	if _, err := c.SubmitFlow(t.Context(), client.NewFlow{}); err == nil {
		t.Error("an empty flow is sent")
	}
}
