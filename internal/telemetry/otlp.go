package telemetry

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// message is a message of OTLP, which has two forms: protobuf and JSON. Field numbers and names are those of
// opentelemetry-proto.
type message []field

// field is one field of a message. The type of its value decides how it is written:
//
//	string, bool, float64, message   as themselves
//	id                               bytes; hexadecimal in JSON
//	[]byte                           bytes; base64 in JSON
//	uint32                           a varint; a number in JSON
//	int64                            a varint; a text in JSON
//	fixed32, fixed64                 so many bytes; a number, a text in JSON
//	[]message                        repeated
type field struct {
	number int
	name   string
	value  any
}

type (
	id      []byte
	fixed32 uint32
	fixed64 uint64
)

// add adds a field unless its value is empty: proto3 leaves empty fields out.
func (m *message) add(number int, name string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case uint32:
		if v == 0 {
			return
		}
	case []message:
		if len(v) == 0 {
			return
		}
	}
	*m = append(*m, field{number, name, value})
}

// proto returns the message in protobuf's binary form.
func (m message) proto() []byte {
	var b []byte
	for _, f := range m {
		switch v := f.value.(type) {
		case string:
			b = appendBytes(b, f.number, []byte(v))
		case id:
			b = appendBytes(b, f.number, v)
		case []byte:
			b = appendBytes(b, f.number, v)
		case message:
			b = appendBytes(b, f.number, v.proto())
		case []message:
			for _, one := range v {
				b = appendBytes(b, f.number, one.proto())
			}
		case bool:
			n := uint64(0)
			if v {
				n = 1
			}
			b = binary.AppendUvarint(appendTag(b, f.number, wireVarint), n)
		case uint32:
			b = binary.AppendUvarint(appendTag(b, f.number, wireVarint), uint64(v))
		case int64:
			b = binary.AppendUvarint(appendTag(b, f.number, wireVarint), uint64(v))
		case float64:
			b = binary.LittleEndian.AppendUint64(appendTag(b, f.number, wire64), math.Float64bits(v))
		case fixed64:
			b = binary.LittleEndian.AppendUint64(appendTag(b, f.number, wire64), uint64(v))
		case fixed32:
			b = binary.LittleEndian.AppendUint32(appendTag(b, f.number, wire32), uint32(v))
		}
	}
	return b
}

// Protobuf's wire types.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

func appendTag(b []byte, number, wire int) []byte {
	return binary.AppendUvarint(b, uint64(number<<3|wire))
}

func appendBytes(b []byte, number int, v []byte) []byte {
	return append(binary.AppendUvarint(appendTag(b, number, wireBytes), uint64(len(v))), v...)
}

// MarshalJSON implements json.Marshaler: protobuf's JSON form, with hexadecimal ids as OTLP requires.
func (m message) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(m))
	for _, f := range m {
		switch v := f.value.(type) {
		case id:
			object[f.name] = hex.EncodeToString(v)
		case []byte:
			object[f.name] = base64.StdEncoding.EncodeToString(v)
		case int64:
			object[f.name] = strconv.FormatInt(v, 10)
		case fixed64:
			object[f.name] = strconv.FormatUint(uint64(v), 10)
		case float64:
			if object[f.name] = v; math.IsNaN(v) || math.IsInf(v, 0) {
				object[f.name] = map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
				if math.IsNaN(v) {
					object[f.name] = "NaN"
				}
			}
		default:
			object[f.name] = v
		}
	}
	return json.Marshal(object)
}

// export makes an ExportTraceServiceRequest. All spans have the same resource, because they are from one provider.
func export(spans []sdktrace.ReadOnlySpan) message {
	var scopes []instrumentation.Scope
	bySpan := map[instrumentation.Scope][]message{}
	for _, s := range spans {
		scope := s.InstrumentationScope()
		if bySpan[scope] == nil {
			scopes = append(scopes, scope)
		}
		bySpan[scope] = append(bySpan[scope], spanMessage(s))
	}
	var scopeSpans []message
	for _, scope := range scopes {
		var about, m message
		about.add(1, "name", scope.Name)
		about.add(2, "version", scope.Version)
		m.add(1, "scope", about)
		m.add(2, "spans", bySpan[scope])
		m.add(3, "schemaUrl", scope.SchemaURL)
		scopeSpans = append(scopeSpans, m)
	}
	var resource, whole message
	of := spans[0].Resource()
	resource.add(1, "attributes", keyValues(of.Attributes()))
	whole.add(1, "resource", resource)
	whole.add(2, "scopeSpans", scopeSpans)
	whole.add(3, "schemaUrl", of.SchemaURL())
	return message{{1, "resourceSpans", []message{whole}}}
}

func spanMessage(s sdktrace.ReadOnlySpan) (m message) {
	of := s.SpanContext()
	trace, span := of.TraceID(), of.SpanID()
	m.add(1, "traceId", id(trace[:]))
	m.add(2, "spanId", id(span[:]))
	m.add(3, "traceState", of.TraceState().String())
	if parent := s.Parent().SpanID(); parent.IsValid() {
		m.add(4, "parentSpanId", id(parent[:]))
	}
	m.add(5, "name", s.Name())
	m.add(6, "kind", uint32(s.SpanKind())) // the API's numbers are the same as OTLP's
	m.add(7, "startTimeUnixNano", fixed64(max(s.StartTime().UnixNano(), 0)))
	m.add(8, "endTimeUnixNano", fixed64(max(s.EndTime().UnixNano(), 0)))
	m.add(9, "attributes", keyValues(s.Attributes()))
	m.add(10, "droppedAttributesCount", uint32(s.DroppedAttributes()))
	var events, links []message
	for _, e := range s.Events() {
		var event message
		event.add(1, "timeUnixNano", fixed64(max(e.Time.UnixNano(), 0)))
		event.add(2, "name", e.Name)
		event.add(3, "attributes", keyValues(e.Attributes))
		events = append(events, event)
	}
	for _, l := range s.Links() {
		var link message
		trace, span := l.SpanContext.TraceID(), l.SpanContext.SpanID()
		link.add(1, "traceId", id(trace[:]))
		link.add(2, "spanId", id(span[:]))
		link.add(4, "attributes", keyValues(l.Attributes))
		link.add(6, "flags", flags(l.SpanContext, l.SpanContext))
		links = append(links, link)
	}
	m.add(11, "events", events)
	m.add(12, "droppedEventsCount", uint32(s.DroppedEvents()))
	m.add(13, "links", links)
	m.add(14, "droppedLinksCount", uint32(s.DroppedLinks()))
	var status message
	status.add(2, "message", s.Status().Description)
	status.add(3, "code", map[codes.Code]uint32{codes.Ok: 1, codes.Error: 2}[s.Status().Code])
	m.add(15, "status", status)
	m.add(16, "flags", flags(of, s.Parent()))
	return m
}

// flags returns the W3C flags, and whether the parent is of another process.
func flags(of, parent trace.SpanContext) fixed32 {
	const known, remote = 1 << 8, 1 << 9
	all := fixed32(of.TraceFlags()) | known
	if parent.IsRemote() {
		all |= remote
	}
	return all
}

func keyValues(list []attribute.KeyValue) (all []message) {
	for _, kv := range list {
		all = append(all, message{{1, "key", string(kv.Key)}, {2, "value", anyValue(kv.Value.AsInterface())}})
	}
	return all
}

// anyValue returns one member of a oneof, which is written even if its value is empty.
func anyValue(value any) message {
	switch v := value.(type) {
	case string:
		return message{{1, "stringValue", v}}
	case bool:
		return message{{2, "boolValue", v}}
	case int64:
		return message{{3, "intValue", v}}
	case float64:
		return message{{4, "doubleValue", v}}
	case []string:
		return array(v)
	case []bool:
		return array(v)
	case []int64:
		return array(v)
	case []float64:
		return array(v)
	case []byte:
		return message{{7, "bytesValue", v}}
	}
	return message{{1, "stringValue", fmt.Sprint(value)}}
}

func array[T any](list []T) message {
	values := []message{}
	for _, v := range list {
		values = append(values, anyValue(v))
	}
	return message{{5, "arrayValue", message{{1, "values", values}}}}
}
