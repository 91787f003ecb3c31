package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

const pushTime = 60 * time.Second

// What the receiver answers decides how the job goes on.
func TestPush_Answers(t *testing.T) {
	t.Parallel()
	eachStore(t, []string{"TIERQ_RESULT_LIMIT=2000"}, func(t *testing.T, s *server) {
		p := newPushes(t, answers{
			"json": says(` {"width": 1024, "a": 1, "a": 2}`), "nothing": status(204), "text": says("it is done"),
			"busy": status(429, "Retry-After", "1"), "away": status(503, "Retry-After", "1"), "flaky": status(500),
			"bad": status(400), "gone": status(410), "moved": status(307, "Location", "/elsewhere"),
			"big": says(`"` + strings.Repeat("x", 2000) + `"`), "binary": says("\xff"),
		})
		s.tune("PAID", map[string]any{"backoff": backoff(50)})
		s.pushTo("pushed", p.URL+"/jobs", "")
		s.pushTo("strict", p.URL+"/jobs", `,"permanent4xx":true`)
		const once = `,"maxRetries":0`
		for _, c := range []struct {
			queue, name, more string
			status            string
			retries, calls    int
			result, cause     string
		}{
			{"pushed", "json", "", "COMPLETED", 0, 1, `{"width":1024,"a":1,"a":2}`, ""},
			{"pushed", "nothing", "", "COMPLETED", 0, 1, "null", ""},
			{"pushed", "text", "", "COMPLETED", 0, 1, `"it is done"`, ""},
			{"pushed", "busy", "", "COMPLETED", 0, 2, "1", ""},
			{"pushed", "away", "", "COMPLETED", 0, 2, "1", ""},
			{"pushed", "flaky", "", "COMPLETED", 1, 2, "1", ""},
			{"pushed", "bad", "", "COMPLETED", 1, 2, "1", ""},
			{"strict", "gone", "", "FAILED", 0, 1, "null", "PERMANENT_ERROR"},
			{"pushed", "moved", once, "FAILED", 0, 1, "null", "HANDLER_ERROR"},
			{"pushed", "big", "", "FAILED", 0, 1, "null", "RESULT_TOO_LARGE"},
			{"pushed", "binary", once, "FAILED", 0, 1, "null", "HANDLER_ERROR"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				id := s.pushed(c.queue, c.name, c.more)
				got := s.await(id, c.status, pushTime)
				cause := ""
				if got.FailureCause != nil {
					cause = *got.FailureCause
				}
				result := string(got.Result)
				if result == "" {
					result = "null"
				}
				if got.RetryCount != c.retries || result != c.result || cause != c.cause {
					t.Errorf("%d retries, %s, %s", got.RetryCount, result, cause)
				}
				calls := p.of(c.name)
				if len(calls) != c.calls {
					t.Fatalf("%d calls", len(calls))
				}
				for i, h := range calls {
					if h.Get("Webhook-Id") != id || h.Get("X-Job-Attempt") != fmt.Sprint(i+1) || h.Get("X-Job-Type") != "PUSHED" ||
						h.Get("X-Job-Tier") != "PAID" || h.Get("X-Job-Queue") != c.queue || h.Get("Traceparent") == "" ||
						h.Get("Webhook-Signature") == "" || h.Get("X-Job-Lease") == "" || h.Get("Content-Type") != "application/json" {
						t.Errorf("call %d: %v", i, h)
					}
				}
			})
		}
		t.Cleanup(func() {
			if len(p.of("POST /elsewhere")) > 0 {
				t.Error("it followed a redirect")
			}
		})
	})
}

// A receiver that answers 202 ends the job later, with the lease of its post. A lease that it does not extend runs out,
// and the job is posted again; one that it extends lives on.
func TestPush_EndedLater(t *testing.T) {
	t.Parallel()
	eachStore(t, nil, func(t *testing.T, s *server) {
		p := newPushes(t, answers{
			"done": status(202), "failed": status(202), "back": status(202), "forgotten": status(202), "slow": status(202),
		})
		s.tune("PAID", map[string]any{"backoff": backoff(50), "maxProcessingTimeMs": 120000})
		s.pushTo("pushed", p.URL+"/jobs", "")
		lease := func(name string) string {
			t.Helper()
			testkit.Eventually(t, pushTime, name+" was posted", func() (bool, string) { return len(p.of(name)) > 0, "" })
			return p.of(name)[0].Get("X-Job-Lease")
		}
		ids := map[string]string{}
		for name := range p.answers {
			ids[name] = s.pushed("pushed", name, "")
		}
		began := time.Now()
		if got := s.reports("", "complete", lease("done"), `,"result":{"width":7}`); got != "COMPLETED" {
			t.Errorf("complete: %s", got)
		}
		if got := s.await(ids["done"], "COMPLETED", pushTime); string(got.Result) != `{"width":7}` || len(p.of("done")) != 1 {
			t.Errorf("%s after %d posts", got.Result, len(p.of("done")))
		}
		if got := s.reports("", "fail", lease("failed"), `,"error":{"message":"no"},"permanent":true`); got != "FAILED" {
			t.Errorf("fail: %s", got)
		}
		if got := s.await(ids["failed"], "FAILED", pushTime); *got.FailureCause != "PERMANENT_ERROR" {
			t.Errorf("failed with %s", *got.FailureCause)
		}
		if got := s.reports("", "release", lease("back"), ""); got != "RELEASED" {
			t.Errorf("release: %s", got)
		}
		if got := s.await(ids["back"], "COMPLETED", pushTime); got.RetryCount != 0 || len(p.of("back")) != 2 {
			t.Errorf("%d retries, %d posts", got.RetryCount, len(p.of("back")))
		}
		if got := s.reports("", "complete", lease("back"), `,"result":1`); !strings.Contains(got, "LEASE_LOST") {
			t.Errorf("the old lease: %s", got)
		}
		slow := lease("slow")
		beaten := func() bool {
			a := do(t, http.MethodPost, s.base+"/api/worker/heartbeat", `{"leases":[{"lease":"`+slow+`"}]}`)
			return strings.Contains(string(a.body), `"OK"`)
		}
		testkit.Eventually(t, 100*time.Second, "the forgotten job is posted again", func() (bool, string) {
			if !beaten() {
				t.Fatal("a lease that is extended is lost")
			}
			<-time.After(time.Second)
			return len(p.of("forgotten")) == 2, ""
		})
		if took := time.Since(began); took < 14*time.Second { // the lease of a PAID job
			t.Errorf("the lease lived %s", took)
		}
		if got := s.await(ids["forgotten"], "COMPLETED", pushTime); got.RetryCount != 1 {
			t.Errorf("%d retries", got.RetryCount)
		}
		if got := s.reports("", "complete", slow, `,"result":8`); got != "COMPLETED" {
			t.Errorf("complete: %s", got)
		}
		if got := s.await(ids["slow"], "COMPLETED", pushTime); string(got.Result) != "8" || len(p.of("slow")) != 1 {
			t.Errorf("%s after %d posts", got.Result, len(p.of("slow")))
		}
	})
}

// A post ends with its attempt's maximum processing time, and when its job is cancelled. No more posts are under way
// than the queue says.
func TestPush_Bounds(t *testing.T) {
	t.Parallel()
	eachStore(t, nil, func(t *testing.T, s *server) {
		p := newPushes(t, nil)
		p.answers = answers{
			"never": p.never, "cancelled": p.never,
			"slow": func(http.ResponseWriter, *http.Request, int) { <-time.After(150 * time.Millisecond) },
		}
		s.tune("PAID", map[string]any{"maxProcessingTimeMs": 120000})
		s.pushTo("pushed", p.URL+"/jobs", `,"concurrency":3`)
		var ids []string
		for range 15 {
			ids = append(ids, s.pushed("pushed", "slow", ""))
		}
		for _, id := range ids {
			s.await(id, "COMPLETED", pushTime)
		}
		if most := p.most.Load(); most != 3 {
			t.Errorf("%d posts at once, want 3", most)
		}
		never := s.pushed("pushed", "never", `,"maxRetries":0,"maxProcessingSeconds":1`)
		if got := s.await(never, "FAILED", pushTime); *got.FailureCause != "MAX_TIME_EXCEEDED" {
			t.Errorf("failed with %s", *got.FailureCause)
		}
		cancelled := s.pushed("pushed", "cancelled", "")
		testkit.Eventually(t, pushTime, "it is posted", func() (bool, string) { return len(p.of("cancelled")) == 1, "" })
		s.changes(http.MethodPost, "/api/jobs/"+cancelled+"/cancel", "", 200, 202)
		s.await(cancelled, "CANCELLED", pushTime)
		testkit.Eventually(t, pushTime, "both posts were cut off", func() (bool, string) {
			return p.ended.Load() == 2, fmt.Sprint(p.ended.Load())
		})
		if posts := len(p.of("never")) + len(p.of("cancelled")); posts != 2 {
			t.Errorf("%d posts", posts)
		}
	})
}

// A queue cannot push to an address that the server does not call. The address is looked at again with each post: it
// may have become one.
func TestPush_PrivateAddress(t *testing.T) {
	t.Attr("proves", "A32 A35")
	t.Parallel()
	p := newPushes(t, nil)
	e := newEmbedded(t)
	e.env = outward
	e.start()
	e.server.pushTo("pushed", p.URL+"/jobs", "")
	e.server.await(e.server.pushed("pushed", "first", ""), "COMPLETED", pushTime)
	e.server.terminate(20 * time.Second)
	e.env = nil
	e.start()
	for _, url := range []string{
		p.URL, "http://127.0.0.1/", "http://169.254.169.254/latest/", "http://[::1]/", "http://10.0.0.1/",
		"http://localhost/",
		"http://metadata.google.internal/", "https://x.example:8443/", "ftp://x.example/",
		"http://user@x.example/", "file:///etc/passwd", "http://0x7f000001/",
	} {
		a := do(t, http.MethodPut, e.server.base+"/admin/queues/other", `{"push":{"url":"`+url+`"}}`)
		if a.status != 400 || !strings.Contains(string(a.body), "push.url") {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}
	got := e.server.await(e.server.pushed("pushed", "second", `,"maxRetries":0`), "FAILED", pushTime)
	if *got.FailureCause != "HANDLER_ERROR" || len(p.of("second")) != 0 {
		t.Errorf("%s, %d posts", *got.FailureCause, len(p.of("second")))
	}
}

// A killed process' post counts as a crash: another process posts the job again, under the same id. One that ends in an
// orderly way gives back what it could not finish, at no cost. The process with the role worker posts, and one without
// it does not.
func TestPush_ProcessEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	front := c.start(append([]string{"TIERQ_ROLES=api,recovery"}, outward...)...)
	pool := append([]string{"TIERQ_ROLES=worker", "TIERQ_DRAIN_TIMEOUT=1s"}, outward...)
	p := newPushes(t, nil)
	p.answers = answers{
		"killed": func(w http.ResponseWriter, r *http.Request, before int) {
			if before == 0 {
				p.never(w, r, before)
			}
		},
	}
	p.answers["drained"] = p.answers["killed"]
	front.tune("PAID", map[string]any{"maxProcessingTimeMs": 120000})
	front.pushTo("pushed", p.URL+"/jobs", "")
	drained := front.pushed("pushed", "drained", "")
	<-time.After(3 * time.Second)
	if len(p.of("drained")) != 0 {
		t.Error("a process without the role worker posts")
	}
	first := c.start(pool...)
	testkit.Eventually(t, pushTime, "it is posted", func() (bool, string) { return len(p.of("drained")) == 1, "" })
	if code, took := first.terminate(30 * time.Second); code != 0 || took > 15*time.Second {
		t.Errorf("it ended with %d after %s", code, took)
	}
	second := c.start(pool...)
	if got := front.await(drained, "COMPLETED", pushTime); got.RetryCount != 0 || len(p.of("drained")) != 2 {
		t.Errorf("%d retries, %d posts", got.RetryCount, len(p.of("drained")))
	}
	killed := front.pushed("pushed", "killed", "")
	testkit.Eventually(t, pushTime, "it is posted", func() (bool, string) { return len(p.of("killed")) == 1, "" })
	if err := second.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.start(pool...)
	if got := front.await(killed, "COMPLETED", 2*pushTime); got.RetryCount != 1 || len(p.of("killed")) != 2 {
		t.Errorf("%d retries, %d posts", got.RetryCount, len(p.of("killed")))
	}
	for _, h := range p.of("killed") {
		if h.Get("Webhook-Id") != killed || h.Get("X-Job-Lease") == "" {
			t.Errorf("the post has %v", h)
		}
	}
}
