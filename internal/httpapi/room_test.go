package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/tierq/tierq/internal/job"
)

// The memory of many large bodies together is bounded and released. Small bodies are accepted even when it is used
// up.
func TestRoom_BodiesShareTheirMemory(t *testing.T) {
	t.Attr("proves", "A15")
	r := newRooms(t)
	r.deps.PayloadLimit = 64 << 10
	a := &api{Deps: r.deps.withDefaults(), bodyLimit: 80 << 10}
	r.Handler = a.handler()
	const others = bodyMemory - 1000
	a.bodies.Store(others)
	body := func(size int) string { return `{"payload":{"A":1,"B":2}` + strings.Repeat(" ", size) + `}` }
	rec := r.post(body(20_000))
	wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
	wantHeader(t, rec, "Retry-After", "1")
	if rec := r.post(body(3000)); rec.Code != 202 {
		t.Errorf("a small one: %d %s", rec.Code, rec.Body)
	}
	if held := a.bodies.Load(); held != others {
		t.Errorf("%d bytes are still held", held-others)
	}
	a.bodies.Store(0)
	if rec := r.post(body(70_000)); rec.Code != 202 || a.bodies.Load() != 0 {
		t.Errorf("alone: %d %s; %d bytes are still held", rec.Code, rec.Body, a.bodies.Load())
	}
}

// A submit that waits for its answer keeps its body and its share of the memory. A body beyond that memory is
// refused at once.
func TestRoom_BodiesAreHeldUntilTheAnswer(t *testing.T) {
	r := newRooms(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		close(entered)
		<-leave
		return job.Accepted{ID: knownID}, nil
	}
	a := &api{Deps: r.deps.withDefaults(), bodyLimit: 80 << 10}
	r.Handler = a.handler()
	const size = 40_000
	answered := make(chan int, 1)
	go func() {
		answered <- r.do("POST", "/paid/submit", `{"payload":{"A":1,"B":2}`+strings.Repeat(" ", size)+`}`, "Content-Type",
			"application/json").Code
	}()
	<-entered
	if held := a.bodies.Load(); held < size-firstPiece {
		t.Errorf("%d bytes are held by a submit of %d that waits", held, size)
	}
	close(leave)
	if code := <-answered; code != 202 || a.bodies.Load() != 0 {
		t.Errorf("%d; %d bytes are still held", code, a.bodies.Load())
	}
}

// Streams of all changes have a bound of their own, besides the bound of waits. A stream that ends frees its place.
func TestRoom_StreamsOfEverythingAreBounded(t *testing.T) {
	r := newRooms(t)
	r.messages = make(chan job.Message)
	close(r.messages)
	a := &api{Deps: r.deps.withDefaults()}
	r.Handler = a.handler()
	a.streams.Store(maxStreams)
	rec := r.do("GET", "/api/events", "")
	wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
	wantHeader(t, rec, "Retry-After", "1")
	a.streams.Store(maxStreams - 1)
	if rec := r.do("GET", "/api/events", ""); rec.Code != 200 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	a.waiting.Store(int64(a.Waiting)) // the streams do not count among the waits
	if rec := r.do("GET", "/api/events", ""); rec.Code != 200 {
		t.Errorf("beside as many as may wait: %d %s", rec.Code, rec.Body)
	}
	if n := a.streams.Load(); n != maxStreams-1 {
		t.Errorf("%d streams are counted, want %d", n, maxStreams-1)
	}
}

func TestRoom_Gather(t *testing.T) {
	a := &api{}
	memory := a.bodyMemory()
	for _, size := range []int{0, 1, firstPiece - 1, firstPiece, firstPiece + 1, 3 * firstPiece, 100_000} {
		text := strings.Repeat("x", size)
		for _, length := range []int64{-1, int64(size)} {
			for name, r := range map[string]io.Reader{
				"at once": strings.NewReader(text), "with the end": iotest.DataErrReader(strings.NewReader(text)),
				"in halves": iotest.HalfReader(strings.NewReader(text)),
			} {
				got, held, err := memory.gather(r, length, 0)
				if a.bodies.Add(-held); err != nil || string(got) != text {
					t.Errorf("%d bytes of %d, %s: %d bytes, %v", size, length, name, len(got), err)
				}
			}
		}
		_, held, err := memory.gather(strings.NewReader(text), int64(size)+1, 0)
		if a.bodies.Add(-held); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, one too few: %v", size, err)
		}
		_, held, err = memory.gather(io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrClosedPipe)), -1,
			firstPiece)
		if a.bodies.Add(-held); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d bytes and an error: %v", size, err)
		}
	}
	if held := a.bodies.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
}

// If the number of requests is bounded, one more request is refused. When a request has ended, the next one is
// served.
func TestRoom_RequestsAreBounded(t *testing.T) {
	t.Attr("proves", "A18")
	r := newRooms(t)
	r.deps.Requests = 1
	r.Handler = NewHandler(r.deps)
	entered, leave := make(chan struct{}), make(chan struct{})
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) {
		close(entered)
		<-leave
		return job.Accepted{ID: knownID}, nil
	}
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- r.do("POST", "/paid/submit", "") }()
	<-entered
	for _, path := range []string{pollKnown, "/admin/jobs"} {
		rec := r.do("GET", path, "")
		wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
		wantHeader(t, rec, "Retry-After", "1")
	}
	close(leave)
	if rec := <-answered; rec.Code != 202 {
		t.Errorf("the one under way: %d", rec.Code)
	}
	if rec := r.do("GET", "/livez", ""); rec.Code != 200 {
		t.Errorf("after it: %d", rec.Code)
	}
}

// A sender that promises a large body and sends little of it holds little memory: none beside its free first piece
// before that is full, and then at most four times what it has sent.
func TestGather_SlowSenders(t *testing.T) {
	t.Parallel()
	const promised = 1 << 20
	for _, length := range []int64{promised, -1} {
		for sent := 0; sent < promised; sent = max(1, 3*sent) {
			memory := shared{taken: &atomic.Int64{}, most: 10 << 20}
			r := io.MultiReader(strings.NewReader(strings.Repeat("x", sent)), iotest.ErrReader(io.ErrClosedPipe))
			_, held, err := memory.gather(r, length, firstPiece)
			if most := int64(max(0, 4*sent-firstPiece)); !errors.Is(err, io.ErrClosedPipe) || held > most ||
				sent < firstPiece && held > 0 {
				t.Errorf("%d bytes of %d have arrived, and hold %d: %v", sent, length, held, err)
			}
		}
	}
}
