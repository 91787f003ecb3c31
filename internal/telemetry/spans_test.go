package telemetry

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// received is one batch as a collector gets it: the spans by name, and the resource's attributes.
type received struct {
	path     string
	spans    map[string]*otlp.Span
	resource map[string]string
}

// newCollector starts an OTLP/HTTP collector that answers with status.
func newCollector(t *testing.T, status int) (endpoint string, batches <-chan received) {
	t.Helper()
	got := make(chan received, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		raw, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err := errors.Join(err, proto.Unmarshal(raw, &request)); err != nil {
			t.Errorf("the collector got what is no OTLP: %v", err)
		}
		batch := received{path: r.URL.Path, spans: map[string]*otlp.Span{}, resource: map[string]string{}}
		for _, rs := range request.ResourceSpans {
			for _, a := range rs.Resource.Attributes {
				batch.resource[a.Key] = a.Value.GetStringValue()
			}
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					batch.spans[span.Name] = span
				}
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "evil\r\n\x1b[31m")
		got <- batch
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func newTracing(t *testing.T, endpoint string) *Tracing {
	t.Helper()
	tracing, err := NewTracing(endpoint, "1.2.3-test", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := tracing.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tracing
}

func attributes(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
		if n, ok := a.Value.Value.(*common.AnyValue_IntValue); ok {
			all[a.Key] = strconv.FormatInt(n.IntValue, 10)
		}
	}
	return all
}

const (
	someTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan = "00f067aa0ba902b7"
)

func TestSpansArriveLinked(t *testing.T) {
	t.Attr("proves", "S2-P14 S4-O2")
	for name, traceID := range map[string]string{"a W3C trace id": someTrace, "a word of the caller's": "order-17.a_b"} {
		t.Run(name, func(t *testing.T) {
			endpoint, batches := newCollector(t, http.StatusOK)
			tracing := newTracing(t, endpoint)
			l := first(job.Paid)
			l.TraceID = traceID

			spanID, end := tracing.Submit(t.Context(), job.Paid, traceID, callerSpan)
			end(l.ID, nil)
			l.SpanID = spanID
			ctx, done := tracing.Process(handler.WithRun(t.Context(), handler.Run{ID: l.ID}), l)
			callTrace, callSpan, ok := SpanContext(ctx)
			if _, still := handler.Running(ctx); !ok || !still {
				t.Errorf("the handler's context: a span %v, its values %v", ok, still)
			}
			done(errors.New("card 4111 was refused"))
			if err := tracing.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}

			got := <-batches
			send, process := got.spans["send paid"], got.spans["process paid"]
			if send == nil || process == nil || got.path != "/v1/traces" {
				t.Fatalf("at %s: %v", got.path, got.spans)
			}
			id := hex.EncodeToString(send.TraceId)
			if (traceID == someTrace) != (id == someTrace) || hex.EncodeToString(process.TraceId) != id || callTrace != id {
				t.Errorf("one trace from edge to call: send %s, process %x, call %s", id, process.TraceId, callTrace)
			}
			if hex.EncodeToString(send.SpanId) != spanID || hex.EncodeToString(send.ParentSpanId) != callerSpan {
				t.Errorf("send is %x below %x", send.SpanId, send.ParentSpanId)
			}
			if len(process.ParentSpanId) != 0 || len(process.Links) != 1 ||
				hex.EncodeToString(process.Links[0].SpanId) != spanID || hex.EncodeToString(process.Links[0].TraceId) != id {
				t.Errorf("process is below %x, linked to %v, want only a link to %s", process.ParentSpanId, process.Links, spanID)
			}
			if hex.EncodeToString(process.SpanId) != callSpan {
				t.Errorf("a call says span %s, process is %x", callSpan, process.SpanId)
			}
			if send.Kind != otlp.Span_SPAN_KIND_PRODUCER || process.Kind != otlp.Span_SPAN_KIND_CONSUMER {
				t.Errorf("kinds %s, %s", send.Kind, process.Kind)
			}
			for span, want := range map[*otlp.Span]map[string]string{
				send: {
					"messaging.system": "tierq", "messaging.destination.name": "paid", "messaging.operation.type": "send",
					"messaging.message.id": string(l.ID),
				},
				process: {
					"messaging.system": "tierq", "messaging.destination.name": "paid", "messaging.operation.type": "process",
					"messaging.message.id": string(l.ID), "tierq.job.type": "SIMULATION", "tierq.job.attempt": "1",
					"error.type": "HANDLER_ERROR",
				},
			} {
				has := attributes(span)
				for key, value := range want {
					if has[key] != value {
						t.Errorf("%s: %s is %q, want %q", span.Name, key, has[key], value)
					}
				}
			}
			if s := process.Status; s.Code != otlp.Status_STATUS_CODE_ERROR ||
				strings.Contains(process.String(), "was refused") {
				t.Errorf("status %v; or the error's text left the house: %s", s, process)
			}
			if got.resource["service.name"] != "tierq" || got.resource["service.version"] != "1.2.3-test" {
				t.Errorf("resource %v", got.resource)
			}
		})
	}
}

func TestSpanKindsOfEnd(t *testing.T) {
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	boom := errors.New("boom")
	for _, tc := range []struct {
		ctx    context.Context
		err    error
		word   string
		failed bool
	}{
		{t.Context(), nil, "COMPLETED", false},
		{ended(handler.ErrCancelled), nil, "COMPLETED", false},
		{t.Context(), handler.Later(time.Second), "LATER", false},
		{ended(handler.ErrDraining), boom, "RELEASED", false},
		{ended(handler.ErrCancelled), boom, "CANCELLED", false},
		{ended(handler.ErrLeaseLost), boom, "LOST", true},
		{ended(handler.ErrMaxTime), boom, "MAX_TIME_EXCEEDED", true},
		{ended(handler.ErrMaxTime), handler.Permanent(boom), "PERMANENT_ERROR", true},
		{t.Context(), job.ErrUnknownType, "UNKNOWN_JOB_TYPE", true},
		{t.Context(), boom, "HANDLER_ERROR", true},
	} {
		if word, failed := ran(tc.ctx, tc.err); word != tc.word || failed != tc.failed {
			t.Errorf("%v, %v: %s %v, want %s %v", context.Cause(tc.ctx), tc.err, word, failed, tc.word, tc.failed)
		}
	}
}

func TestRootSpansAndRefusals(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "tierq-west")
	endpoint, batches := newCollector(t, http.StatusOK)
	tracing := newTracing(t, endpoint+"/")
	_, end := tracing.Submit(t.Context(), "GOLD", someTrace, "")
	end("", fmt.Errorf("submit: %w", job.ErrQueueFull))
	l := first(job.Public)
	l.TraceID, l.SpanID = someTrace, "not a span"
	within, over := tracing.Process(t.Context(), first(job.Unpaid))
	over(nil)
	_, done := tracing.Process(within, l) // a job's span is a root, even within another span
	done(nil)
	if err := tracing.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-batches
	send, process := got.spans["send gold"], got.spans["process public"]
	if hex.EncodeToString(send.TraceId) != someTrace || len(send.ParentSpanId) != 0 ||
		send.Status.Message != "QUEUE_FULL" {
		t.Errorf("send: %v", send)
	}
	if hex.EncodeToString(process.TraceId) != someTrace || len(process.Links)+len(process.ParentSpanId) != 0 ||
		process.Status.GetCode() != otlp.Status_STATUS_CODE_UNSET {
		t.Errorf("process: %v", process)
	}
	if got.resource["service.name"] != "tierq-west" {
		t.Errorf("the environment's service name does not win: %v", got.resource)
	}
}
