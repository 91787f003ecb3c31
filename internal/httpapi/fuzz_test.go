package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Whatever the body: no panic, no 500, and what is accepted is what was sent.
func FuzzSubmitBody(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{"type":"PAIR","payload":{"A":1}}`, `{"payload":null,"maxRetries":0}`, `{"maxRetries":1e9}`, `{"type":"PAIR","type":"PAIR"}`, "{\"payload\":\"\xff\"}",
		`{"payload":"\ud800"}`, `{} x`, `[[[[`, `{"payload":{"a":[1,2,{"b":"c"}]}}`, "\ufeff{}", `{"payload" :  [ 1 ] }`, `{"a":`, `"`, `{"payload":-0.0e-0}`,
	} {
		f.Add([]byte(seed))
	}
	r := newRooms(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r.submitted = nil
		r.log.Reset()
		req := httptest.NewRequest("POST", "/paid/submit", bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		if !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("answered %q", rec.Body)
		}
		switch rec.Code {
		case http.StatusAccepted:
			s := r.submitted[0]
			if s.Payload != nil && (!json.Valid(s.Payload) || !bytes.Contains(body, s.Payload) || len(s.Payload) > 1000) {
				t.Errorf("%q became %q", body, s.Payload)
			}
			if _, ok := r.plans.Plan(s.Tier); !ok || s.Tier != job.Paid || s.MaxRetries < -1 || s.MaxRetries > 5 {
				t.Errorf("submitted %+v", s)
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			if len(r.submitted) != 0 {
				t.Errorf("refused and submitted: %q", body)
			}
		default:
			t.Errorf("%d for %q", rec.Code, body)
		}
	})
}
