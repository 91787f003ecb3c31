package chaos

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A server that dies between two of the run's plans leaves the rest to the next server that serves. Plans that are
// stored already are not put again: an operator may have changed them since.
func TestBringPlans_GoesOnAfterADeath(t *testing.T) {
	t.Parallel()
	c := &cluster{put: map[job.Tier]put{}}
	first, second := &server{c: c, n: 1, process: alive(t)}, &server{c: c, n: 2, process: alive(t)}
	var asked []string
	dies := true
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dies && len(asked) == 1 {
			if err := first.process.Kill(); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
	}))
	defer api.Close()
	at, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	if first.port, err = strconv.Atoi(at.Port()); err != nil {
		t.Fatal(err)
	}
	second.port = first.port
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.bringPlans(ctx, first); err != nil || len(asked) != 1 {
		t.Fatalf("%v, asked %q", err, asked)
	}
	dies = false
	for range 2 { // the second call finds every plan stored
		if err := c.bringPlans(ctx, second); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, p := range plans() {
		want = append(want, "PUT /admin/tiers/"+string(p.Tier))
		if !c.put[p.Tier].sure {
			t.Errorf("the plan of %s is not stored", p.Tier)
		}
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
