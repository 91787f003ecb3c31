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

// Tracing sends spans to a collector over OTLP/HTTP. It follows the standard OTEL_* variables of the environment:
// headers, timeouts, sampler, service name, resource attributes, batch sizes. A nil *Tracing is valid and does
// nothing.
type Tracing struct {
	endpoint string // the URL for traces
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

// stopTimeout bounds the last flush, so that a hanging collector does not keep the process from ending.
const stopTimeout = 3 * time.Second

const (
	endpointName = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesName   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// NewTracing makes a Tracing that does nothing until Start. It returns nil without an endpoint (the value of
// OTEL_EXPORTER_OTLP_ENDPOINT), and if OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER=none says so. It returns an error
// for an endpoint or a protocol that it does not support.
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
			return nil, fmt.Errorf("%s has a user or a password, which is not sent: put it into OTEL_EXPORTER_OTLP_HEADERS",
				e.name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := os.Getenv(name); p != "" && !strings.HasPrefix(p, "http/") {
			return nil, fmt.Errorf("%s: only http/protobuf and http/json are served", name)
		}
	}
	t := &Tracing{version: version, log: log, hidden: hide(endpoint, traces)}
	if t.endpoint = traces; traces == "" { // the variable for traces wins, and is used unchanged
		t.endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	return t, nil
}

// Start begins to collect spans. It does not connect: the first batch does.
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
		resource.WithFromEnv()) // last, so that the operator's values win
	if err != nil {
		t.log.Warn("some resource attributes in the environment cannot be read", "err", err)
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

// Stop sends the remaining spans, for at most 3 s. Spans that end later are dropped.
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
		_ = t.exporter.Shutdown(ctx) // cancels the call under way, which would go on after Stop; its result does not matter
		err = fmt.Errorf("stop tracing, some spans are lost: %w", err)
	}
	t.provider = nil
	t.tracer.Store(nil)
	return err
}

// exporter logs once that the collector does not accept spans, and once that it does again.
type exporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	hidden  *strings.Replacer
	failing atomic.Bool
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error, because the SDK would print each one outside
// of our log.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch failing := err != nil; {
	case failing && !e.failing.Swap(true):
		e.log.Warn("the trace collector refuses spans or does not answer; spans are dropped", "err", e.said(err))
	case !failing && e.failing.Swap(false):
		e.log.Info("the trace collector accepts spans again")
	}
	return nil //nolint:nilerr // it is in the log
}

// mostSaid is how many characters of a collector's error are logged: the error contains the whole answer.
const mostSaid = 200

// said returns the error's text without the collector's URL: some collectors have a token in the path, and repeat
// it.
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

// leastToken is the least length of a path segment that may be a token.
const leastToken = 8

// hide returns a replacer that removes these URLs from a text, and path segments that may be tokens, escaped and
// not.
func hide(urls ...string) *strings.Replacer {
	var pairs []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || text == "" {
			continue
		}
		whole := &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(u.Path, "/")} // as the collector sees it
		pairs = append(pairs, whole.String(), "the collector")
		for _, part := range append(strings.Split(u.Path, "/"), strings.Split(u.EscapedPath(), "/")...) {
			if len(part) >= leastToken {
				pairs = append(pairs, part, "***")
			}
		}
	}
	return strings.NewReplacer(pairs...)
}
