package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/tierq/tierq/internal/job"
)

// Without a collector, before Start and after Stop there are no spans, and the callers need no check for that.
func TestTracingThatDoesNothing(t *testing.T) {
	off, err := NewTracing("", "v", quiet)
	if off != nil || err != nil {
		t.Fatalf("without an endpoint: %v, %v", off, err)
	}
	fresh, err := NewTracing("http://127.0.0.1:1", "v", quiet)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, _ := newCollector(t, http.StatusOK)
	stopped := newTracing(t, endpoint)
	for range 2 {
		if err := errors.Join(stopped.Stop(t.Context()), off.Start(t.Context()), off.Stop(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for name, tracing := range map[string]*Tracing{"nil": off, "not started": fresh, "stopped": stopped} {
		spanID, end := tracing.Submit(t.Context(), job.Paid, someTrace, callerSpan)
		end("id", nil)
		ctx, done := tracing.Process(t.Context(), first(job.Paid))
		done(errors.New("boom"))
		if _, _, ok := SpanContext(ctx); ok || spanID != "" {
			t.Errorf("%s: a span %q, %v", name, spanID, ok)
		}
	}
	if err := errors.Join(fresh.Stop(t.Context()), fresh.Start(t.Context())); err != nil || fresh.running() != nil {
		t.Errorf("started after it was stopped: %v", err)
	}
}

func TestNewTracingReadsTheEnvironment(t *testing.T) {
	for _, tc := range []struct {
		endpoint, name, value string
		works                 bool // false: NewTracing returns nil
		fails                 string
	}{
		{"http://collector:4318", "OTEL_SDK_DISABLED", "true", false, ""},
		{"http://collector:4318", "OTEL_TRACES_EXPORTER", "none", false, ""},
		{"http://collector:4318", "OTEL_TRACES_EXPORTER", "otlp", true, ""},
		{"http://collector:4318", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", true, ""},
		{"http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"collector:4318", "X", "", false, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"ftp://user:secret@collector", "X", "", false, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"https://user:secret@collector", "X", "", false, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"https://collector/secret", "X", "", true, ""},
		{"http://collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:%zzsecret@collector", false,
			"OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:%zzsecret@collector", false,
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:secret@collector", false,
			"OTEL_EXPORTER_OTLP_HEADERS"},
		{"http://collector:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/secret", true, ""},
	} {
		t.Run(tc.name+" "+tc.value, func(t *testing.T) {
			t.Setenv(tc.name, tc.value)
			got, err := NewTracing(tc.endpoint, "v", quiet)
			if (got != nil) != tc.works || (err != nil) != (tc.fails != "") ||
				err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%v, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// A hanging collector delays neither a job nor the end of the process.
func TestStopIsBounded(t *testing.T) {
	gone := make(chan struct{}, 10)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	defer s.Close()
	tracing := newTracing(t, s.URL)
	_, done := tracing.Process(t.Context(), first(job.Paid))
	done(nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := tracing.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v", err)
	}
	select {
	case <-gone:
	case <-time.After(3 * time.Second):
		t.Error("the call to the collector outlives Stop")
	}
}

// sink is an exporter that can be made to fail.
type sink struct {
	sdktrace.SpanExporter
	down atomic.Bool
}

func (s *sink) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	if s.down.Load() {
		return errors.New("no collector")
	}
	return nil
}

func TestACollectorsOutageIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	collector := &sink{}
	e := &exporter{SpanExporter: collector, log: slog.New(slog.NewTextHandler(&out, nil))}
	for _, down := range []bool{false, true, true, false, false, true} {
		collector.down.Store(down)
		if err := e.ExportSpans(t.Context(), nil); err != nil {
			t.Errorf("the SDK would print %v", err)
		}
	}
	if lost, back := strings.Count(out.String(), "spans are dropped"), strings.Count(out.String(), "again"); lost != 2 ||
		back != 1 {
		t.Errorf("%d times down, %d times back:\n%s", lost, back, out.String())
	}
}

// The log does not show a token in the collector's path, even if the collector repeats the path in its answer. It
// shows the rest of the error, shortened.
func TestACollectorsTroubleIsToldWithoutItsURL(t *testing.T) {
	t.Attr("proves", "A47")
	const token = "s3cret-token"
	failing := func(t *testing.T, status int) string {
		t.Helper()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "nothing at "+r.URL.Path+", none of "+token+strings.Repeat(" and more", 1000))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct{ endpoint, traces, says string }{
		"refuses":           {failing(t, 404) + "/in/" + token, "", "404 Not Found"},
		"refuses an escape": {failing(t, 404) + "/in/%73" + token[1:], "", "404 Not Found"},
		"of traces alone":   {"http://collector", failing(t, 404) + "/" + token, "404 Not Found"},
		"is not there":      {gone.URL + "/" + token, "", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.traces)
			var out bytes.Buffer
			tracing, err := NewTracing(c.endpoint, "v", slog.New(slog.NewTextHandler(&out, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if err := tracing.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, done := tracing.Process(t.Context(), first(job.Paid))
			done(nil)
			if err := tracing.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); !strings.Contains(text, c.says) || strings.Contains(text, token) ||
				strings.Contains(text, token[1:]) || len(text) > 500 {
				t.Errorf("%d bytes: %.600s", len(text), text)
			}
		})
	}
}
