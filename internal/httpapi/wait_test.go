package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const pollKnown = "/result/poll?jobId=" + string(knownID)

// states returns an Await that goes through a list of states, one per second. When the time is over, it returns the
// present state.
func states(all ...job.Job) func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) {
	return func(ctx context.Context, _ job.ID, done func(*job.Job) bool) (job.Job, error) {
		if done == nil {
			done = func(j *job.Job) bool { return j.Status.Ended() }
		}
		for i := 0; ; i++ {
			j := all[min(i, len(all)-1)]
			over := ctx.Done()
			if done(&j) {
				return j, nil
			}
			select {
			case <-over:
				return j, nil
			case <-time.After(time.Second):
			}
		}
	}
}

func at(status job.Status, attempt int) job.Job {
	return job.Job{ID: knownID, Generation: 1, Tier: job.Paid, Type: "SIMULATION", Status: status, Attempt: attempt,
		MaxRetries: 5, ArrivedAt: aMoment}
}

func TestPoll_Waits(t *testing.T) {
	life := []job.Job{at(job.Pending, 0), at(job.Processing, 1), at(job.Processing, 1), at(job.Completed, 1)}
	pending, running, done := etag(&life[0]), etag(&life[1]), etag(&life[3])
	for name, c := range map[string]struct {
		query   string
		headers []string
		status  int
		tag     string
		applied string
		took    time.Duration
	}{
		"until it ends":          {"&wait=20s", nil, 200, done, "", 3 * time.Second},
		"a number is seconds":    {"&wait=20", nil, 200, done, "", 3 * time.Second},
		"until the time is over": {"&wait=1500ms", nil, 200, running, "", 1500 * time.Millisecond},
		"the most":               {"&wait=1m", nil, 200, done, "", 3 * time.Second},
		"preferred":              {"", []string{"Prefer", "wait=20"}, 200, done, "wait=20", 3 * time.Second},
		"preferred among others": {"", []string{"Prefer", `respond-async, Wait="2" ; x=y`}, 200, running, "wait=2",
			2 * time.Second},
		"preferred too much":          {"", []string{"Prefer", "wait=3600"}, 200, done, "wait=60", 3 * time.Second},
		"asked goes before preferred": {"&wait=1s", []string{"Prefer", "wait=20"}, 200, running, "", time.Second},
		"until the tag changes":       {"&wait=20s", []string{"If-None-Match", pending}, 200, running, "", time.Second},
		"another tag is a change":     {"&wait=20s", []string{"If-None-Match", `"x"`}, 200, pending, "", 0},
		"no change before it is over": {"&wait=500ms", []string{"If-None-Match", pending}, 304, pending, "",
			500 * time.Millisecond},
		"an ended job changes no more": {"&wait=20s", []string{"If-None-Match", running}, 200, done, "", 0},
		"preferred, and tag unchanging": {"", []string{"Prefer", "wait=1", "If-None-Match", "*"}, 304, running, "wait=1",
			time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRooms(t)
				r.await = states(life...)
				if strings.HasPrefix(name, "an ended") {
					r.await = states(life[3])
				}
				begun := time.Now()
				rec := r.do("GET", pollKnown+c.query, "", c.headers...)
				if rec.Code != c.status || time.Since(begun) != c.took {
					t.Errorf("%d after %s, want %d after %s: %s", rec.Code, time.Since(begun), c.status, c.took, rec.Body)
				}
				wantHeader(t, rec, "ETag", c.tag)
				wantHeader(t, rec, "Preference-Applied", c.applied)
				if len(r.found) != 0 {
					t.Errorf("also looked for %v", r.found)
				}
			})
		})
	}
}

func TestPoll_WhatCannotBePreferredIsPassedOver(t *testing.T) {
	for _, prefer := range []string{"wait", "wait=", "wait=soon", "wait=-1", "wait=0", "return=minimal", ""} {
		rec := keep(t, done()).do("GET", pollKnown, "", "Prefer", prefer)
		if rec.Code != 200 || rec.Header().Get("Preference-Applied") != "" {
			t.Errorf("%q: %d %v", prefer, rec.Code, rec.Header())
		}
	}
}

func TestPoll_WaitingForAJobThatIsNotThere(t *testing.T) {
	r := newRooms(t)
	r.await = func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) { return job.Job{}, job.ErrNotFound }
	if body := wantProblem(t, r.do("GET", pollKnown+"&wait=20s", ""), 404,
		"JOB_NOT_FOUND"); body["jobId"] != string(knownID) {
		t.Errorf("%v", body)
	}
}

// The number of waits is bounded. One more wait is refused with the advice to poll, and a wait that ends frees its
// place.
func TestPoll_RoomForSoManyWhoWait(t *testing.T) {
	t.Attr("proves", "A24")
	r := newRooms(t)
	r.deps.Waiting = 2
	r.Handler = NewHandler(r.deps)
	entered, leave := make(chan struct{}), make(chan struct{})
	r.await = func(context.Context, job.ID, func(*job.Job) bool) (job.Job, error) {
		entered <- struct{}{}
		<-leave
		return done(), nil
	}
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- r.from("127.0.0.1", pollKnown+"&wait=20s").Code }()
		<-entered
	}
	for _, path := range []string{pollKnown + "&wait=1s", "/api/jobs/" + string(knownID) + "/events"} {
		rec := r.do("GET", path, "")
		wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
		wantHeader(t, rec, "Retry-After", "1")
	}
	r.find = func(job.ID) (job.Job, error) { return done(), nil }
	if rec := r.do("GET", pollKnown, ""); rec.Code != 200 {
		t.Errorf("a poll that does not wait: %d", rec.Code)
	}
	close(leave)
	for range 2 {
		if code := <-answers; code != 200 {
			t.Errorf("one who waited: %d", code)
		}
	}
	r.await = states(done())
	if rec := r.do("GET", pollKnown+"&wait=1s", ""); rec.Code != 200 {
		t.Errorf("after they left: %d", rec.Code)
	}
}

// from sends a request from an address.
func (r *rooms) from(address, path string) *httptest.ResponseRecorder {
	req := httptest.NewRequest("GET", path, nil)
	req.RemoteAddr = net.JoinHostPort(address, "4711")
	return r.hold(req, "")
}

// addressed is a Doors whose caller has the address of the request.
type addressed struct{ *doors }

func (d addressed) Enter(ctx context.Context, authorization []string, session string, from netip.Addr) (job.Caller,
	error) {
	caller, err := d.doors.Enter(ctx, authorization, session, from)
	caller.Address = from
	return caller, err
}

// One caller gets at most half of the places for waits, and leaves one to the next caller. A caller is a key, from
// any address, or without a key an address; IPv6 counts by its /64. On an open server, this machine may take all
// places.
func TestPoll_NobodyFillsTheRoom(t *testing.T) {
	t.Attr("proves", "A24")
	submitter := job.Caller{Key: job.Key{ID: mine, Role: job.RoleSubmit}}
	for name, c := range map[string]struct {
		caller job.Caller // without the address, which comes from the request
		by     []string   // addresses that count as one caller
		other  string     // the address of another caller; "" = none
		all    bool       // the caller may have all places
	}{
		"a key":                        {submitter, []string{"192.0.2.1", "198.51.100.7"}, "", false},
		"a key of this machine":        {submitter, []string{"127.0.0.1"}, "", false},
		"a stranger":                   {callers["anonymous"], []string{"192.0.2.1"}, "192.0.2.2", false},
		"a stranger on this machine":   {callers["anonymous"], []string{"127.0.0.1"}, "192.0.2.2", false},
		"an address of an open server": {callers["open"], []string{"192.0.2.1", "::ffff:192.0.2.1"}, "192.0.2.2", false},
		"IPv6": {callers["open"], []string{"2001:db8::1", "2001:db8::2:3"}, "2001:db8:0:1::1",
			false},
		"this machine, on an open server":  {callers["open"], []string{"127.0.0.1", "::1"}, "", true},
		"this machine's other own address": {callers["open"], []string{"127.9.9.9"}, "", true},
	} {
		r := newRooms(t)
		r.deps.Waiting = 8
		r.deps.Doors = addressed{r.behind(c.caller)}
		r.Handler = NewHandler(r.deps)
		entered, leave := make(chan struct{}), make(chan struct{})
		r.find = func(job.ID) (job.Job, error) { j := done(); j.Owner = c.caller.Key.ID; return j, nil }
		r.await = func(ctx context.Context, _ job.ID, _ func(*job.Job) bool) (job.Job, error) {
			select {
			case entered <- struct{}{}:
				<-leave
			case <-ctx.Done():
			}
			return done(), nil
		}
		var group sync.WaitGroup
		waits := func(address string) {
			group.Go(func() {
				if rec := r.from(address, pollKnown+"&wait=20s"); rec.Code != 200 {
					t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
				}
			})
			<-entered
		}
		most := 4
		if c.all {
			most = 8
		}
		for n := range most {
			waits(c.by[n%len(c.by)])
		}
		for _, address := range c.by {
			rec := r.from(address, pollKnown+"&wait=1s")
			body := wantProblem(t, rec, 503, "SYSTEM_UNHEALTHY")
			wantHeader(t, rec, "Retry-After", "1")
			if own := strings.Contains(fmt.Sprint(body["detail"]),
				"too many requests of yours wait here already, 4;"); own == c.all {
				t.Errorf("%s: %v", name, body["detail"])
			}
		}
		if c.other != "" {
			waits(c.other)
		}
		close(leave)
		group.Wait()
		if rec := r.from(c.by[0], pollKnown); rec.Code != 200 {
			t.Errorf("%s, without a wait: %d", name, rec.Code)
		}
	}
}

func TestPoll_PositionAndETA(t *testing.T) {
	for name, c := range map[string]struct {
		status   job.Status
		position int64
		err      error
		rate     float64
		want     string
	}{
		"next":           {job.Pending, 0, nil, 10, `"position":0,"etaSeconds":1`},
		"rounded up":     {job.Pending, 24, nil, 10, `"position":24,"etaSeconds":3`},
		"rate unknown":   {job.Pending, 7, nil, 0, `"position":7,"etaSeconds":null`},
		"not to be told": {job.Pending, 0, job.ErrUnavailable, 10, `"position":null,"etaSeconds":null`},
		"running":        {job.Processing, 7, nil, 10, `"position":null,"etaSeconds":null`},
		"scheduled":      {job.Scheduled, 7, nil, 10, `"position":null,"etaSeconds":null`},
	} {
		r := keep(t, at(c.status, 0))
		r.position, r.rate = func(*job.Job) (int64, error) { return c.position, c.err }, c.rate
		if rec := r.do("GET", pollKnown, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), c.want) {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

// A wait lasts longer than the server's own limits, ends when the client leaves, and ends when a drain begins.
func TestServer_LongPolls(t *testing.T) {
	t.Attr("proves", "A15 A24")
	t.Parallel()
	r := newRooms(t)
	entered, draining, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	r.await = func(ctx context.Context, _ job.ID, _ func(*job.Job) bool) (job.Job, error) {
		entered <- struct{}{}
		select {
		case <-ctx.Done():
			left <- context.Cause(ctx)
		case <-draining:
		}
		return at(job.Processing, 1), nil
	}
	s := NewServer("TIERQ_ADDR", "127.0.0.1:0", r, Limits{}, nil)
	s.server.ReadTimeout, s.server.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	calls := 0
	s.OnDrain(func() { calls++; close(draining) })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := "http://" + s.Addr() + pollKnown

	ctx, leave := context.WithCancel(t.Context())
	go func() { <-entered; leave() }()
	req, _ := http.NewRequestWithContext(ctx, "GET", address+"&wait=60s", nil)
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left: %v", err)
	}
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("its wait ended with %v", err)
	}

	answer := make(chan string, 1)
	go func() {
		res, err := http.Get(address + "&wait=1s")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- res.Status + string(body)
	}()
	<-entered
	if err := <-left; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second, with limits of 100 ms: it ended with %v", err)
	}
	if got := <-answer; !strings.Contains(got, "200 OK") || !strings.Contains(got, "PROCESSING") {
		t.Errorf("answer %s", got)
	}

	go func() {
		res, err := http.Get(address + "&wait=60s")
		if err != nil {
			answer <- err.Error()
			return
		}
		res.Body.Close()
		answer <- res.Status
	}()
	<-entered
	for range 2 {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if got := <-answer; got != "200 OK" || calls != 1 {
		t.Errorf("at the drain: %s, %d calls", got, calls)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("it still listens")
	}
}
