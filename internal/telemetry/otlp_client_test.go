package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// scripted is a collector that gives its answers in turn, the last one for ever, and stores the requests.
type scripted struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   [][]byte
}

func newScripted(t *testing.T, answers ...func(http.ResponseWriter)) *scripted {
	t.Helper()
	s := &scripted{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := len(s.requests)
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, body)
		s.mu.Unlock()
		answers[min(n, len(answers)-1)](w)
	}))
	t.Cleanup(s.Close)
	return s
}

func status(n int) func(http.ResponseWriter) { return func(w http.ResponseWriter) { w.WriteHeader(n) } }

func text(contentType, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func clientOf(t *testing.T, url string) *otlpClient {
	t.Helper()
	c := newOTLPClient(readCollectorSettings(url, quiet), "1.2.3-test")
	c.pause = time.Millisecond
	t.Cleanup(func() { _ = c.Shutdown(context.Background()) })
	return c
}

// A batch is sent again only if the collector may accept it later.
func TestCollectorIsAskedAgain(t *testing.T) {
	for _, code := range []int{429, 502, 503, 504} {
		s := newScripted(t, status(code), status(code), status(200))
		if err := clientOf(t, s.URL).ExportSpans(t.Context(), everything()); err != nil || len(s.requests) != 3 {
			t.Errorf("%d: %v after %d requests", code, err, len(s.requests))
		}
		for _, body := range s.bodies {
			if !bytes.Equal(body, s.bodies[0]) || len(body) == 0 {
				t.Errorf("%d: another body of %d bytes", code, len(body))
			}
		}
	}
	for _, code := range []int{400, 401, 404, 413, 415, 500, 501} {
		s := newScripted(t, status(code), status(200))
		if err := clientOf(t, s.URL).ExportSpans(t.Context(), everything()); err == nil ||
			!strings.Contains(err.Error(), http.StatusText(code)) ||
			len(s.requests) != 1 {
			t.Errorf("%d: %v after %d requests", code, err, len(s.requests))
		}
	}
}

// A redirect is an error: neither the batch nor its headers, which may be secret, go to another host, and no GET
// counts as a success.
func TestCollectorsRedirects(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
	for _, code := range []int{301, 307} {
		elsewhere := newScripted(t, status(200))
		s := newScripted(t, func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(code)
		})
		err := clientOf(t, s.URL).ExportSpans(t.Context(), everything())
		want := fmt.Sprintf("it answers %d", code)
		if err == nil || !strings.Contains(err.Error(), want) || len(s.requests) != 1 {
			t.Errorf("%v after %d requests, want %s", err, len(s.requests), want)
		}
		for _, r := range elsewhere.requests {
			t.Errorf("%d: %s goes elsewhere, with api-key %q", code, r.Method, r.Header.Get("api-key"))
		}
	}
}

// The client obeys the collector's Retry-After. A collector that never accepts the batch costs at most the time of
// the batch, or of the exporter.
func TestCollectorsPauses(t *testing.T) {
	s := newScripted(t, func(w http.ResponseWriter) { w.Header().Set("Retry-After", "3600"); w.WriteHeader(503) })
	c := clientOf(t, s.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.ExportSpans(ctx, everything()); !errors.Is(err, context.DeadlineExceeded) || len(s.requests) != 1 {
		t.Errorf("%v after %d requests", err, len(s.requests))
	}
	done := make(chan error, 1)
	go func() { done <- c.ExportSpans(context.Background(), everything()) }()
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, errStopped) {
			t.Errorf("%v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("an exporter that was stopped waits on")
	}
	for text, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0,
		"Fri, 31 Dec 1999 23:59:59 GMT": 0, "99999999999": 0} {
		if got := retryAfter(text); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

// OpenTelemetry's variables set headers, compression, form and timeout; those for traces alone win.
func TestCollectorSettings(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	t.Setenv(all+"HEADERS", "api-key=general")
	t.Setenv(traces+"HEADERS", " api-key = a%20secret , x=1=2")
	t.Setenv(all+"COMPRESSION", "gzip")
	s := newScripted(t, status(200))
	if err := clientOf(t, s.URL+"/v1/traces").ExportSpans(t.Context(), everything()); err != nil {
		t.Fatal(err)
	}
	r := s.requests[0]
	if r.URL.Path != "/v1/traces" || r.Header.Get("api-key") != "a secret" || r.Header.Get("X") != "1=2" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" ||
		r.Header.Get("User-Agent") != "tierq/1.2.3-test" ||
		r.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	z, err := gzip.NewReader(bytes.NewReader(s.bodies[0]))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	var request collector.ExportTraceServiceRequest
	if err := errors.Join(err, proto.Unmarshal(body, &request)); err != nil || len(request.ResourceSpans) != 1 {
		t.Errorf("%v, %v", err, &request)
	}

	t.Setenv(traces+"COMPRESSION", "none")
	t.Setenv(all+"PROTOCOL", "http/json")
	if err := clientOf(t, s.URL).ExportSpans(t.Context(), everything()); err != nil {
		t.Fatal(err)
	}
	if r := s.requests[1]; r.Header.Get("Content-Type") != "application/json" ||
		r.Header.Get("Content-Encoding") != "" ||
		!json.Valid(s.bodies[1]) {
		t.Errorf("%v %.100s", r.Header, s.bodies[1])
	}

	t.Setenv(all+"TIMEOUT", "50")
	var asked atomic.Int32
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 1 {
			<-r.Context().Done()
		}
	}))
	defer hanging.Close()
	if err := clientOf(t, hanging.URL).ExportSpans(t.Context(), everything()); err != nil || asked.Load() != 2 {
		t.Errorf("a request of 50 ms, and then another: %v after %d", err, asked.Load())
	}
}

// A collector whose certificate is signed by a private authority is accepted if that authority is configured.
func TestCollectorsCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	if err := clientOf(t, s.URL).ExportSpans(t.Context(), everything()); err == nil {
		t.Error("a stranger's certificate is good")
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	if err := clientOf(t, s.URL).ExportSpans(t.Context(), everything()); err != nil {
		t.Error(err)
	}
}

// An unreadable setting is logged by its name, without its value, and the other settings apply.
func TestCollectorSettingsUnreadable(t *testing.T) {
	none := filepath.Join(t.TempDir(), "secret")
	for name, value := range map[string]string{
		"TIMEOUT": "secret", "HEADERS": "good=1,secret,b a d=secret,c=%zzsecret,d=secret%0d%0ax: y", "CERTIFICATE": none,
		"CLIENT_CERTIFICATE": none,
	} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	var out bytes.Buffer
	s := readCollectorSettings("http://collector", slog.New(slog.NewTextHandler(&out, nil)))
	if s.timeout != 10*time.Second || len(s.headers) != 1 || s.headers["good"] != "1" || s.tls != nil {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"TIMEOUT", "HEADERS", "CERTIFICATE", "CLIENT_CERTIFICATE"} {
		if !strings.Contains(out.String(), "OTEL_EXPORTER_OTLP_"+name+"\n") {
			t.Errorf("nothing is said of %s:\n%s", name, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error(out.String())
	}
}

// A partial success is reported as an error, in both forms of the answer.
func TestPartialSuccess(t *testing.T) {
	inProto, err := proto.Marshal(&collector.ExportTraceServiceResponse{
		PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 300, ErrorMessage: "too old"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for contentType, c := range map[string]struct{ body, want string }{
		"application/x-protobuf": {string(inProto), "it rejects 300 spans: too old"},
		"application/json; charset=utf-8": {`{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too large"}}`,
			"it rejects 2 spans: too large"},
		"application/json":        {`{"partialSuccess":{"rejectedSpans":2}}`, "it rejects 2 spans: "},
		"text/plain":              {string(inProto), ""},
		"application/x-protobuf;": {"", ""},
	} {
		s := newScripted(t, text(contentType, c.body))
		err := clientOf(t, s.URL).ExportSpans(t.Context(), everything())
		if len(s.requests) != 1 || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v after %d requests", contentType, err, len(s.requests))
		}
	}
}

// Any answer of a collector is read to its end, and its error is bounded.
func FuzzCollectorAnswers(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, answer string) {
		for _, contentType := range []string{"application/json", "application/x-protobuf"} {
			if err := rejected(contentType, []byte(answer)); err != nil && len(err.Error()) > len(answer)+100 {
				t.Errorf("%d bytes of %d", len(err.Error()), len(answer))
			}
		}
	}, "\x0a\x0c\x08\xac\x02\x12\x07too old", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x0a", "\x0d\x01", "\xff",
		`{"partialSuccess":{"rejectedSpans":"2"}}`, "{}")
}

// Neither a hanging collector nor a full queue of spans delays a job.
func TestSpansNeverWait(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(release)
	tracing := newTracing(t, s.URL)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 10_000 {
			_, done := tracing.Process(t.Context(), first(job.Paid))
			done(nil)
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("jobs wait for the collector")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := tracing.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v", err)
	}
}
