package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
)

func TestHub_MakesOneSnapshotASecondForAllWhileSomebodyListens(t *testing.T) {
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, s *source) {
		pass(time.Minute)
		a := listen(h, "")
		expect(t, "at once", a.got(), "retry: 2000, s1")
		pass(1500 * time.Millisecond)
		b := listen(h, "")
		expect(t, "who comes later has the last one at once", b.got(), "retry: 2000, s2")
		pass(time.Second)
		expect(t, "one for both", a.got()+" | "+b.got(), "s2, s3 | s3")
		a.leave()
		b.leave()
		for range 20 { // reloading the page
			c := listen(h, "")
			c.leave()
			synctest.Wait()
		}
		pass(time.Minute)
		if n := s.made(); n != 3 {
			t.Errorf("%d snapshots were made", n)
		}
		c := listen(h, "")
		expect(t, "a minute later, no old one", c.got(), "retry: 2000, s4")
		for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache",
			"X-Accel-Buffering": "no"} {
			expect(t, name, c.header.Get(name), want)
		}
		pass(500 * time.Millisecond)
		if !c.deadline.Equal(time.Now().Add(-500*time.Millisecond + writeLimit)) {
			t.Errorf("the deadline is %v", c.deadline)
		}
	})
}

func TestHub_TheFeedIsResumed(t *testing.T) {
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, s *source) {
		s.set(func(s *source) { s.err = job.ErrUnavailable }) // only the feed works
		const stale = "stale a store that this request needs does not answer"
		tell := func(from, to int) {
			for n := from; n <= to; n++ {
				h.Tell("recovery", map[string]int{"n": n})
			}
			synctest.Wait()
		}
		tell(1, 2)
		a := listen(h, "")
		first := a.text.String()
		expect(t, "from now on", a.got(), "retry: 2000, "+stale)
		expect(t, "the id to resume from", strings.SplitN(first, "\n\n", 2)[0], "retry: 2000\nid: "+h.nonce+"-2")
		tell(3, 5)
		whole := a.text.String()
		expect(t, "as it comes", a.got(), "recovery 3, recovery 4, recovery 5")
		if want := "event: recovery\nid: " + h.nonce + "-3\ndata: {\"n\":3}\n\n"; !strings.HasPrefix(whole, want) {
			t.Errorf("%q, want %q", whole, want)
		}
		expect(t, "resumed", listen(h, "", "Last-Event-ID", h.nonce+"-3").got(),
			"retry: 2000, recovery 4, recovery 5, "+stale)
		expect(t, "resumed at the end", listen(h, "", "Last-Event-ID", h.nonce+"-5").got(), "retry: 2000, "+stale)
		expect(t, "opened with a page", listen(h, "?after="+h.nonce+"-4").got(), "retry: 2000, recovery 5, "+stale)
		expect(t, "the header wins", listen(h, "?after="+h.nonce+"-1", "Last-Event-ID", h.nonce+"-4").got(),
			"retry: 2000, recovery 5, "+stale)
		for _, id := range []string{"other-3", h.nonce + "-6", h.nonce + "-", h.nonce + "--1", "\x00"} {
			b := listen(h, "", "Last-Event-ID", id)
			if text := b.text.String(); !strings.HasPrefix(text, "retry: 2000\n\nevent: resync\nid: "+h.nonce+"-5\n") {
				t.Errorf("%q begins with %q", id, text)
			}
			expect(t, "of another life: "+id, b.got(),
				"retry: 2000, resync, recovery 1, recovery 2, recovery 3, recovery 4, recovery 5, "+stale)
		}
		items, after := h.Recent(2)
		if len(items) != 2 || string(items[0].Data) != `{"n":5}` || items[1].Kind != "recovery" || after != items[0].ID {
			t.Errorf("recent: %+v, %s", items, after)
		}
		a.leave()
		from := func(n int) string {
			got := listen(h, "", "Last-Event-ID", fmt.Sprintf("%s-%d", h.nonce, n)).got()
			return fmt.Sprintf("%d, %v", strings.Count(got, "recovery"), strings.Contains(got, "resync"))
		}
		last := 5
		for _, next := range []int{2 * ringSize, 3*ringSize - 1, 3 * ringSize, 3*ringSize + 7} {
			tell(last+1, next)
			expect(t, "all of the ring", from(next-ringSize), "500, false")
			expect(t, "one more", from(next-ringSize-1), "500, true")
			last = next
		}
		if items, _ := h.Recent(10 * ringSize); len(items) != ringSize || len(h.feed) >= 2*ringSize {
			t.Errorf("%d are recent, %d kept", len(items), len(h.feed))
		}
		h.Tell("recovery", func() {}) // a value that JSON cannot encode
	})
}

func TestHub_ASlowListenerHoldsUpNobody(t *testing.T) {
	t.Attr("proves", "A24")
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, _ *source) {
		slow, quick := listen(h, ""), listen(h, "")
		slow.got()
		quick.got()
		pass(500 * time.Millisecond) // between two snapshots
		slow.freeze()
		for n := range 8 {
			pass(time.Second)
			h.Tell("gate", map[string]int{"n": n + 2})
		}
		expect(t, "the quick one", quick.got(),
			"s2, gate 2, s3, gate 3, s4, gate 4, s5, gate 5, s6, gate 6, s7, gate 7, s8, gate 8, s9, gate 9")
		slow.thaw()
		expect(t, "the slow one: the latest, and all of the feed", slow.got(),
			"s2, gate 2, gate 3, gate 4, gate 5, gate 6, gate 7, gate 8, gate 9, s9")
		slow.freeze()
		pass(9 * time.Second)
		slow.thaw()
		expect(t, "eight behind the one that was on its way", slow.got(), "s10, s18")
		slow.freeze()
		pass(10 * time.Second)
		slow.thaw()
		expect(t, "nine", slow.got(), "s19, resync, s28")
		expect(t, "meanwhile", quick.got(),
			"s10, s11, s12, s13, s14, s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28")
		slow.freeze()
		pass(12 * time.Second)
		if !slow.ended() || quick.ended() {
			t.Error("who reads nothing for 10 s is sent away, and nobody else")
		}
	})
}

func TestHub_SaysThatItIsStaleAndHeals(t *testing.T) {
	var log bytes.Buffer
	inBubble(t, HubOptions{Log: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, h *Hub, s *source) {
		a := listen(h, "")
		expect(t, "well", a.got(), "retry: 2000, s1")
		s.set(func(s *source) { s.err = fmt.Errorf("redis at hunter2: %w", job.ErrUnavailable) })
		pass(5 * time.Second)
		expect(t, "said once", a.got(), "stale a store that this request needs does not answer")
		expect(t, "to who comes now as well", listen(h, "").got(),
			"retry: 2000, s1, stale a store that this request needs does not answer")
		s.set(func(s *source) { s.hang = true })
		pass(10 * time.Second)
		expect(t, "another reason", a.got(), "stale a store that this request needs did not answer in time")
		s.set(func(s *source) { s.hang, s.dies = false, true })
		pass(5 * time.Second)
		expect(t, "what is not his to know", a.got(), "stale internal error; the server's log has the cause")
		s.set(func(s *source) { s.dies, s.err = false, errors.New("hunter2") })
		pass(5 * time.Second)
		expect(t, "the same", a.got(), "")
		s.set(func(s *source) { s.err = nil })
		pass(time.Second)
		if got := a.got(); !strings.HasPrefix(got, "s") || strings.Contains(got, "stale") {
			t.Errorf("healed: %q", got)
		}
		if got := listen(h, "").got(); strings.Contains(got, "stale") {
			t.Errorf("who comes after it: %q", got)
		}
	})
	if n := strings.Count(log.String(), "could not be read"); n != 3 || !strings.Contains(log.String(), "hunter2") {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

func TestHub_PingsAndLooksWhoMay(t *testing.T) {
	var out atomic.Bool
	inBubble(t, HubOptions{Still: func(r *http.Request) bool { return !out.Load() && r.URL.Path == "/dashboard/stream" }},
		func(t *testing.T, h *Hub, s *source) {
			s.set(func(s *source) { s.err = job.ErrUnavailable })
			a := listen(h, "")
			a.got()
			pass(46 * time.Second)
			if got := a.got(); got != "" || a.pings != 3 {
				t.Errorf("in silence: %q, %d pings", got, a.pings)
			}
			out.Store(true)
			pass(15 * time.Second)
			if !a.ended() {
				t.Error("it goes on for who may not listen any more")
			}
		})
}

func TestHub_HasPlacesForSoMany(t *testing.T) {
	t.Attr("proves", "A24")
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, s *source) {
		all := make([]*browser, listeners)
		for i := range all {
			all[i] = listen(h, "")
		}
		pass(time.Second)
		one := listen(h, "")
		var body struct {
			Status    int
			ErrorCode string
		}
		if err := json.Unmarshal(one.text.Bytes(), &body); err != nil || one.status != 503 || body.Status != 503 ||
			body.ErrorCode != "SYSTEM_UNHEALTHY" ||
			one.header.Get("Retry-After") != "5" || one.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("one too many: %d %v %s, %v", one.status, one.header, &one.text, err)
		}
		all[7].leave()
		synctest.Wait()
		if one := listen(h, ""); one.status != 200 || h.Listeners() != listeners {
			t.Errorf("a place that got free: %d", one.status)
		}
		if n := s.made(); n != 2 {
			t.Errorf("%d snapshots for all of them", n)
		}
	})
}

func TestHub_SaysGoodbye(t *testing.T) {
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, s *source) {
		a := listen(h, "")
		a.got()
		h.Tell("dead", map[string]int{"n": 1})
		h.Drain()
		h.Drain()
		if got := a.got(); got != "dead 1, bye" || !a.ended() {
			t.Errorf("got %q, ended %v", got, a.ended())
		}
		pass(time.Minute)
		late := listen(h, "")
		if got := late.got(); got != "retry: 2000, bye" || !late.ended() || s.made() != 1 {
			t.Errorf("late: %q, %d snapshots", got, s.made())
		}
	})
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, s *source) {
		s.set(func(s *source) { s.hang = true })
		a := listen(h, "")
		began := time.Now()
		if err := h.Stop(t.Context()); err != nil || !time.Now().Equal(began) {
			t.Errorf("stopped %v after, %v", time.Since(began), err)
		}
		expect(t, "who waits for the first one", a.got(), "retry: 2000, bye")
	})
}

// Over a real connection items arrive one by one, and the stream ends when the listener leaves.
func TestHub_OverTheNetwork(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := &source{}
	h := NewHub(HubOptions{Snapshot: s.read})
	server := httptest.NewServer(h)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	read := make([]byte, 1000)
	text := ""
	for !strings.Contains(text, `data: {"n":1,"text":"\u003cb\u003e\n\u0026"}`+"\n\n") {
		n, err := res.Body.Read(read)
		if text += string(read[:n]); err != nil {
			t.Fatalf("%v after %q", err, text)
		}
	}
	_ = res.Body.Close()
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	server.Close()
	if h.Listeners() != 0 {
		t.Error("it still listens")
	}
}
