package outbound

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// A redirect counts as an answer: the client does not call its target, and sends no header there.
func TestRedirects(t *testing.T) {
	t.Attr("proves", "A37")
	inner := receive(t, func(http.ResponseWriter, *http.Request) {})
	for _, status := range []int{301, 302, 303, 307, 308} {
		var outer *receiver
		outer = receive(t, func(w http.ResponseWriter, r *http.Request) {
			to := inner.URL
			if r.URL.Path == "/loop" {
				to = outer.URL + "/loop"
			}
			http.Redirect(w, r, to, status)
		})
		for _, path := range []string{"/", "/loop"} {
			answer, err := client(t, Options{Allow: loopback}).Do(t.Context(), Request{
				Method: "POST", URL: outer.URL + path, Body: []byte("{}"), Header: http.Header{"Authorization": {"Bearer secret"}},
			})
			if err != nil || answer.Status != status {
				t.Errorf("%d %s: %+v, %v", status, path, answer, err)
			}
		}
		if n := outer.hits.Load(); n != 2 {
			t.Errorf("%d: called %d times, want once each", status, n)
		}
	}
	if n := inner.hits.Load(); n > 0 {
		t.Errorf("the redirect's target was called %d times", n)
	}
}

// A receiver that answers too much, never ends or sends endless headers costs a limited time and limited memory.
func TestHostileAnswers(t *testing.T) {
	t.Attr("proves", "A52")
	gone := make(chan struct{}, 1)
	r := receive(t, func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat("x", 32<<10))
		switch r.URL.Path {
		case "/exact":
			_, _ = w.Write(chunk)
		case "/huge":
			w.Header().Set("Content-Length", "10737418240")
			for written := 0; written < 10<<30; written += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					gone <- struct{}{}
					return
				}
			}
		case "/endless":
			_, _ = w.Write([]byte("a"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/headers":
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}
	})
	c := client(t, Options{Allow: loopback, MaxBody: 32 << 10})
	if answer, err := get(t, c, r.URL+"/exact"); err != nil || len(answer.Body) != 32<<10 || answer.Truncated {
		t.Errorf("exact: %d bytes, truncated %v, %v", len(answer.Body), answer.Truncated, err)
	}
	if answer, err := get(t, c, r.URL+"/huge"); err != nil || len(answer.Body) != 32<<10 || !answer.Truncated {
		t.Errorf("huge: %d bytes, truncated %v, %v", len(answer.Body), answer.Truncated, err)
	}
	<-gone // the client closed the connection before the answer's end
	begun := time.Now()
	var failed *CallError
	_, err := c.Do(t.Context(), Request{Method: "GET", URL: r.URL + "/endless", Timeout: time.Second})
	if !errors.As(err, &failed) || failed.Reason != "no whole answer in time" || handler.Judge(err).Permanent {
		t.Errorf("endless: %v", err)
	}
	if took := time.Since(begun); took < time.Second || took > 10*time.Second {
		t.Errorf("endless took %v", took)
	}
	if _, err := get(t, c, r.URL+"/headers"); !errors.As(err, &failed) {
		t.Errorf("headers: %v", err)
	}
}

// A receiver that sends a byte now and then, in its headers or its body, is cut off at the call's time limit: a
// byte does not prolong that limit.
func TestSlowAnswers(t *testing.T) {
	t.Attr("proves", "A52")
	t.Parallel()
	for name, opening := range map[string]string{
		"status line": "HTTP/1.1 200 ", "headers": "HTTP/1.1 200 OK\r\nX-Slow: ",
		"body":        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
		"chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n",
		"early hints": "HTTP/1.1 103 Early Hints\r\nX-Slow: ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			left := make(chan struct{})
			go func() {
				defer close(left)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, err = conn.Read(make([]byte, 4096)) // the request
				for text := opening; err == nil; text = "a" {
					_, err = conn.Write([]byte(text))
					<-time.After(20 * time.Millisecond)
				}
			}()
			defer func() { _ = l.Close(); <-left }()
			bound, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begun := time.Now()
			var failed *CallError
			_, err = client(t, Options{Allow: loopback}).Do(bound,
				Request{Method: "GET", URL: "http://" + l.Addr().String(), Timeout: time.Second})
			if took := time.Since(begun); !errors.As(err, &failed) || failed.Reason != "no whole answer in time" ||
				took > 10*time.Second {
				t.Errorf("%v after %v", err, took)
			}
			<-left // the client closed the connection
		})
	}
}

func TestErrorsTellTheHostOnly(t *testing.T) {
	secret := "/path?token=secret"
	closed := receive(t, func(http.ResponseWriter, *http.Request) {})
	closed.Close()
	broken := receive(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs that the client does not trust it
	secure.StartTLS()
	defer secure.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := client(t, Options{Allow: loopback})
	for url, want := range map[string]string{
		closed.URL:                         "call 127.0.0.1: connection refused",
		broken.URL:                         "call 127.0.0.1: the connection broke",
		secure.URL:                         "call 127.0.0.1: its certificate is not trusted",
		"https" + broken.URL[4:]:           "call 127.0.0.1: it does not speak TLS",
		"http://" + silent.Addr().String(): "call 127.0.0.1: no whole answer in time",
	} {
		r := Request{Method: "GET", URL: url + secret}
		if strings.Contains(want, "in time") {
			r.Timeout = 100 * time.Millisecond
		}
		_, err := c.Do(t.Context(), r)
		if err == nil || err.Error() != want || handler.Judge(err) != (handler.Verdict{RetryAfter: -1}) {
			t.Errorf("%s: %v, want %q, worth a repeat", url, err, want)
		}
	}
}

// The error of a call whose context ended is the context's cause, so that a cancelled job does not count as
// failed.
func TestContextsCause(t *testing.T) {
	begun := make(chan struct{})
	r := receive(t, func(_ http.ResponseWriter, r *http.Request) { close(begun); <-r.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-begun; cancel(handler.ErrDraining) }()
	_, err := client(t, Options{Allow: loopback}).Do(ctx, Request{Method: "GET", URL: r.URL})
	var failed *CallError
	if !errors.Is(err, handler.ErrDraining) || errors.As(err, &failed) {
		t.Errorf("error = %v", err)
	}
}

func TestHeaders(t *testing.T) {
	t.Attr("proves", "S4-M4")
	var got http.Header
	var body []byte
	r := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	send := func(opt Options, req Request) http.Header {
		t.Helper()
		opt.Allow = loopback
		req.URL = r.URL
		if _, err := client(t, opt).Do(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		return got
	}
	h := send(Options{UserAgent: "tierq/1"},
		Request{Method: "POST", Body: []byte(`{"a":1}`), TraceID: trace, MessageID: "m",
			Timeout: time.Minute, Header: http.Header{
				"User-Agent": {"mine"}, "X-Mine": {"kept"}, "Traceparent": {"00-bad"}, "X-Trace-Id": {"bad"}, "Webhook-Id": {"bad"},
				"Webhook-Signature": {"bad"},
			}})
	first := h.Get("Traceparent")
	if string(body) != `{"a":1}` || h.Get("User-Agent") != "tierq/1" || h.Get("X-Mine") != "kept" ||
		h.Get("X-Trace-Id") != trace ||
		h.Get("Webhook-Id") != "m" ||
		h.Values("Webhook-Signature") != nil || len(h.Get("Webhook-Timestamp")) != 10 || h.Get("Accept-Encoding") != "" {
		t.Errorf("headers %v, body %s", h, body)
	}
	if len(first) != 55 || !strings.HasPrefix(first, "00-"+trace+"-") || !strings.HasSuffix(first, "-01") {
		t.Errorf("traceparent = %q", first)
	}
	if h = send(Options{}, Request{Method: "GET", TraceID: trace}); h.Get("Traceparent") == first ||
		h.Get("Webhook-Id") != "" ||
		h.Get("User-Agent") != "tierq" {
		t.Errorf("another call: %v", h)
	}
	h = send(Options{}, Request{Method: "GET", TraceID: "my.trace"})
	if p := h.Get("Traceparent"); h.Get("X-Trace-Id") != "my.trace" || len(p) != 55 || p[3:35] != traceOf("my.trace") ||
		p[3:35] == traceOf("other") {
		t.Errorf("a trace id that is no W3C id: %v", h)
	}
	if h = send(Options{}, Request{Method: "GET", TraceID: "bad\r\nX-Evil: 1"}); h.Get("X-Trace-Id") != "" ||
		h.Get("X-Evil") != "" {
		t.Errorf("a bad trace id: %v", h)
	}
	span := func(context.Context) (string, string, bool) { return trace, "00f067aa0ba902b7", true }
	if h = send(Options{Span: span}, Request{Method: "GET",
		TraceID: "mine"}); h.Get("Traceparent") != "00-"+trace+"-00f067aa0ba902b7-01" || h.Get("X-Trace-Id") != "mine" {
		t.Errorf("within a span: %v", h)
	}
	if h = send(Options{}, Request{Method: "GET"}); h.Get("Traceparent")[3:35] == send(Options{},
		Request{Method: "GET"}).Get("Traceparent")[3:35] {
		t.Errorf("two calls without a trace share one: %v", h)
	}
	if zero := strings.Repeat("0", 32); traceOf(zero) == zero || traceOf("") == "" ||
		traceOf(strings.ToUpper(trace)) == strings.ToUpper(trace) {
		t.Error("what is no trace id was taken for one")
	}
}
