package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracing sends spans to a collector over OTLP/HTTP. It obeys the standard OTEL_* variables of the environment:
// headers, timeouts, sampler, service name, resource attributes, batch sizes. A nil *Tracing is valid and does nothing.
type Tracing struct {
	endpoint string // of the traces
	hidden   *strings.Replacer
	version  string
	log      *slog.Logger

	mu       sync.Mutex
	provider *sdktrace.TracerProvider
	exporter *exporter
	ended    bool
	tracer   atomic.Pointer[tracer]
}

type tracer struct{ trace.Tracer }

// stopTimeout bounds the last flush: a collector that hangs does not hold the process.
const stopTimeout = 3 * time.Second

const (
	endpointName = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesName   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// NewTracing makes a tracing that does nothing until Start; nil without an endpoint, the value of
// OTEL_EXPORTER_OTLP_ENDPOINT, or if OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER=none says so. It fails for an endpoint
// or a protocol that it cannot serve.
func NewTracing(endpoint, version string, log *slog.Logger) (*Tracing, error) {
	if endpoint == "" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") ||
		os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	general, traces := os.Getenv(endpointName), os.Getenv(tracesName)
	for _, e := range []struct{ name, url string }{{endpointName, endpoint}, {endpointName, general},
		{tracesName, traces}} {
		u, err := url.Parse(e.url)
		switch {
		case e.url == "":
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return nil, fmt.Errorf("%s is not an http:// or https:// URL", e.name)
		case u.User != nil:
			return nil, fmt.Errorf("%s has a user or a password, which nobody would get: put it into OTEL_EXPORTER_OTLP_HEADERS",
				e.name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && !strings.HasPrefix(p, "http/") {
			return nil, fmt.Errorf("%s: only http/protobuf and http/json are served", name)
		}
	}
	t := &Tracing{version: version, log: log, hidden: hide(endpoint, traces)}
	if t.endpoint = traces; traces == "" { // which is for traces alone, wins, and is taken as it is
		t.endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	return t, nil
}

// Start begins to collect spans. It dials nobody: that happens with the first batch.
func (t *Tracing) Start(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.provider != nil || t.ended {
		return nil
	}
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", "tierq"), attribute.String("service.version", t.version)),
		resource.WithFromEnv()) // comes last: the operator's words win
	if err != nil {
		t.log.Warn("part of the environment's resource attributes is not readable", "err", err)
	}
	t.exporter = &exporter{
		SpanExporter: newOTLPClient(readCollectorSettings(t.endpoint, t.log), t.version),
		log:          t.log,
		hidden:       t.hidden,
	}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(t.exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(idsOfJobs{}))
	t.tracer.Store(&tracer{t.provider.Tracer("github.com/tierq/tierq", trace.WithInstrumentationVersion(t.version))})
	return nil
}

// Stop sends what is left, for at most 3 s. Spans that end later are dropped.
func (t *Tracing) Stop(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	if err != nil {
		_ = t.exporter.Shutdown(ctx) // breaks off the call under way, which would outlive us; whatever it answers, we leave
		err = fmt.Errorf("stop tracing, some spans are lost: %w", err)
	}
	t.provider = nil
	t.tracer.Store(nil)
	return err
}

// exporter says once that the collector does not take spans, and once that it does again.
type exporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	hidden  *strings.Replacer
	failing atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter. It keeps its errors: the SDK would print each of them past our log.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch failing := err != nil; {
	case failing && !e.failing.Swap(true):
		e.log.Warn("the trace collector does not take spans; they are dropped", "err", e.said(err))
	case !failing && e.failing.Swap(false):
		e.log.Info("the trace collector takes spans again")
	}
	return nil //nolint:nilerr // it is in the log
}

// mostSaid is how much of a collector's trouble is logged, in characters: the error has its whole answer in it.
const mostSaid = 200

// said is the trouble without the collector's URL: some take a token in its path, and repeat it.
func (e *exporter) said(err error) string {
	text := err.Error()
	if failed, ok := errors.AsType[*url.Error](err); ok {
		text = failed.Err.Error()
	}
	if e.hidden != nil {
		text = e.hidden.Replace(text)
	}
	if all := []rune(text); len(all) > mostSaid {
		text = string(all[:mostSaid]) + "..."
	}
	return text
}

// leastToken is how long a part of a path is that could be a token.
const leastToken = 8

// hide takes some URLs out of a text, and what could be a token in their paths, as it is and as it is sent.
func hide(urls ...string) *strings.Replacer {
	var pairs []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || text == "" {
			continue
		}
		whole := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")} // as the collector knows it
		pairs = append(pairs, whole.String(), "the collector")
		for _, part := range append(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")...) {
			if len(part) >= leastToken {
				pairs = append(pairs, part, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}
