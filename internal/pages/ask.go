package pages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/web"
)

// mostAnswer bounds the size of one answer of the API, as the client does.
const mostAnswer = 16 << 20

// carried are the headers of the browser's request that a page's requests to the API repeat: the caller's
// credentials and network address, and the site that sent the caller.
var carried = []string{
	"Authorization", "Cookie", "Origin", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Traceparent", "X-Forwarded-For",
	"X-Forwarded-Proto",
}

// apiError is a refusal by the API. All of it may be shown to the user.
type apiError struct {
	Status              int
	Code, Title, Detail string
	Fields              []web.FieldError
	RetryAfter          time.Duration // when to try again; 0 = the API did not say
	TraceID, JobID      string
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Detail) }

// code returns the API's code, or INTERNAL for an answer without one.
func (e *apiError) code() string { return cmp.Or(e.Code, "INTERNAL") }

// refusedWith says whether an error is a refusal with one of these statuses.
func refusedWith(err error, statuses ...int) bool {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return false
	}
	for _, s := range statuses {
		if e.Status == s {
			return true
		}
	}
	return false
}

// answer is an answer of the API.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask calls the API within this process, with the rights of the browser that sent r. path includes the query. body
// is sent as JSON: nil = no body, and []byte and json.RawMessage are JSON already. The body of a successful answer
// is decoded into into, unless that is nil. The error is an *apiError if the API refused, or another error if the
// call failed.
func (p *Pages) ask(r *http.Request, method, path string, body any, into any) error {
	a, err := p.call(r, method, path, body)
	if err != nil {
		return err
	}
	return a.read(method, path, into)
}

func (a *answer) read(method, path string, into any) error {
	if a.status < 200 || a.status > 299 {
		return a.refusal()
	}
	if into == nil {
		return nil
	}
	if err := a.understood(into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// understood decodes the JSON of an answer with any status.
func (a *answer) understood(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("the answer is not understood: %w", err)
	}
	return nil
}

// with adds one header, such as If-Match or Idempotency-Key, to the API calls made with the returned request.
func with(r *http.Request, name, value string) *http.Request {
	h := http.Header{}
	if had, ok := r.Context().Value(withKey{}).(http.Header); ok {
		h = had.Clone()
	}
	h.Set(name, value)
	return r.WithContext(context.WithValue(r.Context(), withKey{}, h))
}

type withKey struct{}

// call is ask for callers that also need the status or the headers.
func (p *Pages) call(r *http.Request, method, path string, body any) (answer, error) {
	v := visitOf(r)
	if v != nil && path != mePath {
		p.who(r) // detects a cookie that is no longer valid
	}
	q, err := p.request(r, v, method, path, body)
	if err != nil {
		return answer{}, err
	}
	w := &recorder{header: http.Header{}}
	if v != nil {
		w.control = http.NewResponseController(v.w)
	}
	if err := p.serve(w, q); err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if err := r.Context().Err(); err != nil {
		return answer{}, err
	}
	return answer{cmp.Or(w.status, http.StatusOK), w.header, w.body.Bytes()}, nil
}

func (p *Pages) request(r *http.Request, v *visit, method, path string, body any) (*http.Request, error) {
	text, err := encoded(body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	var from io.Reader = http.NoBody
	if text != nil {
		from = bytes.NewReader(text)
	}
	q, err := http.NewRequestWithContext(r.Context(), method, path, from)
	if err != nil {
		return nil, err
	}
	if q.Body == nil {
		q.Body = http.NoBody // handlers may expect a body
	}
	q.RequestURI, q.Host, q.RemoteAddr, q.TLS = path, r.Host, r.RemoteAddr, r.TLS
	for _, name := range carried {
		if values := r.Header[name]; values != nil {
			q.Header[name] = values
		}
	}
	if more, ok := r.Context().Value(withKey{}).(http.Header); ok {
		for name, values := range more {
			q.Header[name] = values
		}
	}
	if v != nil && v.stranger {
		q.Header.Del("Cookie")
	}
	if v != nil && v.trace != "" {
		q.Header.Set(traceHeader, v.trace)
	}
	if text != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	return q, nil
}

func encoded(body any) ([]byte, error) {
	switch body := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return body, nil
	case json.RawMessage:
		return body, nil
	}
	return json.Marshal(body)
}

var (
	errTooMuch  = errors.New("the answer is larger than a page reads")
	errBrokeOff = errors.New("the answer broke off")
)

// serve lets the API answer. If the API aborts its answer, which on a network connection would close the
// connection, serve returns an error and the page goes on.
func (p *Pages) serve(w *recorder, q *http.Request) (err error) {
	defer func() {
		switch value := recover(); value {
		case nil:
		case http.ErrAbortHandler:
			err = errBrokeOff
		default:
			panic(value)
		}
		if err == nil && w.over {
			err = errTooMuch
		}
	}()
	p.o.API.ServeHTTP(w, q)
	return nil
}

// recorder stores an answer, up to mostAnswer bytes. When the API extends its write deadline, the page's deadline
// is extended too.
type recorder struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	over    bool
	control *http.ResponseController
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.body.Len()+len(b) > mostAnswer {
		w.over = true
		return 0, errTooMuch
	}
	return w.body.Write(b)
}

// SetWriteDeadline is called by net/http's ResponseController.
func (w *recorder) SetWriteDeadline(t time.Time) error {
	if w.control == nil {
		return http.ErrNotSupported
	}
	return w.control.SetWriteDeadline(t)
}

// refusal decodes an error in the API's format. Of an answer in another format it keeps only the status.
func (a *answer) refusal() *apiError {
	e := &apiError{Status: a.status, TraceID: a.header.Get(traceHeader)}
	var said struct {
		Code    string           `json:"errorCode"`
		Title   string           `json:"title"`
		Detail  string           `json:"detail"`
		TraceID string           `json:"traceId"`
		JobID   string           `json:"jobId"`
		Errors  []web.FieldError `json:"errors"`
	}
	if json.Unmarshal(a.body, &said) == nil {
		e.Code, e.Title, e.Detail, e.JobID, e.Fields = said.Code, said.Title, said.Detail, said.JobID, said.Errors
		e.TraceID = cmp.Or(said.TraceID, e.TraceID)
	}
	e.Title = cmp.Or(e.Title, http.StatusText(a.status))
	e.Detail = cmp.Or(e.Detail, e.Title)
	if n, err := strconv.Atoi(strings.TrimSpace(a.header.Get("Retry-After"))); err == nil && n > 0 && n <= 3600 {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}
