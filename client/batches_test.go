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

// Batches are made, filled, sealed and read as the server has them.
func TestBatches(t *testing.T) {
	t.Parallel()
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	state := "RUNNING"
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+string(body)))
		w.Header().Set("Content-Type", "application/json")
		row := `{"batchId":"` + id + `","name":"n","state":"` + state + `","total":3,"thenJobId":null,"endedAt":null}`
		switch {
		case strings.HasPrefix(r.URL.Path, "/paid/submit"):
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"errorCode":"BATCH_SEALED","message":"sealed"}`)
		case r.Method == http.MethodPost && r.URL.Path == "/api/batches":
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, row)
		case r.URL.Path == "/api/batches":
			_, _ = io.WriteString(w, `{"items":[`+row+`],"next":null}`)
		case strings.HasSuffix(r.URL.Path, "/members"):
			_, _ = io.WriteString(w, `{"items":[{"jobId":"`+id+`","status":"LIVING","endedAt":null}],"next":"n"}`)
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			_, _ = io.WriteString(w, `{"batchId":"`+id+`","cancelled":2,"asked":1,"next":null}`)
		default:
			_, _ = io.WriteString(w, row)
			state = map[string]string{"RUNNING": "STUCK", "STUCK": "FINISHED", "FINISHED": "FINISHED"}[state]
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := client.New(server.URL)
	b, err := c.CreateBatch(t.Context(), client.NewBatch{Name: "n", Tier: client.Paid,
		Then: &client.Then{Type: "MAIL", Payload: map[string]int{"n": 1}, On: client.ThenSucceeded}})
	if err != nil || b.BatchID != id || b.Total != 3 || len(b.Raw) == 0 {
		t.Errorf("%+v, %v", b, err)
	}
	_, err = c.SubmitTo(t.Context(), id, client.Paid, client.Submission{Type: "ROW"})
	if !errors.Is(err, client.ErrSealed) || !errors.Is(err, client.ErrConflict) {
		t.Error(err)
	}
	if _, err = c.SealBatch(t.Context(), id); err != nil {
		t.Error(err)
	}
	var stuck *client.BatchError
	if b, err = c.WaitBatch(t.Context(), id); !errors.As(err, &stuck) || b.State != client.BatchStuck {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = c.WaitBatch(t.Context(), id); err != nil || b.State != client.BatchFinished {
		t.Errorf("%+v, %v", b, err)
	}
	if p, err := c.Batches(t.Context(), "", 5); err != nil || len(p.Items) != 1 || p.Next != "" {
		t.Errorf("%+v, %v", p, err)
	}
	p, err := c.BatchMembers(t.Context(), id, "LIVING", "c", 5)
	if err != nil || len(p.Items) != 1 || p.Items[0].Status != "LIVING" || p.Next != "n" {
		t.Errorf("%+v, %v", p, err)
	}
	if done, err := c.CancelBatch(t.Context(), id); err != nil || done.Cancelled != 2 || done.Asked != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	at := "/api/batches/" + id
	want := []string{
		`POST /api/batches {"name":"n","tier":"PAID","then":{"type":"MAIL","payload":{"n":1},"on":"succeeded"}}`,
		`POST /paid/submit {"type":"ROW","batch":"` + id + `"}`, "POST " + at + "/seal", "GET " + at, "GET " + at,
		"GET /api/batches?limit=5", "GET " + at + "/members?cursor=c&limit=5&status=LIVING", "POST " + at + "/cancel",
	}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("%q\nwant %q", asked, want)
	}
	for _, wrong := range []func() error{
		func() error { _, err := c.Batch(t.Context(), "x"); return err },
		func() error { _, err := c.SealBatch(t.Context(), "x"); return err },
		func() error { _, err := c.CancelBatch(t.Context(), "x"); return err },
		func() error { _, err := c.BatchMembers(t.Context(), "x", "", "", 1); return err },
	} {
		if err := wrong(); err == nil {
			t.Error("an id that is none is sent")
		}
	}
}

// A batch takes its first members with the call that makes it, each with a tier of its own.
func TestCreateBatch_WithJobs(t *testing.T) {
	t.Parallel()
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("Idempotency-Key")+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"batchId":"`+id+`","jobs":["a","b"]}`)
	}))
	defer server.Close()
	c := client.New(server.URL)
	jobs := []client.BatchJob{
		{Submission: client.Submission{Type: "ROW", Payload: 1, TraceID: "t"}, Tier: client.Paid}, {},
	}
	b, err := c.CreateBatch(t.Context(), client.NewBatch{Name: "n", Sealed: true, IdempotencyKey: "k", Jobs: jobs})
	if err != nil || !reflect.DeepEqual(b.Jobs, []string{"a", "b"}) {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err = c.CreateBatchJSON(t.Context(), []byte(`{"name":"m"}`), "k"); err != nil || b.BatchID != id {
		t.Errorf("%+v, %v", b, err)
	}
	want := []string{`k {"name":"n","jobs":[{"payload":1,"tier":"PAID","traceId":"t","type":"ROW"},{}],"sealed":true}`,
		`k {"name":"m"}`}
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("%q, want %q", asked, want)
	}
	for _, j := range []client.Submission{
		{BatchID: id}, {IdempotencyKey: "k"}, {Unique: &client.Unique{Key: "k"}}, {Delay: -1}, {TraceID: "a b"},
	} {
		_, err := c.CreateBatch(t.Context(), client.NewBatch{Name: "n", Jobs: []client.BatchJob{{Submission: j}}})
		if err == nil || !strings.Contains(err.Error(), "job 0: ") {
			t.Errorf("%+v: %v", j, err)
		}
	}
	if _, err := c.CreateBatchJSON(t.Context(), []byte(`{`), ""); !errors.Is(err, client.ErrInvalid) {
		t.Error(err)
	}
	if len(asked) != len(want) {
		t.Errorf("a bad batch was sent: %q", asked)
	}
}
