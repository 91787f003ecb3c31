package client

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/client/internal/fake"
)

// timeline returns the time of each try since the first one, and the call's error.
func timeline(t *testing.T, ctx context.Context, answers []*http.Response, opts ...Option) (at []time.Duration,
	err error) {
	t.Helper()
	began := time.Now()
	c := New("http://tierq", append(opts,
		WithHTTPClient(&http.Client{Transport: wire(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(began))
			if len(at) > len(answers) {
				return reply(202, `{"apiResponseData":{"jobId":"x"}}`), nil
			}
			return answers[len(at)-1], nil
		})}))...)
	c.draw = func(bound time.Duration) time.Duration { return bound - 1 } // the longest possible wait
	_, err = c.Submit(ctx, Paid, "REPORT", nil)
	for i := range at {
		at[i] = at[i].Round(time.Millisecond)
	}
	return at, err
}

func busy(retryAfter string) *http.Response {
	return reply(503, `{"errorCode":"QUEUE_FULL"}`, "Retry-After", retryAfter)
}

func TestRetries_WaitAsAsked(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		answers []*http.Response
		opts    []Option
		left    time.Duration
		at      []time.Duration
		fails   bool
	}{
		"backoff doubles up to its bound": {
			[]*http.Response{busy(""), busy(""), busy(""), busy("")}, []Option{WithBackoff(s, 3*s)}, 0,
			[]time.Duration{0, s, 3 * s, 6 * s, 9 * s}, false,
		},
		"Retry-After comes first": {[]*http.Response{busy("7")}, []Option{WithBackoff(s, 30*s)}, 0, []time.Duration{0, 8 * s},
			false},
		"one beyond the bound": {[]*http.Response{busy("31")}, []Option{WithBackoff(s, 30*s)}, 0, []time.Duration{0},
			true},
		"one beyond the deadline": {[]*http.Response{busy("7")}, []Option{WithBackoff(s, 30*s)}, 5 * s, []time.Duration{0},
			true},
		"tries are counted": {[]*http.Response{busy(""), busy(""), busy("")}, []Option{WithBackoff(s, s), WithTries(2)},
			0, []time.Duration{0, s}, true},
		"one try": {[]*http.Response{busy("")}, []Option{WithTries(0)}, 0, []time.Duration{0}, true},
		"a negative one": {[]*http.Response{busy("-5")}, []Option{WithBackoff(s, s)}, 0, []time.Duration{0, s},
			false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if tc.left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tc.left)
				defer cancel()
			}
			began := time.Now()
			at, err := timeline(t, ctx, tc.answers, tc.opts...)
			if ended := time.Since(began).Round(time.Millisecond); ended != tc.at[len(tc.at)-1] {
				t.Errorf("%s: ended after %v", name, ended) // a try after the deadline is not waited for
			}
			if !slices.Equal(at, tc.at) || (err != nil) != tc.fails || tc.fails && !errors.Is(err, ErrQueueFull) {
				t.Errorf("%s: tries at %v, want %v; %v", name, at, tc.at, err)
			}
		})
	}
}

func TestRetries_JitterIsFull(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := draw(time.Second)
		low, high = min(low, d), max(high, d)
	}
	if low < 0 || low > 100*time.Millisecond || high < 900*time.Millisecond || high >= time.Second {
		t.Errorf("draws from %v to %v", low, high)
	}
}

func TestRetries_EndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		began := time.Now()
		_, err := timeline(t, ctx, []*http.Response{busy("10")})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrQueueFull) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, " 3 ": 3 * time.Second, "0": 0, "-1": 0, "1.5": 0, "99999999999": 0, "soon": 0,
		"Fri, 01 May 2026 11:32:07 GMT": 10 * time.Second, "Fri, 01 May 2026 11:31:00 GMT": 0,
	} {
		h := http.Header{"Retry-After": {text}, "Date": {"Fri, 01 May 2026 11:31:57 GMT"}}
		if got := retryAfter(h); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// The outcome of a call that was never sent is not unknown.
func TestNothingWasSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the port refuses connections from now on
	c := New("http://"+l.Addr().String(), WithTries(2), WithBackoff(1, 1))
	_, err = c.Submit(soon(t), Paid, "A", nil)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("refused: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Submit(ended, Paid, "A", nil)
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("ended: %v", err)
	}
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0) // for handshakes that end early
	stranger.StartTLS()
	defer stranger.Close()
	began := time.Now()
	c = New(stranger.URL, WithBackoff(time.Minute, time.Minute))
	defer c.Close()
	if _, err = c.Submit(soon(t), Paid, "A", nil); errors.Is(err, ErrOutcomeUnknown) || err == nil ||
		time.Since(began) > 10*time.Second {
		t.Errorf("a server that cannot be trusted: %v", err)
	}
}

// A silent server is reported as unavailable, and not as the end of the caller's context.
func TestSilence(t *testing.T) {
	s, c := newServer(t, WithTimeout(50*time.Millisecond), WithTries(2))
	s.Faults(firstOnly(9, fake.Fault{Silent: true}))
	_, err := c.Submit(soon(t), Paid, "A", nil)
	if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrOutcomeUnknown) ||
		len(s.Seen()) != 2 {
		t.Errorf("%v after %v", err, s.Seen())
	}
	c = New("http://tierq", WithTimeout(time.Millisecond), WithTries(1),
		WithHTTPClient(&http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err() // some transports do not return the cause
		})}))
	if _, err := c.Submit(soon(t), Paid, "A", nil); errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("another transport: %v", err)
	}
	_, c = newServer(t)
	c.base = mustBase(t, s.URL)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Submit(short, Paid, "A", nil)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the caller's: %v", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for why, answer := range map[string]*http.Response{
		"not understood":          reply(200, "<h1>Welcome to the hotel</h1>", "Content-Type", "text/html"),
		"names no job":            reply(202, `{"apiResponseData":{}}`),
		"more than 16777216 byte": reply(202, `{"apiResponseData":{"jobId":"`+strings.Repeat("x", maxAnswer)+`"}}`),
	} {
		c := New("http://tierq", WithHTTPClient(&http.Client{Transport: wire(func(*http.Request) (*http.Response,
			error) {
			return answer, nil
		})}))
		_, err := c.Submit(soon(t), Paid, "A", nil)
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != answer.StatusCode || !errors.Is(err, ErrOutcomeUnknown) ||
			e.Key == "" || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// A 504 to a change means that the server may have made it. The client repeats the call where that is safe, and
// the last error says that the outcome is unknown.
func TestRetries_OutcomeUnknown(t *testing.T) {
	tier := func(set func(*Client, context.Context) (Plan, error)) func(*Client, context.Context) error {
		return func(c *Client, ctx context.Context) error { _, err := set(c, ctx); return err }
	}
	dead := func(dry bool) func(*Client, context.Context) error {
		return func(c *Client, ctx context.Context) error { _, err := c.RequeueDead(ctx, Filter{}, 5, dry); return err }
	}
	for name, tc := range map[string]struct {
		call           func(*Client, context.Context) error
		pattern        string // "" = the fake server's own handler
		again, unknown bool
	}{
		"cancel": {func(c *Client, ctx context.Context) error { _, err := c.Cancel(ctx, unknownID); return err }, "",
			true, true},
		"requeue": {func(c *Client, ctx context.Context) error { return c.Requeue(ctx, unknownID) },
			"POST /jobs/{id}/retry", true, true},
		"set a tier": {tier(func(c *Client, x context.Context) (Plan,
			error) {
			return c.SetTier(x, "GOLD", Plan{}, `"3"`)
		}), "PUT /admin/tiers/GOLD", false, true},
		"set any tier": {tier(func(c *Client, x context.Context) (Plan, error) { return c.SetTier(x, "GOLD", Plan{}, "") }),
			"PUT /admin/tiers/GOLD", false, true},
		"create": {tier(func(c *Client, x context.Context) (Plan, error) { return c.CreateTier(x, "GOLD", Plan{}) }),
			"PUT /admin/tiers/GOLD", false, true},
		"requeue dead": {dead(false), "POST /admin/dead/requeue", false, true},
		"count dead":   {dead(true), "POST /admin/dead/requeue", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newServer(t, WithTries(3))
			if tc.pattern != "" {
				answers(s, tc.pattern, 200, `{}`)
			}
			s.Faults(firstOnly(99, fake.Fault{Status: 504, Code: "OUTCOME_UNKNOWN"}))
			err := tc.call(c, soon(t))
			want := 1
			if tc.again {
				want = 3
			}
			e, ok := errors.AsType[*Error](err)
			if n := len(s.Seen()); n != want || !ok || e.Status != 504 || errors.Is(err, ErrOutcomeUnknown) != tc.unknown {
				t.Errorf("%v after %d requests, want %d", err, n, want)
			}
			// A change that was surely not carried out is repeated, whichever it is. (The fake's own cancel does not know
			// the job.)
			s.Faults(firstOnly(len(s.Seen())+1, fake.Fault{Status: 503, Code: "SYSTEM_UNHEALTHY"}))
			if err := tc.call(c, soon(t)); tc.pattern != "" && err != nil || errors.Is(err, ErrOutcomeUnknown) ||
				len(s.Seen()) != want+2 {
				t.Errorf("after a 503: %v, %d requests", err, len(s.Seen())-want)
			}
		})
	}
}
