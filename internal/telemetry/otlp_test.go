package telemetry

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// spanOf returns the context of a span, local or of another process.
func spanOf(n byte, remote bool) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{
			n,
			2,
			3,
			0xff,
		}, SpanID: trace.SpanID{n, 9, 0xfe}, TraceFlags: trace.FlagsSampled, Remote: remote,
	})
}

func everything() []sdktrace.ReadOnlySpan {
	at := time.Unix(1_800_000_000, 123_456_789)
	full := tracetest.SpanStub{
		Name: "process paid", SpanContext: spanOf(1, false), Parent: spanOf(2, true), SpanKind: trace.SpanKindConsumer,
		StartTime: at, EndTime: at.Add(time.Second),
		Attributes: []attribute.KeyValue{
			attribute.String(
				"text",
				"wörld \"x\"",
			), attribute.String("no text", ""), attribute.Bool("yes", true), attribute.Bool("no", false),
			attribute.Int64(
				"least",
				math.MinInt64,
			), attribute.Int("zero", 0), attribute.Float64("pi", 3.25), attribute.Float64("inf", math.Inf(-1)),
			attribute.StringSlice(
				"texts",
				[]string{"a", ""},
			), attribute.Int64Slice("numbers", []int64{1, -1}), attribute.BoolSlice("bools", []bool{false, true}),
			attribute.Float64Slice("floats", []float64{0, 1.5}), attribute.StringSlice("none", nil),
		},
		Events: []sdktrace.Event{
			{Name: "seen", Time: at, Attributes: []attribute.KeyValue{attribute.Int("n", 3)}},
		},
		Links: []sdktrace.Link{
			{SpanContext: spanOf(3, true), Attributes: []attribute.KeyValue{attribute.Int("n", 4)}},
		},
		Status:               sdktrace.Status{Code: codes.Error, Description: "HANDLER_ERROR"},
		DroppedAttributes:    1,
		DroppedEvents:        2,
		DroppedLinks:         300,
		Resource:             resource.NewWithAttributes("https://schema", attribute.String("service.name", "tierq")),
		InstrumentationScope: instrumentation.Scope{Name: "ours", Version: "v1", SchemaURL: "https://scope"},
	}
	bare := tracetest.SpanStub{
		Name: "bare", SpanContext: spanOf(4, false), Resource: full.Resource,
		InstrumentationScope: instrumentation.Scope{Name: "other"},
	}
	ok := tracetest.SpanStub{
		Name: "ok", SpanContext: spanOf(5, false), Parent: spanOf(1, false), Status: sdktrace.Status{Code: codes.Ok},
		Resource: full.Resource, InstrumentationScope: full.InstrumentationScope,
	}
	return tracetest.SpanStubs{full, bare, ok}.Snapshots()
}

// The official library reads what we write: every field of a span, and the same in both forms.
func TestOTLPForms(t *testing.T) {
	spans := everything()
	var got collector.ExportTraceServiceRequest
	if err := (proto.UnmarshalOptions{}).Unmarshal(export(spans).proto(), &got); err != nil {
		t.Fatal(err)
	}
	rs := got.ResourceSpans[0]
	if len(got.ResourceSpans) != 1 || len(rs.ScopeSpans) != 2 || rs.SchemaUrl != "https://schema" ||
		rs.Resource.Attributes[0].Value.GetStringValue() != "tierq" {
		t.Fatalf("%v", &got)
	}
	if s := rs.ScopeSpans[0]; s.Scope.Name != "ours" || s.Scope.Version != "v1" || s.SchemaUrl != "https://scope" ||
		len(s.Spans) != 2 ||
		s.Spans[1].Status.Code != otlp.Status_STATUS_CODE_OK {
		t.Errorf("%v", s)
	}
	full := rs.ScopeSpans[0].Spans[0]
	text := func(s string) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
	}
	number := func(n int64) *common.AnyValue { return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}} }
	boolean := func(b bool) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: b}}
	}
	float := func(f float64) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: f}}
	}
	list := func(v ...*common.AnyValue) *common.AnyValue {
		return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: v}}}
	}
	one, two, three := spanOf(1, false), spanOf(2, true), spanOf(3, true)
	ids := func(c trace.SpanContext) ([]byte, []byte) { tr, sp := c.TraceID(), c.SpanID(); return tr[:], sp[:] }
	want := &otlp.Span{
		Name: "process paid", Kind: otlp.Span_SPAN_KIND_CONSUMER, StartTimeUnixNano: 1_800_000_000_123_456_789,
		EndTimeUnixNano: 1_800_000_001_123_456_789,
		Attributes: []*common.KeyValue{
			{
				Key:   "text",
				Value: text("wörld \"x\""),
			}, {Key: "no text", Value: text("")}, {Key: "yes", Value: boolean(true)}, {Key: "no", Value: boolean(false)},
			{
				Key:   "least",
				Value: number(math.MinInt64),
			}, {Key: "zero", Value: number(0)}, {Key: "pi", Value: float(3.25)}, {Key: "inf", Value: float(math.Inf(-1))},
			{Key: "texts", Value: list(text("a"), text(""))}, {Key: "numbers", Value: list(number(1), number(-1))},
			{
				Key:   "bools",
				Value: list(boolean(false), boolean(true)),
			}, {Key: "floats", Value: list(float(0), float(1.5))}, {Key: "none", Value: list()},
		},
		Events: []*otlp.Span_Event{
			{
				Name:         "seen",
				TimeUnixNano: 1_800_000_000_123_456_789,
				Attributes:   []*common.KeyValue{{Key: "n", Value: number(3)}},
			},
		},
		Links:  []*otlp.Span_Link{{Attributes: []*common.KeyValue{{Key: "n", Value: number(4)}}, Flags: 0x301}},
		Status: &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: "HANDLER_ERROR"}, Flags: 0x301,
		DroppedAttributesCount: 1, DroppedEventsCount: 2, DroppedLinksCount: 300,
	}
	want.TraceId, want.SpanId = ids(one)
	_, want.ParentSpanId = ids(two)
	want.Links[0].TraceId, want.Links[0].SpanId = ids(three)
	if !proto.Equal(full, want) {
		t.Errorf("%v\nwant %v", full, want)
	}
	if bare := rs.ScopeSpans[1].Spans[0]; bare.ParentSpanId != nil || bare.Flags != 0x101 ||
		bare.Status.GetCode() != 0 ||
		bare.StartTimeUnixNano != 0 {
		t.Errorf("%v", bare)
	}

	whole, err := json.Marshal(export(spans))
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON collector.ExportTraceServiceRequest
	if err := protojson.Unmarshal(base64IDs(t, whole), &fromJSON); err != nil {
		t.Fatalf("%v\n%s", err, whole)
	}
	if !proto.Equal(&fromJSON, &got) {
		t.Errorf("JSON says %v\nprotobuf  %v", &fromJSON, &got)
	}
}

// base64IDs converts OTLP's JSON for protobuf's own library: ids in base64 instead of hexadecimal.
func base64IDs(t *testing.T, text []byte) []byte {
	t.Helper()
	var whole any
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if name == "traceId" || name == "spanId" || name == "parentSpanId" {
					raw, err := hex.DecodeString(value.(string))
					if err != nil {
						t.Errorf("%s is %v", name, value)
					}
					v[name] = base64.StdEncoding.EncodeToString(raw)
					n++
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	walk(whole)
	if n == 0 {
		t.Error("no ids")
	}
	out, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
