package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// accepts and anything accept every call, at no cost.
type accepts struct{}

func (accepts) Submit(context.Context, job.Submission) (job.Accepted, error) {
	return job.Accepted{ID: knownID}, nil
}
func (accepts) SubmitBatch(context.Context, []job.Submission) ([]job.Accepted, []error) {
	return nil, nil
}
func (accepts) Hint(job.Tier) time.Duration { return 0 }

type anything struct{}

func (anything) Check(string, []byte) error { return nil }
func (anything) Types() []string            { return nil }

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// nowhere is a ResponseWriter that discards everything.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

func BenchmarkSubmit(b *testing.B) {
	for name, body := range map[string]string{
		"empty": "",
		"100B": `{"type":"SIMULATION","payload":{"steps":[{"type":"SLEEP","durationMs":100},{"type":"LOG",` +
			`"message":"hi"}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			r := newRooms(b)
			h := NewHandler(Deps{Submit: accepts{}, Jobs: r, Ready: r, Types: anything{}, Plans: r})
			req := httptest.NewRequest("POST", "/paid/submit", nil)
			req.Host = "127.0.0.1:8080"
			req.Header.Set("Content-Type", "application/json")
			req.ContentLength = int64(len(body))
			reader := bytes.NewReader(nil)
			w := &nowhere{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset([]byte(body))
				req.Body = readCloser{reader}
				clear(w.header)
				h.ServeHTTP(w, req)
			}
		})
	}
}
