package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// otlpClient sends spans to an OTLP/HTTP endpoint. It sends a batch again if the collector may accept it later,
// after increasing pauses and until the context ends: the SDK gives a batch 30 s by default
// (OTEL_BSP_EXPORT_TIMEOUT). Meanwhile spans wait in the SDK's queue, or are dropped if the queue is full. No job
// waits for spans.
type otlpClient struct {
	collectorSettings
	client  *http.Client
	version string
	pause   time.Duration // before the second try; half as long again before each later try, at most 30 s

	life context.Context // ends with Shutdown
	end  context.CancelCauseFunc
}

const (
	firstPause = 5 * time.Second
	maxPause   = 30 * time.Second
	maxAnswer  = 64 << 10 // bytes of an answer that are read
)

var errStopped = errors.New("the exporter was stopped")

func newOTLPClient(s collectorSettings, version string) *otlpClient {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	c := &otlpClient{collectorSettings: s, version: version, pause: firstPause, client: &http.Client{
		Transport: transport, Timeout: s.timeout,
		// The headers of the settings are for the configured host only, and a redirect may turn a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// ExportSpans implements sdktrace.SpanExporter. Its error says why the collector has not accepted all spans.
func (c *otlpClient) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })()
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	pause := c.pause
	for {
		wait, err := c.send(ctx, body)
		if err == nil || wait < 0 {
			return err
		}
		timer := time.NewTimer(max(wait, pause/2+rand.N(pause+1)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		pause = min(pause+pause/2, maxPause)
	}
}

// Shutdown implements sdktrace.SpanExporter. It cancels the request under way.
func (c *otlpClient) Shutdown(context.Context) error {
	c.end(errStopped)
	c.client.CloseIdleConnections()
	return nil
}

func (c *otlpClient) encode(spans []sdktrace.ReadOnlySpan) (body []byte, err error) {
	if m := export(spans); c.json {
		body, err = json.Marshal(m)
	} else {
		body = m.proto()
	}
	if err != nil || !c.gzip {
		return body, err
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, err = w.Write(body)
	err = errors.Join(err, w.Close())
	return small.Bytes(), err
}

// send makes one request. If a later request may succeed, wait is how long the collector asks the client to wait,
// otherwise -1.
func (c *otlpClient) send(ctx context.Context, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header.Set("User-Agent", "tierq/"+c.version)
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.json {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.client.Do(r)
	if err != nil {
		if temporary, ok := errors.AsType[interface {
			error
			Temporary() bool
		}](err); ok && temporary.Temporary() && ctx.Err() == nil {
			return 0, err
		}
		return -1, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch status := answer.StatusCode; {
	case err != nil:
		return -1, err
	case status/100 == 2:
		return -1, rejected(answer.Header.Get("Content-Type"), text)
	case status == http.StatusTooManyRequests,
		status == http.StatusBadGateway,
		status == http.StatusServiceUnavailable,
		status == http.StatusGatewayTimeout:
		return retryAfter(answer.Header.Get("Retry-After")), fmt.Errorf("it answers %s: %s", answer.Status, text)
	}
	return -1, fmt.Errorf("it answers %s: %s", answer.Status, text)
}

// retryAfter reads a number of seconds. For a date, and for any other text, it returns 0.
func retryAfter(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}

// rejected returns the error of an ExportTraceServiceResponse with a partial success, and nil for every other
// answer.
func rejected(contentType string, text []byte) error {
	var n int64
	var why string
	switch kind, _, _ := strings.Cut(contentType, ";"); kind {
	case "application/json":
		var said struct {
			PartialSuccess struct {
				RejectedSpans json.RawMessage // a text by the specification; some collectors send a number
				ErrorMessage  string
			}
		}
		if json.Unmarshal(text, &said) == nil {
			n, _ = strconv.ParseInt(strings.Trim(string(said.PartialSuccess.RejectedSpans), `"`), 10, 64)
			why = said.PartialSuccess.ErrorMessage
		}
	case "application/x-protobuf":
		for _, partial := range fieldsOf(text) { // the only field of the response
			for number, v := range fieldsOf(partial.bytes) {
				switch number {
				case 1:
					n = int64(v.number)
				case 2:
					why = string(v.bytes)
				}
			}
		}
	}
	if n == 0 && why == "" {
		return nil
	}
	return fmt.Errorf("it rejects %d spans: %s", n, why)
}

// protoValue is the value of a field: a varint, or bytes.
type protoValue struct {
	number uint64
	bytes  []byte
}

// fieldsOf iterates over the fields of a protobuf message, varints and bytes, until its end or the first field of
// another kind.
func fieldsOf(b []byte) iter.Seq2[int, protoValue] {
	return func(yield func(int, protoValue) bool) {
		for len(b) > 0 {
			tag, n := binary.Uvarint(b)
			if n <= 0 {
				return
			}
			number, m := binary.Uvarint(b[n:])
			if m <= 0 {
				return
			}
			v := protoValue{number: number}
			b = b[n+m:]
			switch tag & 7 {
			case wireVarint:
			case wireBytes:
				if number > uint64(len(b)) {
					return
				}
				v.bytes, b = b[:number], b[number:]
			default:
				return
			}
			if !yield(int(tag>>3), v) {
				return
			}
		}
	}
}
