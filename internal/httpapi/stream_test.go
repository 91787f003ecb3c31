package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const eventsOfKnown = "/api" + jobKnown + "/events"

// telling returns a Follow that reports the given states of a job.
func telling(life ...job.Job) func(context.Context, func(job.Job) error) error {
	return func(_ context.Context, heard func(job.Job) error) error {
		for _, j := range life {
			if err := heard(j); err != nil {
				return err
			}
		}
		return nil
	}
}

// said returns the names and ids of a stream's events.
func said(body string) (all []string) {
	for _, s := range sentences(body) {
		var words []string
		for line := range strings.SplitSeq(s, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			if name != "data" {
				words = append(words, value)
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func TestJobEvents(t *testing.T) {
	life := []job.Job{at(job.Pending, 0), at(job.Processing, 1), at(job.Processing, 1), at(job.Completed, 1)}
	life[3].Result = []byte("{\n\"a\":\r\n1}")
	for name, c := range map[string]struct {
		headers []string
		want    []string
	}{
		"from the start": {nil, []string{"2000", "status PENDING-0-0-1", "status PROCESSING-1-0-1",
			"status COMPLETED-1-0-1", "bye"}},
		"seen already": {[]string{"Last-Event-ID", "PENDING-0-0-1"},
			[]string{"2000", "status PROCESSING-1-0-1", "status COMPLETED-1-0-1", "bye"}},
		"seen something old": {[]string{"Last-Event-ID", "PROCESSING-7-0-1"},
			[]string{"2000", "status PENDING-0-0-1", "status PROCESSING-1-0-1", "status COMPLETED-1-0-1", "bye"}},
		"A54": {[]string{"Last-Event-ID", "a\r\nb"},
			[]string{"2000", "status PENDING-0-0-1", "status PROCESSING-1-0-1", "status COMPLETED-1-0-1", "bye"}},
	} {
		r := newRooms(t)
		r.follow = telling(life...)
		r.position, r.rate = func(*job.Job) (int64, error) { return 3, nil }, 2
		rec := r.do("GET", eventsOfKnown, "", c.headers...)
		if got := said(rec.Body.String()); rec.Code != 200 || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d %q, want %q", name, rec.Code, got, c.want)
		}
		wantHeader(t, rec, "Content-Type", "text/event-stream")
		wantHeader(t, rec, "Cache-Control", "no-cache")
		wantHeader(t, rec, "X-Accel-Buffering", "no")
		if name == "from the start" &&
			!strings.Contains(rec.Body.String(),
				`data: {"jobId":"019de340-01fe-7a58-be69-567cd7d6b7d4","currentJobStatus":"PENDING",`) ||
			!strings.Contains(rec.Body.String(), `"result":{"a":1}`) ||
			name == "from the start" && !strings.Contains(rec.Body.String(), `"position":3,"etaSeconds":2`) {
			t.Errorf("%s: %s", name, rec.Body)
		}
	}
}

func TestJobEvents_WhatCannotBeFollowed(t *testing.T) {
	r := newRooms(t)
	r.follow = func(context.Context, func(job.Job) error) error { return fmt.Errorf("follow: %w", job.ErrNotFound) }
	wantProblem(t, r.do("GET", eventsOfKnown, ""), 404, "JOB_NOT_FOUND")
	wantProblem(t, r.do("GET", "/api/jobs/7/events", ""), 400, "INVALID_REQUEST", "id")
	wantProblem(t, r.do("GET", eventsOfKnown+"?x=1", ""), 400, "INVALID_REQUEST", "x")
	r.follow = func(ctx context.Context, heard func(job.Job) error) error {
		return errors.Join(heard(at(job.Pending, 0)), errors.New("Redis went away: hunter2"))
	}
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is that very value
				t.Errorf("an error half-way: %v", got)
			}
		}()
		r.do("GET", eventsOfKnown, "")
	}()
	if !strings.Contains(r.log.String(), "hunter2") {
		t.Errorf("log: %s", &r.log)
	}
}

// A stream without events sends pings, so that no proxy takes it for dead.
func TestJobEvents_Ping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRooms(t)
		r.follow = func(_ context.Context, heard func(job.Job) error) error {
			<-time.After(20 * time.Second) // the first state comes late
			if err := heard(at(job.Processing, 1)); err != nil {
				return err
			}
			<-time.After(41 * time.Second)
			return nil
		}
		rec := r.do("GET", eventsOfKnown, "")
		if want := []string{"2000", "status PROCESSING-1-0-1", "ping", "ping", "ping",
			"bye"}; !slices.Equal(said(rec.Body.String()), want) {
			t.Errorf("%q, want %q", said(rec.Body.String()), want)
		}
	})
}

func TestAllEvents(t *testing.T) {
	r := newRooms(t)
	r.messages = make(chan job.Message, 10)
	r.messages <- job.Message{ID: "n-1",
		Event: job.Event{ID: knownID, Tier: job.Paid, Status: job.NeedDiscard, Attempt: 2, Cause: job.HandlerError,
			At: aMoment}}
	r.messages <- job.Message{ID: "n-5", Resync: true}
	r.messages <- job.Message{ID: "n-6", Event: job.Event{ID: knownID, Tier: job.Paid, Status: job.Pending, At: aMoment}}
	r.messages <- job.Message{Bye: true}
	rec := r.do("GET", "/api/events", "", "Last-Event-ID", "n-0")
	want := "retry: 2000\n\n" +
		"event: job\nid: n-1\ndata: {\"jobId\":\"019de340-01fe-7a58-be69-567cd7d6b7d4\",\"tier\":\"PAID\"," +
		"\"status\":\"FAILED\",\"attempt\":2,\"cause\":\"HANDLER_ERROR\",\"at\":\"2026-05-01T11:31:57.961931Z\"}\n\n" +
		"event: resync\nid: n-5\ndata: {}\n\n" +
		"event: job\nid: n-6\ndata: {\"jobId\":\"019de340-01fe-7a58-be69-567cd7d6b7d4\",\"tier\":\"PAID\"," +
		"\"status\":\"PENDING\",\"attempt\":0,\"cause\":null,\"at\":\"2026-05-01T11:31:57.961931Z\"}\n\n" +
		"event: bye\ndata: {}\n\n"
	if rec.Code != 200 || rec.Body.String() != want {
		t.Errorf("%d\n%s\nwant\n%s", rec.Code, rec.Body, want)
	}
	if r.lastID != "n-0" || r.closed != 1 {
		t.Errorf("asked from %q, closed %d times", r.lastID, r.closed)
	}
	close(r.messages)
	if rec := r.do("GET", "/api/events", ""); rec.Body.String() != "retry: 2000\n\nevent: bye\ndata: {}\n\n" {
		t.Errorf("%s", rec.Body)
	}
}

// A stream lasts longer than the server's own limits, sends each piece at once, ends when its client leaves, and
// frees its place.
func TestServer_Streams(t *testing.T) {
	t.Attr("proves", "A16 A24")
	r := newRooms(t)
	r.messages = make(chan job.Message)
	ended := make(chan error, 1)
	a := &api{Deps: r.deps.withDefaults()}
	h := a.handler()
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h.ServeHTTP(w, q)
		ended <- q.Context().Err()
	}), Limits{}, nil)
	s.server.ReadTimeout, s.server.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr()+"/api/events", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Errorf("it ended before %q: %v", want, lines.Err())
	}
	next("retry: 2000") // the headers come before the first event
	past := time.NewTimer(300 * time.Millisecond)
	select {
	case <-past.C:
	case err := <-ended:
		t.Errorf("the server's limits ended it: %v", err)
	}
	r.messages <- job.Message{ID: "n-1", Resync: true}
	next("id: n-1")
	if n := a.streams.Load(); n != 1 {
		t.Errorf("%d listen", n)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if n := a.streams.Load(); n != 0 || r.closed != 1 {
		t.Errorf("%d listen, closed %d times", n, r.closed)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
}
