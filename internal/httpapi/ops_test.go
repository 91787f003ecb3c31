package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/testkit"
)

// byRole is a Doors whose keys are the names of roles.
type byRole struct{}

func (byRole) Enter(_ context.Context, authorization []string, _ string, _ netip.Addr) (job.Caller, error) {
	if len(authorization) == 0 {
		return job.Caller{}, nil
	}
	role := job.Role(strings.TrimPrefix(authorization[0], "Bearer "))
	return job.Caller{Key: job.Key{ID: "aaaaaaaaaaaaaaaa", Role: role}}, nil
}

func (byRole) SpendIdempotency(context.Context, *job.Caller, int) job.Allowance {
	return job.Allowance{}
}

func (byRole) SpendCostly(context.Context, *job.Caller, int) job.Allowance { return job.Allowance{} }

func (byRole) CountAddress(context.Context, netip.Addr) error { return nil }

func (byRole) SpendMore(context.Context, *job.Caller, int) job.Allowance { return job.Allowance{} }
func (byRole) Spend(context.Context, *job.Caller, int) job.Allowance     { return job.Allowance{} }
func (byRole) Open() bool                                                { return false }
func (byRole) CookieName(secure bool) string                             { return cookieName(secure) }

var figures = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "tierq_up 1\n")
})

const aMetric, aList, aHeap = "/metrics", "/debug/pprof/", "/debug/pprof/heap"

func ask(h http.Handler, path, role string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "http://localhost"+path, nil)
	if role != "" {
		r.Header.Set("Authorization", "Bearer "+role)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Each role can read the metrics and the profiles as far as it may, where they are served: by the API, or by a
// listener of their own. The API does not serve them then.
func TestOps_WhoGetsIn(t *testing.T) {
	t.Attr("proves", "A28 A50")
	public := newRooms(t).deps
	public.Doors = byRole{}
	withMetrics, own, ownOnLoopback := public, public, public
	withMetrics.Metrics = figures
	own.Metrics, own.HealthOnly = figures, true
	ownOnLoopback.Metrics, ownOnLoopback.HealthOnly, ownOnLoopback.Doors = figures, true, nil
	for name, c := range map[string]struct {
		deps                                   Deps
		stranger, submit, worker, reader, root [3]int // the statuses of the metrics, the list of profiles, and a profile
	}{
		"the API's": {withMetrics, [3]int{401, 401, 401}, [3]int{403, 403, 403}, [3]int{403, 403, 403},
			[3]int{200, 403, 403}, [3]int{200, 200, 200}},
		"beyond loopback": {own, [3]int{401, 401, 401}, [3]int{403, 403, 403}, [3]int{403, 403, 403},
			[3]int{200, 403, 403}, [3]int{200, 200, 200}},
		"on loopback": {ownOnLoopback, [3]int{200, 200, 200}, [3]int{200, 200, 200}, [3]int{200, 200, 200},
			[3]int{200, 200, 200}, [3]int{200, 200, 200}},
		"the public port besides": {public, [3]int{404, 404, 404}, [3]int{404, 404, 404}, [3]int{404, 404, 404},
			[3]int{404, 404, 404}, [3]int{404, 404, 404}},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHandler(c.deps)
			for role, want := range map[string][3]int{"": c.stranger, "submit": c.submit, "worker": c.worker,
				"read-only": c.reader, "admin": c.root} {
				for i, path := range []string{aMetric, aList, aHeap} {
					rec := ask(h, path, role)
					if rec.Code != want[i] {
						t.Errorf("%s as %q: %d, want %d: %.200s", path, role, rec.Code, want[i], rec.Body)
					}
					if rec.Code == 200 {
						continue
					}
					if wantHeader(t, rec, "Content-Type", "application/problem+json"); strings.Contains(rec.Body.String(),
						"goroutine") {
						t.Errorf("%s as %q: %.200s", path, role, rec.Body)
					}
				}
			}
		})
	}
}

// A listener without keys answers to names of this machine only, so that a page whose site's name leads here cannot
// read the process's memory.
func TestOps_RebindingIsRefused(t *testing.T) {
	t.Attr("proves", "A50")
	h := NewHandler(Deps{Ready: newRooms(t), Metrics: figures, HealthOnly: true})
	for _, path := range []string{aMetric, aHeap} {
		r := httptest.NewRequest("GET", "http://rebound.example"+path, nil)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/api/stats", "/docs", "/result/poll", "/admin/jobs"} {
		if rec := ask(h, path, ""); rec.Code != http.StatusNotFound {
			t.Errorf("%s on it: %d", path, rec.Code)
		}
	}
}

func TestOps_Profiles(t *testing.T) {
	t.Attr("proves", "A50")
	h := NewHandler(Deps{Ready: newRooms(t), Metrics: figures, HealthOnly: true})
	for path, want := range map[string]int{
		"goroutine?debug=1": 200, "heap?gc=1": 200, "allocs": 200, "mutex": 200, "block": 200, "threadcreate": 200,
		"cmdline": 404, "symbol": 404, "nope": 404, "..%2fheap": 404, "heap/x": 404, "%00": 404,
		"profile?seconds=0": 400, "profile?seconds=121": 400, "profile?seconds=1e9": 400, "trace?seconds=-1": 400,
		"heap?debug=3": 400, "heap?x=1": 400,
	} {
		rec := ask(h, aList+path, "")
		if rec.Code != want {
			t.Errorf("%s: %d, want %d: %.100s", path, rec.Code, want, rec.Body)
		}
		if want != 200 {
			wantHeader(t, rec, "Content-Type", "application/problem+json")
		}
	}
}

// A profile that takes longer than the server's write timeout arrives complete. A second one at the same time is
// refused. A profile ends when its client leaves. An answer has the write timeout beyond the profile's seconds: a busy
// machine needs some of it.
func TestOps_ALongProfile(t *testing.T) {
	t.Parallel()
	s := NewServer("TIERQ_OPS_ADDR", "127.0.0.1:0",
		NewHandler(Deps{Ready: newRooms(t), Metrics: figures, HealthOnly: true}), Limits{}, nil)
	s.server.WriteTimeout = 3500 * time.Millisecond
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	get := func(ctx context.Context, query string) (int, []byte, error) {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+s.Addr()+aList+query, nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return res.StatusCode, body, err
	}
	leaving, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer leave()
	if status, _, err := get(leaving, "trace?seconds=100"); err == nil {
		t.Errorf("the client that left: %d", status)
	}
	testkit.Eventually(t, 10*time.Second, "it ends for the client that left", func() (bool, string) {
		status, body, err := get(t.Context(), "profile?seconds=4")
		whole := len(body) > 2 && body[0] == 0x1f && body[1] == 0x8b // gzip
		return err == nil && status == 200 && whole, fmt.Sprint(status, err)
	})
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			status, _, err := get(t.Context(), "heap?seconds=4")
			if err != nil {
				t.Error(err)
			}
			answers <- status
		}()
	}
	if first, second := <-answers, <-answers; first+second != 200+503 {
		t.Errorf("two at once: %d and %d", first, second)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A page of another site cannot start a profile or list the profiles, not even where no key is needed.
func TestOps_OtherSites(t *testing.T) {
	t.Attr("proves", "A50")
	own := newRooms(t).deps
	own.Metrics, own.HealthOnly, own.Doors, own.Insecure = figures, true, nil, false
	withKeys := own
	withKeys.Doors = byRole{}
	for name, deps := range map[string]Deps{"on loopback": own, "with keys": withKeys} {
		h := NewHandler(deps)
		get := func(path string, headers ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "http://localhost"+path, nil)
			r.Header.Set("Authorization", "Bearer admin")
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		for _, path := range []string{aList, aHeap, "/debug/pprof/trace?seconds=1"} {
			for _, headers := range [][]string{
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
				{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate"}, {"Origin", "https://evil.example"},
				{"Origin", "null"},
				{"Origin", "http://localhost:9999"},
			} {
				if w := get(path, headers...); w.Code != 403 {
					t.Errorf("%s: %s with %q: %d", name, path, headers, w.Code)
				}
			}
		}
		for _, headers := range [][]string{
			nil, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://localhost"},
		} {
			if w := get(aHeap, headers...); w.Code != 200 {
				t.Errorf("%s: with %q: %d %s", name, headers, w.Code, w.Body)
			}
		}
	}
}

// A process without the api role serves only its health at the API's address. If other machines can reach that
// address, strangers get one word there, under every host name, and operators get the parts.
func TestHealthListener(t *testing.T) {
	t.Attr("proves", "S4-E6")
	r := newRooms(t)
	r.ready.Checks = []Check{{Name: "sql", Status: "UP"}}
	onLoopback := NewHandler(Deps{Ready: r, Overview: r, HealthOnly: true})
	open := NewHandler(Deps{Ready: r, Overview: r, HealthOnly: true, Insecure: true, OneWord: true})
	withKeys := NewHandler(Deps{Ready: r, Overview: r, HealthOnly: true, Insecure: true, OneWord: true, Doors: byRole{}})
	for name, c := range map[string]struct {
		h     http.Handler
		role  string
		parts bool
	}{
		"on loopback": {onLoopback, "", true}, "a stranger, no keys": {open, "", false}, "a stranger": {withKeys, "", false},
		"a submitter": {withKeys, "submit", false}, "a reader": {withKeys, "read-only", true},
		"an admin": {withKeys, "admin", true},
	} {
		for path, part := range map[string]string{"/livez": "", "/readyz?verbose": `"checks"`,
			"/actuator/health": `"components"`} {
			rec := ask(c.h, path, c.role)
			if shows := part != "" && strings.Contains(rec.Body.String(), part); rec.Code != 200 ||
				shows != (c.parts && part != "") {
				t.Errorf("%s, %s: %d %s", name, path, rec.Code, rec.Body)
			}
		}
		for _, path := range []string{"/metrics", aList, "/api/stats", "/api/jobs", "/result/poll", "/docs", "/"} {
			if rec := ask(c.h, path, c.role); rec.Code != http.StatusNotFound {
				t.Errorf("%s, %s: %d", name, path, rec.Code)
			}
		}
	}
	probe := httptest.NewRequest("GET", "http://10.1.2.3:8080/readyz", nil)
	for h, want := range map[http.Handler]int{open: 200, withKeys: 200, onLoopback: 403} {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, probe); w.Code != want {
			t.Errorf("by another name: %d, want %d", w.Code, want)
		}
	}
	if rec := ask(NewHandler(Deps{Ready: r, HealthOnly: true}), "/actuator/health", ""); rec.Code != http.StatusNotFound {
		t.Errorf("on the metrics' listener: %d", rec.Code)
	}
}
