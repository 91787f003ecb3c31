package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A request for an address that needs no key is charged once to the rate of its client's address. Above the rate
// the handler does not run. Health is not charged, and /api/me is charged when it authenticates its caller.
func TestAddressRate_CountsWhatNeedsNoKey(t *testing.T) {
	t.Attr("proves", "A31")
	served := 0
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusOK)
	})
	r := paged(t, func(d *Deps) {
		d.Lost = page
		d.Pages = []Page{{"GET", "/", page}, {"POST", "/login", page}, {"GET", "/static/0a1b/face.css", page}}
		d.Extra = []Route{
			{"GET", "/docs", page, ForEverybody}, {"HEAD", "/docs", page, ForEverybody},
			{"GET", "/openapi.yaml", page, ForEverybody},
		}
	})
	for _, c := range []struct {
		method, path   string
		counted, asked int
		whileRefused   int // the status while the address is refused
	}{
		{"GET", "/docs", 1, 0, 429}, {"HEAD", "/docs", 1, 0, 429}, {"GET", "/openapi.yaml", 1, 0, 429},
		{"GET", "/static/0a1b/face.css", 1, 0, 429}, {"HEAD", "/static/0a1b/face.css", 1, 0, 429},
		{"GET", "/", 1, 0, 429}, {"POST", "/login", 1, 0, 429}, {"GET", "/nowhere", 1, 0, 429},
		{"GET", "/livez", 0, 0, 200}, {"GET", "/readyz", 0, 0, 200}, {"GET", "/actuator/health", 0, 0, 200},
		{"GET", "/api/me", 0, 1, 200}, {"GET", "/admin/tiers", 0, 1, 200},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			d := r.behind(callers["admin"])
			before := served
			if rec := r.do(c.method, c.path, "", "Accept", "text/html"); rec.Code != http.StatusOK {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if len(d.counted) != c.counted || len(d.shown) != c.asked || served-before != c.counted {
				t.Errorf("counted %d times, asked who calls %d times, served %d times", len(d.counted), len(d.shown), served-before)
			}
			d.refused = &job.RateError{In: 3 * time.Second}
			before = served
			rec := r.do(c.method, c.path, "", "Accept", "text/html")
			if rec.Code != c.whileRefused || served != before {
				t.Errorf("while its address is refused: %d, served %d times", rec.Code, served-before)
			}
			if c.whileRefused == http.StatusTooManyRequests && rec.Header().Get("Retry-After") != "3" {
				t.Errorf("headers %v", rec.Header())
			}
		})
	}
}
