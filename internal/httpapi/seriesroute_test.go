package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// almanac is a Charts whose answers the test controls.
type almanac struct {
	mu     sync.Mutex
	asked  []time.Duration
	points []SeriesPoint
	err    error
	hold   chan struct{} // an answer waits until it can receive; nil = it does not wait
}

func (m *almanac) Series(ctx context.Context, window time.Duration) ([]SeriesPoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, window)
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return m.points, m.err
}

// route returns a function that requests series as a client of the server does.
func (m *almanac) route(t *testing.T, now func() time.Time) func(ctx context.Context,
	query string) *httptest.ResponseRecorder {
	r := newRooms(t)
	a := &api{Deps: r.deps.withDefaults()}
	e := gin.New()
	e.Use(a.guard, a.crowd)
	e.GET("/api/stats/series", a.handle(within(operation, seriesRoute(m, r, now))))
	return func(ctx context.Context, query string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		e.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", "/api/stats/series"+query, nil))
		return rec
	}
}

func TestSeriesRoute(t *testing.T) {
	m := &almanac{points: []SeriesPoint{
		{aMoment, 10 * time.Second, nil},
		{aMoment.Add(10 * time.Second), 10 * time.Second, map[job.Tier]TierPoint{
			job.Unpaid: {1, 2, 3, 4, 7, 5, 6, Percentiles{0.1, 0.2, 0.3}, Percentiles{P50: 1}}, "GONE": {Submitted: 9},
		}},
	}}
	get := m.route(t, func() time.Time { return aMoment })
	empty := func(tier string) string {
		return `{"tier":"` + tier + `","submitted":[0,0],"completed":[0,0],"failed":[0,0],"cancelled":[0,0],` +
			`"expired":[0,0],` +
			`"refused":[0,0],"retried":[0,0],` +
			`"waitSeconds":{"p50":[null,null],"p95":[null,null],"p99":[null,null]},"runSeconds":{"p50":[null,null],` +
			`"p95":[null,null],"p99":[null,null]}}`
	}
	wantJSON(t, get(t.Context(), "?window=5m"), 200,
		`{"window":"5m","from":"2026-05-01T11:31:57.961931Z","bucketSeconds":10,"tiers":[`+empty("PAID")+`,`+
			`{"tier":"UNPAID","submitted":[0,1],"completed":[0,2],"failed":[0,3],"cancelled":[0,4],`+
			`"expired":[0,7],"refused":[0,5],`+
			`"retried":[0,6],`+
			`"waitSeconds":{"p50":[null,0.1],"p95":[null,0.2],"p99":[null,0.3]},"runSeconds":{"p50":[null,1],"p95":[null,`+
			`null],"p99":[null,null]}},`+empty("PUBLIC")+`],`+
			`"timestamp":"2026-05-01T11:31:57.961931Z"}`)
	m.points = nil
	if rec := get(t.Context(), "?window=1h"); !strings.Contains(rec.Body.String(), `"from":null`) {
		t.Errorf("nothing is kept: %s", rec.Body)
	}
	wantProblem(t, get(t.Context(), "?window=2h"), 400, "INVALID_REQUEST", "window")
	wantProblem(t, get(t.Context(), "?x=1"), 400, "INVALID_REQUEST", "x")
	m.err = job.ErrUnavailable
	wantProblem(t, get(t.Context(), "?window=24h"), 503, "SYSTEM_UNHEALTHY")
}

// For many callers, a window is read once until its answer expires, and by one caller at a time. A failed read is
// not cached.
func TestSeriesRoute_IsReadOnceForAll(t *testing.T) {
	t.Attr("proves", "A24")
	now := aMoment
	m := &almanac{}
	get := m.route(t, func() time.Time { return now })
	for _, after := range []time.Duration{0, 9 * time.Second, 10 * time.Second, -time.Minute} {
		now = aMoment.Add(after)
		for range 3 {
			get(t.Context(), "")
		}
	}
	get(t.Context(), "?window=1h")
	get(t.Context(), "?window=24h")
	if len(m.asked) != 4 || m.asked[3] != 24*time.Hour {
		t.Errorf("asked %v", m.asked)
	}
	now = aMoment.Add(time.Hour)
	m.err = errors.New("not now")
	get(t.Context(), "")
	if m.err = nil; get(t.Context(), "").Code != 200 || len(m.asked) != 6 {
		t.Errorf("after a failure asked %v", m.asked)
	}

	m.hold, m.asked, now = make(chan struct{}), nil, now.Add(time.Hour)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if code := get(t.Context(), "").Code; code != 200 {
				t.Errorf("answered %d", code)
			}
		})
	}
	ctx, leave := context.WithCancel(t.Context())
	all.Go(func() { get(ctx, "") })
	leave()
	m.hold <- struct{}{}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for {
		select {
		case m.hold <- struct{}{}: // the caller who left was the first
			continue
		case <-done:
		}
		break
	}
	if len(m.asked) > 2 {
		t.Errorf("at once asked %v", m.asked)
	}
}
