package httpapi

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	mine   = "aaaaaaaaaaaaaaaa"
	theirs = "bbbbbbbbbbbbbbbb"
)

// callers has one caller of each kind.
var callers = map[string]job.Caller{
	"stranger":  {},
	"anonymous": {Key: job.Key{Role: job.RoleSubmit, Tiers: []job.Tier{job.Public}}},
	"submit":    {Key: job.Key{ID: mine, Role: job.RoleSubmit}},
	"read-only": {Key: job.Key{ID: mine, Role: job.RoleReadOnly}},
	"admin":     {Key: job.Key{ID: mine, Role: job.RoleAdmin}},
	"worker":    {Key: job.Key{ID: mine, Role: job.RoleWorker}},
	"both":      {Key: job.Key{ID: mine, Role: job.RoleWorker, Submits: true}}, // a worker's key that also submits
	"open":      {Open: true},
}

// doors accepts every request as coming from one caller, whatever credentials it has.
type doors struct {
	mu     sync.Mutex // streams read the fields while tests change them
	caller job.Caller
	err    error
	left   job.Allowance
	shown  [][]string
	from   []netip.Addr
	spent  int

	counted []netip.Addr // the calls of CountAddress
	refused error        // the result of CountAddress

	costly     []int         // the charges of SpendCostly
	costlyLeft job.Allowance // the result of SpendCostly

	keyed    []int         // the charges of SpendIdempotency
	keysLeft job.Allowance // the result of SpendIdempotency
}

func (d *doors) Enter(_ context.Context, authorization []string, session string, from netip.Addr) (job.Caller, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	shown := authorization
	if session != "" {
		shown = append([]string{"session " + session}, authorization...)
	}
	d.shown, d.from = append(d.shown, shown), append(d.from, from)
	return d.caller, d.err
}

func (d *doors) CountAddress(_ context.Context, from netip.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counted = append(d.counted, from)
	return d.refused
}

func (d *doors) SpendCostly(_ context.Context, _ *job.Caller, n int) job.Allowance {
	d.costly = append(d.costly, n)
	return d.costlyLeft
}

func (d *doors) SpendIdempotency(_ context.Context, _ *job.Caller, n int) job.Allowance {
	d.keyed = append(d.keyed, n)
	return d.keysLeft
}

func (d *doors) CookieName(secure bool) string { return cookieName(secure) }

// cookieName returns the session cookie's name for all doors of these tests.
func cookieName(secure bool) string {
	if secure {
		return "__Host-tierq_session_ours"
	}
	return "tierq_session_ours"
}

func (d *doors) SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance {
	return d.Spend(ctx, c, n)
}

func (d *doors) Spend(_ context.Context, _ *job.Caller, n int) job.Allowance {
	d.spent += n
	return d.left
}

func (d *doors) Open() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.caller.Open
}

// behind puts the rooms behind doors that authenticate every request as this caller.
func (r *rooms) behind(caller job.Caller) *doors {
	d := &doors{caller: caller}
	r.deps.Doors = d
	r.Handler = NewHandler(r.deps)
	return d
}

// A wrong key gets a 401 in the error shape. Too many wrong keys get a 429 that says when to come again.
func TestDoors_WhatAKeyIsAnsweredWith(t *testing.T) {
	t.Attr("proves", "A04 A06")
	r := newRooms(t)
	d := r.behind(callers["submit"])
	d.err = job.ErrUnauthorized
	for _, header := range [][]string{nil, {"Authorization", "Bearer tq_wrong"}, {"Authorization", "Basic dHE6dHE="}} {
		rec := r.post("{}", header...)
		wantProblem(t, rec, 401, "UNAUTHORIZED")
		wantHeader(t, rec, "WWW-Authenticate", "Bearer")
	}
	if want := [][]string{nil, {"Bearer tq_wrong"}, {"Basic dHE6dHE="}}; !slices.EqualFunc(d.shown, want, slices.Equal) {
		t.Errorf("the doors were shown %q", d.shown)
	}
	d.err = &refusalFor{job.ErrRateLimited, 1500 * time.Millisecond}
	rec := r.post("{}", "Authorization", "Bearer tq_wrong")
	wantProblem(t, rec, 429, "RATE_LIMITED")
	wantHeader(t, rec, "Retry-After", "2")
	if d.spent != 0 || r.submitted != nil {
		t.Errorf("spent %d, submitted %v", d.spent, r.submitted)
	}
}

// refusalFor is a refusal that says when to come again.
type refusalFor struct {
	error
	in time.Duration
}

func (r *refusalFor) Unwrap() error          { return r.error }
func (r *refusalFor) RetryIn() time.Duration { return r.in }

// A stream ends when its key is revoked, or when an open server gets its first key. A client that reconnects is
// authenticated again.
func TestDoors_StreamsEndWithTheKey(t *testing.T) {
	t.Attr("proves", "A04")
	for _, path := range []string{"/api/events", eventsOfKnown} {
		for name, change := range map[string]func(*doors){
			"revoked":         func(d *doors) { d.err = job.ErrUnauthorized },
			"refused for now": func(d *doors) { d.err = job.ErrRateLimited },
			"closed":          func(d *doors) { d.caller = callers["stranger"] },
		} {
			synctest.Test(t, func(t *testing.T) {
				r := newRooms(t)
				r.messages = make(chan job.Message)
				r.follow = func(ctx context.Context, heard func(job.Job) error) error {
					if err := heard(at(job.Processing, 1)); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				}
				d := r.behind(callers["admin"])
				if name == "closed" {
					d = r.behind(callers["open"])
				}
				begun := time.Now()
				time.AfterFunc(31*time.Second, func() {
					d.mu.Lock()
					defer d.mu.Unlock()
					change(d)
				})
				rec := r.do("GET", path, "")
				if took := time.Since(begun); took != 45*time.Second || rec.Code != 200 ||
					!strings.HasSuffix(rec.Body.String(), "event: bye\ndata: {}\n\n") {
					t.Errorf("%s, %s: %d after %s: %q", path, name, rec.Code, took, rec.Body)
				}
			})
		}
	}
}

// A key is read from the header Authorization only. In a query, a cookie, a body or another header it is ignored.
func TestDoors_AKeyInAnotherPlace(t *testing.T) {
	t.Attr("proves", "A05")
	const key = "tq_aaaaaaaaaaaaaaaa_secret"
	for _, c := range []struct {
		target  string
		headers []string
		status  int
	}{
		{"/api/jobs?access_token=" + key, nil, 401},
		{"/api/jobs?authorization=Bearer%20" + key, nil, 401},
		{"/api/jobs?key=" + key, nil, 401},
		{"/api/jobs", []string{"X-Api-Key", key}, 401},
		{"/api/jobs", []string{"Cookie", "authorization=" + key}, 401},
		{"/api/jobs", []string{"Proxy-Authorization", "Bearer " + key}, 401},
		{"/api/jobs", []string{"X-Authorization", "Bearer " + key}, 401},
	} {
		r := newRooms(t)
		d := r.behind(callers["stranger"])
		rec := r.do("GET", c.target, "", c.headers...)
		wantProblem(t, rec, c.status, "UNAUTHORIZED")
		if len(d.shown) != 1 || d.shown[0] != nil {
			t.Errorf("%s %q: the doors were shown %q", c.target, c.headers, d.shown)
		}
		if strings.Contains(rec.Body.String()+r.log.String(), key) {
			t.Errorf("%s: said or logged: %s %s", c.target, rec.Body, &r.log)
		}
	}
}

// The server refuses a header of one mebibyte before it reads a key from it.
func TestDoors_AnOversizedKey(t *testing.T) {
	t.Attr("proves", "A08")
	r := newRooms(t)
	d := r.behind(callers["stranger"])
	s := serve(t, r)
	res, _ := raw(t, s, "GET /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+strings.Repeat("k", 1<<20)+
		"\r\n\r\n")
	if res.StatusCode != 431 || d.shown != nil {
		t.Errorf("%d, the doors were shown %d", res.StatusCode, len(d.shown))
	}
	if res, body := raw(t, s, "GET /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+strings.Repeat("k", 8<<10)+
		"\r\n\r\n"); res.StatusCode != 401 || len(body) > 1000 {
		t.Errorf("%d %d bytes", res.StatusCode, len(body))
	}
}

// A request above the caller's rate is refused before its body is read or a room is called.
func TestDoors_Rate(t *testing.T) {
	r := newRooms(t)
	d := r.behind(callers["submit"])
	d.left = job.Allowance{Limited: true, Rate: 1, Burst: 2, RetryIn: 1200 * time.Millisecond}
	req := httptest.NewRequest("POST", "/paid/submit", unreadable{t})
	req.Header.Set("Content-Type", "application/json")
	rec := r.hold(req, "{}")
	wantProblem(t, rec, 429, "RATE_LIMITED")
	wantHeader(t, rec, "Retry-After", "2")
	if d.spent != 1 || r.submitted != nil {
		t.Errorf("spent %d, submitted %v", d.spent, r.submitted)
	}
	for _, path := range []string{"/livez", "/readyz", "/actuator/health"} {
		if rec := r.do("GET", path, ""); rec.Code != 200 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	if d.spent != 1 || len(d.shown) != 1 {
		t.Errorf("health was counted: %d, %d", d.spent, len(d.shown))
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, context.Canceled
}

// A batch is charged as many requests as it has entries. It is accepted or refused as a whole, before its entries
// are checked.
func TestDoors_RateOfABatch(t *testing.T) {
	r := newRooms(t)
	d := r.behind(callers["submit"])
	if rec := r.json("POST", "/public/submit/batch", "[{},{},{}]"); rec.Code != 202 || d.spent != 3 {
		t.Errorf("%d, spent %d", rec.Code, d.spent)
	}
	r.submitted = nil
	d.spent, d.left = 0, job.Allowance{}
	r.deps.Doors = &second{d}
	r.Handler = NewHandler(r.deps)
	rec := r.json("POST", "/public/submit/batch", "[{},{},{}]")
	wantProblem(t, rec, 429, "RATE_LIMITED")
	wantHeader(t, rec, "Retry-After", "4")
	if d.spent != 3 || r.submitted != nil {
		t.Errorf("spent %d, submitted %v", d.spent, r.submitted)
	}
}

// second refuses every charge after that of the request itself.
type second struct{ *doors }

func (d *second) SpendMore(ctx context.Context, c *job.Caller, n int) job.Allowance {
	return d.Spend(ctx, c, n)
}

func (d *second) Spend(ctx context.Context, c *job.Caller, n int) job.Allowance {
	d.doors.Spend(ctx, c, n)
	if d.spent > 1 {
		return job.Allowance{Limited: true, Rate: 1, Burst: 3, RetryIn: 3 * time.Second}
	}
	return job.Allowance{}
}

// Every caller gets the process's status. With keys, only operators get the parts. A wrong key does not change the
// status.
func TestDoors_HealthTellsOperatorsMore(t *testing.T) {
	t.Attr("proves", "A50")
	for name, caller := range callers {
		r := newRooms(t)
		r.ready.Checks = []Check{{Name: "sql", Status: "UP"}}
		r.behind(caller)
		more := caller.Operator()
		for _, path := range []string{"/actuator/health", "/readyz?verbose"} {
			rec := r.do("GET", path, "", "Authorization", "Bearer x")
			told := strings.Contains(rec.Body.String(), "components") || strings.Contains(rec.Body.String(), "checks")
			if rec.Code != 200 || told != more {
				t.Errorf("%s, %s: %d %s", name, path, rec.Code, rec.Body)
			}
			rec = r.do("GET", path, "")
			told = strings.Contains(rec.Body.String(), "components") || strings.Contains(rec.Body.String(), "checks")
			if rec.Code != 200 || told != caller.Open {
				t.Errorf("%s without a key, %s: %d %s", name, path, rec.Code, rec.Body)
			}
		}
	}
	r := newRooms(t)
	r.behind(callers["admin"]).err = job.ErrUnauthorized
	if rec := r.do("GET", "/actuator/health", "", "Authorization", "Bearer wrong"); rec.Code != 200 ||
		strings.Contains(rec.Body.String(), "components") {
		t.Errorf("a wrong key: %d %s", rec.Code, rec.Body)
	}
}
