package telemetry

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func noSubmit(job.ID, error) {}
func noProcess(error)        {}

// Submit begins the span of a submit: "send paid", in the trace that traceID names, below the caller's span if
// parentSpanID is valid. The job stores spanID, so that its attempts can link to that span. end must be called
// once, with the answer; it is never nil.
func (t *Tracing) Submit(ctx context.Context, tier job.Tier, traceID, parentSpanID string) (spanID string,
	end func(id job.ID, err error)) {
	tracer := t.running()
	if tracer == nil {
		return "", noSubmit
	}
	of := traceOf(traceID)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(about("send", tier)...)}
	if parent, err := trace.SpanIDFromHex(parentSpanID); err == nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote(of, parent))
	} else {
		ctx, options = context.WithValue(ctx, traceKey{}, of), append(options, trace.WithNewRoot())
	}
	_, span := tracer.Start(ctx, "send "+strings.ToLower(string(tier)), options...)
	return span.SpanContext().SpanID().String(), func(id job.ID, err error) {
		if id != "" {
			span.SetAttributes(attribute.String("messaging.message.id", string(id)))
		}
		if err != nil {
			fail(span, string(SubmitOf(job.Accepted{}, err)))
		}
		span.End()
	}
}

// Process begins the span of one attempt: "process paid", a root span in the job's own trace. It has a link to the
// submit's span instead of being its child, because a job may run long after its submit, and more than once. The
// returned context carries the span to the handler's calls. end must be called with the handler's error; it
// records only the kind of the error, whose text may have users' data. end is never nil.
func (t *Tracing) Process(ctx context.Context, l *job.Lease) (context.Context, func(err error)) {
	tracer := t.running()
	if tracer == nil {
		return ctx, noProcess
	}
	of := traceOf(l.TraceID)
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(about("process", l.Tier)...),
		trace.WithAttributes(
			attribute.String("messaging.message.id", string(l.ID)),
			attribute.String("tierq.job.type", l.Type),
			attribute.Int("tierq.job.attempt", l.Attempt),
			attribute.Int("tierq.job.generation", l.Generation),
		),
	}
	if submitter, err := trace.SpanIDFromHex(l.SpanID); err == nil {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: remote(of, submitter)}))
	}
	ctx, span := tracer.Start(context.WithValue(ctx, traceKey{}, of), "process "+strings.ToLower(string(l.Tier)),
		options...)
	return ctx, func(err error) {
		if word, failed := ran(ctx, err); failed {
			fail(span, word)
		} else {
			span.SetAttributes(attribute.String("tierq.job.outcome", word))
		}
		span.End()
	}
}

// SpanContext returns the current span's trace id (32 hexadecimal digits) and span id (16), for the traceparent of
// an outgoing call. ok is false without a span.
func SpanContext(ctx context.Context) (traceID, spanID string, ok bool) {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() {
		return "", "", false
	}
	return s.TraceID().String(), s.SpanID().String(), true
}

func (t *Tracing) running() trace.Tracer {
	if t == nil {
		return nil
	}
	if started := t.tracer.Load(); started != nil {
		return started.Tracer
	}
	return nil
}

// about returns the attributes that OpenTelemetry's conventions for messaging require.
func about(operation string, tier job.Tier) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "tierq"),
		attribute.String("messaging.destination.name", strings.ToLower(string(tier))),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", operation),
	}
}

func fail(s trace.Span, word string) {
	s.SetAttributes(attribute.String("error.type", word))
	s.SetStatus(codes.Error, word)
}

// ran returns the kind of a handler's end, and whether that is a failure. ctx is the handler's context.
func ran(ctx context.Context, err error) (word string, failed bool) {
	if err == nil {
		return string(job.Completed), false
	}
	cause, v := context.Cause(ctx), handler.Judge(err)
	switch {
	case v.Later > 0:
		return "LATER", false
	case errors.Is(cause, handler.ErrDraining):
		return "RELEASED", false
	case errors.Is(cause, handler.ErrCancelled):
		return string(job.Cancelled), false
	case errors.Is(cause, handler.ErrLeaseLost):
		return "LOST", true
	case v.Permanent:
		return string(job.PermanentError), true
	case errors.Is(cause, handler.ErrMaxTime):
		return string(job.MaxTimeExceeded), true
	case errors.Is(err, job.ErrUnknownType):
		return string(job.UnknownJobType), true
	}
	return string(job.HandlerError), true
}

// traceOf returns the W3C trace id for a job's trace id: the same id if that is valid, otherwise (a caller may
// choose any text) the first half of its SHA-256.
func traceOf(text string) trace.TraceID {
	if id, err := trace.TraceIDFromHex(text); err == nil {
		return id
	}
	sum := sha256.Sum256([]byte(text))
	return trace.TraceID(sum[:16])
}

// remote returns the context of a span of another process. It is marked as sampled, which is unknown, so that our
// spans are sampled if the sampler follows the parent.
func remote(t trace.TraceID, s trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t, SpanID: s, TraceFlags: trace.FlagsSampled,
		Remote: true})
}

type traceKey struct{}

// idsOfJobs gives a root span the trace id of its job. The other ids are random, not secret.
type idsOfJobs struct{}

// NewIDs implements sdktrace.IDGenerator.
func (g idsOfJobs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(traceKey{}).(trace.TraceID)
	if !ok {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64()|1)
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (idsOfJobs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1) // never all zeros, which is no valid id
	return id
}
