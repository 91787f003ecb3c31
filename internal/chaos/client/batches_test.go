package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// A batch whose answer was lost is made again under the same key, its members name it, and it is sealed until that is
// answered. The history has each request with its fate.
func TestGroup(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	keys := map[string]bool{}
	strays := 0
	l := newLoad(t, Options{Seed: 7, Keys: []Key{{"a", "tq_a"}, {"b", "tq_b"}}, Receiver: "http://127.0.0.1:1/x",
		Mix: Mix{Call: 1}}, at(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		path := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		asked[path]++
		switch {
		case path == "batches" && asked[path] == 1, path == "seal" && asked[path] == 1:
			panic(http.ErrAbortHandler)
		case path == "batches":
			keys[r.Header.Get("Idempotency-Key")] = true
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"batchId":"`+anID+`"}`)
		case path == "seal", path == "cancel":
			fmt.Fprint(w, `{}`)
		case asked["seal"]+asked["cancel"] > 1:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"errorCode":"BATCH_SEALED"}`)
		default:
			if strings.Count(string(body), `"batch":"`+anID+`"`) != strings.Count(string(body), `"type":`) {
				strays++
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"errorCode":"QUEUE_FULL"}`)
		}
	}))
	if refused := l.group(t.Context(), job.Paid, dice()); refused || l.Batches.Load() != 1 {
		t.Fatalf("refused %t, %d made", refused, l.Batches.Load())
	}
	if strays > 0 || asked["batches"] != 2 || len(keys) != 1 {
		t.Errorf("%d members without the batch, asked %v, keys %v", strays, asked, keys)
	}
	var fates []string
	for _, op := range l.Ops() {
		if op.Kind == check.MakeBatch || op.Kind == check.SealBatch || op.Kind == check.CancelBatch {
			fates = append(fates, fmt.Sprint(op.Kind, " ", op.Fate, " ", op.ID))
		} else if op.Batch == "" {
			t.Errorf("a member of no batch: %+v", op)
		}
	}
	want := []string{"make a batch unknown ", "make a batch ok " + anID, "seal a batch unknown " + anID,
		"seal a batch ok " + anID}
	if fmt.Sprint(fates) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", fates, want)
	}
}

// A look at a batch is recorded, and its then job is polled from then on, once.
func TestSeeBatch(t *testing.T) {
	t.Parallel()
	l := newLoad(t, Options{}, at(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"state":"FINISHED","round":2,"sealed":true,"total":5,"living":0,"completed":2,"failed":1,`+
			`"cancelled":1,"expired":1,"thenJobId":"`+anID+`"}`)
	}))
	for range 2 {
		l.seeBatch(t.Context(), l.Bases()[0], madeBatch{id: "b"})
	}
	seen := l.BatchesSeen()
	if len(seen) != 2 || seen[1].State != job.BatchFinished || seen[1].Round != 2 || !seen[1].Sealed ||
		seen[1].Total != 5 || seen[1].Finished != 5 || seen[1].Then != anID || seen[1].ID != "b" || len(l.known.all()) != 1 {
		t.Errorf("%+v, known %v", seen, l.known.all())
	}
}

// The receiver records the callback of a batch with its counts. A callback whose id is not that of its round gets a
// type that no batch sends.
func TestReceiver_Rounds(t *testing.T) {
	t.Parallel()
	l := newLoad(t, Options{})
	for _, named := range []string{anID + "_2", anID + "_1"} {
		body := `{"type":"batch.stuck","data":{"batchId":"` + anID + `","round":2,"total":3,"failed":3,"state":"STUCK"}}`
		r := httptest.NewRequest(http.MethodPost, "/ended", strings.NewReader(body))
		r.Header.Set("Webhook-Id", named)
		r.Header.Set("X-Job-Attempt", "2")
		l.ServeHTTP(httptest.NewRecorder(), r)
	}
	w := l.Witness()
	if c := w.Rounds[0]; len(w.Rounds) != 2 || len(w.Calls) != 0 || c.Type != "batch.stuck" || c.Counts.BatchID != anID ||
		c.Counts.Round != 2 || c.Counts.Failed != 3 || c.HTTP != http.StatusOK || c.Attempt != 2 {
		t.Errorf("%+v", w)
	}
	if w.Rounds[1].Type == "batch.stuck" {
		t.Error("a message under another's name was taken for its own")
	}
}
