package face

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tierq/tierq/internal/testkit"
)

// listen opens a stream of a page and reads its first line. The stream stays open until the test ends or leave is
// called.
func (s *site) listen(path, cookie string) (status int, header http.Header, leave func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	resp, err := streams.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	leave = sync.OnceFunc(func() {
		cancel()
		_ = resp.Body.Close()
	})
	s.t.Cleanup(leave)
	if resp.StatusCode != http.StatusOK {
		leave()
		return resp.StatusCode, resp.Header, leave
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "retry: ") {
		s.t.Fatalf("%s begins with %q, %v", path, line, err)
	}
	return resp.StatusCode, resp.Header, leave
}

var streams = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// TestFace_StreamsAreBounded takes all places for the pages' streams. The next stream is refused with a
// Retry-After, all other requests are served, and a place that becomes free can be taken again.
func TestFace_StreamsAreBounded(t *testing.T) {
	t.Attr("proves", "A24")
	t.Parallel()
	s := newSite(t)
	const session = "tierq_demo=ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if a := s.ask(http.MethodPost, "/demo/play", "scenario=happy", "Content-Type", "application/x-www-form-urlencoded",
		"Cookie", session); a.status != http.StatusNoContent {
		t.Fatalf("play: %d %s", a.status, a.body)
	}
	for path, places := range map[string]int{"/dashboard/stream": 200, "/demo/events": 64} {
		var leave func()
		for i := range places {
			var status int
			if status, _, leave = s.listen(path, session); status != http.StatusOK {
				t.Fatalf("%s: the %dth is answered %d", path, i+1, status)
			}
		}
		for range 3 {
			if status, header, _ := s.listen(path, session); status != http.StatusServiceUnavailable ||
				header.Get("Retry-After") == "" {
				t.Errorf("%s: one more is answered %d, %v", path, status, header)
			}
		}
		leave()
		testkit.Eventually(t, alive, "the place that was left is free", func() (bool, string) {
			status, _, _ := s.listen(path, session)
			return status == http.StatusOK, http.StatusText(status)
		})
	}
	s.await(s.submit("paid", ""), "COMPLETED")
	for _, path := range []string{"/", "/dashboard", "/demo", "/livez", "/api/stats"} {
		if a := s.ask(http.MethodGet, path, ""); a.status != http.StatusOK {
			t.Errorf("%s beside the streams: %d %s", path, a.status, a.body)
		}
	}
}
