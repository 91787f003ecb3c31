package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// wire is a Sender without guard and signature. It refuses the URLs for which closed returns an error.
type wire struct{ closed func(string) error }

func (w wire) CheckURL(url string) error {
	if w.closed != nil {
		return w.closed(url)
	}
	return nil
}

func (w wire) Do(ctx context.Context, r Request) (Response, error) {
	if err := w.CheckURL(r.URL); err != nil {
		return Response{}, handler.Permanent(errors.New("refused"))
	}
	if r.Timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil {
		return Response{}, err
	}
	req.Header = r.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if r.MessageID != "" {
		req.Header.Set("Webhook-Id", r.MessageID)
		req.Header.Set("Owner", r.Owner) // as a sign of the keys that would sign it
	}
	req.Header.Set("X-Trace-Id", r.TraceID)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return Response{}, fmt.Errorf("call %s: no answer", req.URL.Hostname())
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	answer := Response{Status: res.StatusCode, Header: res.Header, Body: body}
	if r.MaxBody > 0 && int64(len(body)) > r.MaxBody {
		answer.Body, answer.Truncated = body[:r.MaxBody], true
	}
	return answer, err
}

func outgoingTypes(s Sender) *handler.Registry {
	r := handler.NewRegistry()
	RegisterOutgoing(r, s)
	return r
}

const theJob = job.ID("019de340-01fe-7a58-be69-567cd7d6b7d4")

// running puts theJob into a context.
func running(t *testing.T) context.Context {
	return handler.WithRun(t.Context(), handler.Run{ID: theJob, Attempt: 3, Generation: 2, TraceID: "the-trace"})
}

type heard struct {
	method string
	header http.Header
	body   string
}

// listen starts a receiver that answers with answer and records what it received.
func listen(t *testing.T, answer http.HandlerFunc) (url string, last func() heard) {
	t.Helper()
	calls := make(chan heard, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- heard{r.Method, r.Header, string(body)}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() heard { return <-calls }
}
