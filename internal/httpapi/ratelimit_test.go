package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// turnstile is a Doors that lets everybody in and records the charges to rates.
type turnstile struct {
	caller job.Caller
	left   func(n int) job.Allowance
	spent  []int
}

func (d *turnstile) Enter(context.Context, []string, string, netip.Addr) (job.Caller, error) {
	return d.caller, nil
}

func (*turnstile) SpendIdempotency(context.Context, *job.Caller, int) job.Allowance {
	return job.Allowance{}
}

func (*turnstile) SpendCostly(context.Context, *job.Caller, int) job.Allowance {
	return job.Allowance{}
}

func (*turnstile) CountAddress(context.Context, netip.Addr) error { return nil }
func (d *turnstile) CookieName(secure bool) string                { return cookieName(secure) }

func (d *turnstile) SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance {
	return d.Spend(ctx, c, n)
}

func (d *turnstile) Spend(_ context.Context, _ *job.Caller, n int) job.Allowance {
	d.spent = append(d.spent, n)
	return d.left(n)
}

func (d *turnstile) Open() bool { return false }

func atTurnstile(t *testing.T, left job.Allowance) (*rooms, *turnstile) {
	t.Helper()
	d := &turnstile{caller: job.Caller{Key: job.Key{ID: "abcdefghijklmnop", Role: job.RoleAdmin}},
		left: func(int) job.Allowance { return left }}
	r := newRooms(t)
	r.deps.Doors = d
	r.Handler = NewHandler(r.deps)
	return r, d
}

func TestRateHeaders(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	for name, c := range map[string]struct {
		left           job.Allowance
		policy, limits string
	}{
		"whole": {job.Allowance{Limited: true, Rate: 10, Burst: 20, Remaining: 20}, `"requests";q=20;w=2`,
			`"requests";r=20;t=0`},
		"one taken": {job.Allowance{Limited: true, Rate: 10, Burst: 20, Remaining: 19,
			Reset: 100 * time.Millisecond}, `"requests";q=20;w=2`, `"requests";r=19;t=1`},
		"half a token back": {job.Allowance{Limited: true, Rate: 0.1, Burst: 5, Remaining: 2, Reset: 25 * time.Second},
			`"requests";q=5;w=50`, `"requests";r=2;t=5`},
		"the last one taken": {job.Allowance{Limited: true, Rate: 0.1, Burst: 5, Reset: 50 * time.Second},
			`"requests";q=5;w=50`, `"requests";r=0;t=10`},
		"fast": {job.Allowance{Limited: true, Rate: 1e6, Burst: 1e6, Remaining: 999_999,
			Reset: time.Microsecond}, `"requests";q=1000000;w=1`, `"requests";r=999999;t=1`},
		"slower than anybody": {job.Allowance{Limited: true, Rate: 1e-300, Burst: 3, Remaining: 2, Reset: job.Never},
			`"requests";q=3;w=1000000000`, `"requests";r=2;t=9223372037`},
		"unlimited": {job.Allowance{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := atTurnstile(t, c.left)
			rec := r.post(`{"type":"SIMULATION","payload":{}}`)
			if h := rec.Header(); rec.Code != 202 || h.Get("RateLimit-Policy") != c.policy || h.Get("RateLimit") != c.limits {
				t.Errorf("%d, headers %v; want %s and %s", rec.Code, h, c.policy, c.limits)
			}
		})
	}
}

// neverRead is a body that fails the test when it is read.
type neverRead struct{ t *testing.T }

func (u neverRead) Read([]byte) (int, error) {
	u.t.Error("the body of a request that is refused for its rate was read")
	return 0, http.ErrBodyReadAfterClose
}

func TestRateRefusesBeforeTheBody(t *testing.T) {
	t.Attr("proves", "A29")
	t.Parallel()
	r, d := atTurnstile(t, job.Allowance{Limited: true, Rate: 0.5, Burst: 3, Reset: 5500 * time.Millisecond,
		RetryIn: 1500 * time.Millisecond})
	for _, target := range []string{"/public/submit", "/public/submit/batch", "/jobs", "/api/jobs"} {
		req := httptest.NewRequest("POST", target, neverRead{t})
		req.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		r.ServeHTTP(rec, req)
		body := wantProblem(t, rec, 429, "RATE_LIMITED")
		if h := rec.Header(); h.Get("Retry-After") != "2" || h.Get("RateLimit") != `"requests";r=0;t=2` ||
			h.Get("RateLimit-Policy") != `"requests";q=3;w=6` {
			t.Errorf("headers %v", h)
		}
		if got := body["detail"]; got != "you may make 0.5 requests a second, 3 of them at once" {
			t.Errorf("detail %q", got)
		}
	}
	wantProblem(t, r.do("GET", "/result/poll?jobId="+string(knownID), ""), 429, "RATE_LIMITED")
	if len(r.submitted)+len(r.found) > 0 || len(d.spent) != 5 {
		t.Errorf("submitted %d, looked for %d, asked %v", len(r.submitted), len(r.found), d.spent)
	}
	for _, path := range []string{"/livez", "/readyz", "/actuator/health"} {
		if rec := r.do("GET", path, ""); rec.Code != 200 || rec.Header().Get("RateLimit") != "" {
			t.Errorf("%s: %d, %v", path, rec.Code, rec.Header())
		}
	}
}

func TestRateOfBatches(t *testing.T) {
	t.Attr("proves", "A31")
	t.Parallel()
	batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"payload":{}},`, n), ",") + "]" }
	r, d := atTurnstile(t, job.Allowance{})
	if rec := r.json("POST", "/paid/submit/batch", batch(7)); rec.Code != 202 || !slices.Equal(d.spent, []int{1, 6}) {
		t.Errorf("%d; spent %v", rec.Code, d.spent)
	}
	d.spent = nil
	if rec := r.json("POST", "/paid/submit/batch", batch(1)); rec.Code != 202 || !slices.Equal(d.spent, []int{1}) {
		t.Errorf("%d; spent %v", rec.Code, d.spent)
	}

	refuse := func(burst int) func(int) job.Allowance {
		return func(n int) job.Allowance {
			left := job.Allowance{Limited: true, Rate: 2, Burst: burst}
			if n > 1 {
				left.RetryIn = 1600 * time.Millisecond
			}
			return left
		}
	}
	r.submitted, d.left = nil, refuse(7)
	rec := r.json("POST", "/paid/submit/batch", batch(7))
	wantProblem(t, rec, 429, "RATE_LIMITED")
	if got := rec.Header().Get("Retry-After"); got != "3" { // the next request is charged too, which takes half a second
		t.Errorf("Retry-After %s", got)
	}
	d.left = refuse(6) // the request itself is charged one of the six
	rec = r.json("POST", "/paid/submit/batch", batch(7))
	body := wantProblem(t, rec, 413, "PAYLOAD_TOO_LARGE")
	if got := body["detail"]; got != "7 entries count as 7 requests, and you may make 2 requests a second, 6 of them at once" {
		t.Errorf("detail %q", got)
	}
	if got := rec.Header().Get("Retry-After"); got != "" {
		t.Errorf("Retry-After %s: it would never pass", got)
	}
	if len(r.submitted) > 0 {
		t.Errorf("%d submitted", len(r.submitted))
	}
}

func TestRefusalsAreHeldBack(t *testing.T) {
	t.Attr("proves", "A06 A29")
	t.Parallel()
	for callers, most := range map[int]int{1: 101, 64: 64 * 101, 3000: 2 * 3000 * 11} {
		t.Run(strconv.Itoa(callers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &api{}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var refused atomic.Int64
				var group sync.WaitGroup
				var moments sync.Map
				for range callers {
					group.Go(func() {
						for ctx.Err() == nil {
							a.hold(ctx)
							refused.Add(1)
							moments.Store(time.Now(), nil)
						}
					})
				}
				group.Wait()
				at := 0
				moments.Range(func(any, any) bool { at++; return true })
				if all := int(refused.Load()); at < all/2 {
					t.Errorf("%d refusals left in %d moments: they come back together", all, at)
				}
				if n := int(refused.Load()); n > most || n < 7*callers {
					t.Errorf("%d refusals in ten seconds, at most %d", n, most)
				}
				if n := a.held.Load(); n != 0 {
					t.Errorf("%d are held for ever", n)
				}
			})
		})
	}
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			a := &api{}
			a.held.Store(holdMost)
			began := time.Now()
			a.hold(t.Context())
			if took := time.Since(began); took != 0 {
				t.Errorf("it waited %s", took)
			}
		})
	})
}
