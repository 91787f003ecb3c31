package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// All requests about a job come with its own key, except a stranger's. The history has what each submit asked for.
func TestKeys(t *testing.T) {
	t.Parallel()
	var shown []string
	refused := false
	l := newLoad(t, Options{Keys: []Key{{"a", "tq_a"}, {"b", "tq_b"}}, Admin: "tq_admin", Receiver: "http://127.0.0.1:1/x",
		Mix: Mix{Call: 1}}, at(t, func(w http.ResponseWriter, r *http.Request) {
		shown = append(shown, r.Method+" "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer tq_"))
		if refused {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"apiResponseData":{"jobId":"`+anID+`","currentJobStatus":"PENDING"}}`)
	}))
	w := l.wish(job.Paid, 1, dice())
	l.single(t.Context(), &w, dice())
	l.follow(t.Context(), &w, dice())
	l.poll(t.Context(), "p", anID, dice())
	l.cancel(t.Context(), anID, dice())
	l.requeue(t.Context(), anID, 1, dice())
	l.intrude(t.Context(), anID, dice())
	if want := []string{"POST b", "GET b", "DELETE b", "POST admin", "GET a"}; !slices.Equal(shown, want) {
		t.Errorf("%v, want %v", shown, want)
	}
	if refused = true; l.poll(t.Context(), "p", anID, dice()).HTTP != http.StatusUnauthorized {
		t.Error("it was not refused")
	}
	seen := l.Witness()
	if len(seen.Strangers) != 1 || seen.Strangers[0].HTTP != http.StatusOK || seen.Strangers[0].ID != anID ||
		seen.Shut != 1 {
		t.Errorf("%+v", seen)
	}
	if a := seen.Asked[w.op.Key]; a != (check.Asked{Owner: "b", Call: true}) || w.body.Call != "http://127.0.0.1:1/x" {
		t.Errorf("%+v, %+v", a, w.body)
	}
}

// The receiver records each callback with its answer, and refuses some so that they are repeated.
func TestReceiver(t *testing.T) {
	t.Parallel()
	l := newLoad(t, Options{})
	call := func(id job.ID, named, attempt string) int {
		body := `{"type":"job.failed","data":{"jobId":"` + string(id) + `","generation":2,"status":"FAILED"}}`
		r := httptest.NewRequest(http.MethodPost, "/ended", strings.NewReader(body))
		r.Header.Set("Webhook-Id", named)
		r.Header.Set("X-Job-Attempt", attempt)
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		return w.Code
	}
	other := job.ID(anID[:len(anID)-1] + "1")
	got := []int{call(anID, anID+"_2", "1"), call(anID, anID+"_2", "2"), call(other, string(other)+"_2", "1"),
		call(other, string(other)+"_1", "1")}
	if want := []int{500, 200, 200, 200}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	calls := l.Witness().Calls
	if c := calls[1]; len(calls) != 4 || c.ID != anID || c.Generation != 2 || c.Status != job.Failed || c.Attempt != 2 ||
		c.HTTP != 200 || c.At.IsZero() {
		t.Errorf("%+v", calls)
	}
	if calls[3].ID == other {
		t.Error("a message under another's name was taken for its own")
	}
}
