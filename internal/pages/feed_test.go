package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// wire is a fake subscription.
type wire struct {
	c    chan job.Message
	once sync.Once
}

func (w *wire) C() <-chan job.Message { return w.c }
func (w *wire) Close()                { w.once.Do(func() { close(w.c) }) }

func newFeed(h *Hub, wires *[]*wire) *Feed {
	o := FeedOptions{Hub: h, Now: func() time.Time { return opsNow }, Plan: func(t job.Tier) (job.Plan, bool) {
		for _, p := range job.DefaultPlans() {
			if p.Tier == t {
				return p, true
			}
		}
		return job.Plan{}, false
	}}
	if wires != nil {
		o.Alarms = func() Subscription {
			w := &wire{c: make(chan job.Message, 100)}
			*wires = append(*wires, w)
			return w
		}
	}
	return NewFeed(o)
}

// toldBy returns the items of the feed, oldest first: kind, the end of the id, text.
func toldBy(t *testing.T, h *Hub) (list []string) {
	t.Helper()
	items, _ := h.Recent(ringSize)
	for _, i := range items {
		var f web.FeedItem
		if err := json.Unmarshal(i.Data, &f); err != nil || i.Kind != "feed" || f.At.IsZero() {
			t.Errorf("%+v, %v", i, err)
		}
		id := ""
		if f.JobID != "" {
			id = f.JobID[len(f.JobID)-1:] + " "
		}
		list = append([]string{f.Kind + " " + id + f.Text}, list...)
	}
	return list
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFeed_TellsTheGatesChanges(t *testing.T) {
	h := NewHub(HubOptions{})
	f := newFeed(h, nil)
	open, closed := web.Gate{Open: true}, web.Gate{Reason: "5 consecutive errors of the store"}
	for _, g := range []web.Gate{open, open, closed, closed, open, open} {
		f.Look(g)
	}
	same(t, toldBy(t, h), "gate closed: 5 consecutive errors of the store", "gate open again: submits are accepted")
	h = NewHub(HubOptions{})
	newFeed(h, nil).Look(closed) // a process that starts during an outage
	same(t, toldBy(t, h), "gate closed: 5 consecutive errors of the store")
}

func TestFeed_TellsWhatTheWatchesTookBack(t *testing.T) {
	h := NewHub(HubOptions{})
	f := newFeed(h, nil)
	f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.OK, Tier: job.Paid})
	f.Took(job.Stuck, job.Reclaimed{ID: opsOther, Word: job.OK, Tier: job.Public})
	f.Took(job.Stuck, job.Reclaimed{ID: opsThird, Word: job.OK})
	f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.Suspect, Tier: job.Paid})
	f.Took(job.Crashed, job.Reclaimed{ID: opsOther, Word: job.Discarded, Tier: job.Paid})
	f.Took(job.Crashed, job.Reclaimed{ID: opsThird, Word: job.WasCancelled, Tier: job.Paid})
	f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.Quarantined, Tier: job.Paid})
	same(t, toldBy(t, h), "crashed 0 its worker stopped: taken back to its place",
		"stuck 1 it ran for longer than 10 s: taken back to its place",
		"stuck 2 it ran for too long: taken back to its place", "dead 1 failed for good: HEARTBEAT_STOPPED",
		"crashed 2 its worker stopped: cancelled, as requested",
		"crashed 0 its worker stopped, and its data in Redis is broken: moved to quarantine")
	// The same recovery within moments arrived in the other way; later it is another crash.
	f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.OK, Tier: job.Paid})
	if n := len(toldBy(t, h)); n != 6 {
		t.Errorf("%d items", n)
	}
	for range 4 {
		f.Look(web.Gate{Open: true})
	}
	f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.OK, Tier: job.Paid})
	if n := len(toldBy(t, h)); n != 7 {
		t.Errorf("%d items", n)
	}
}

// The feed has the events of all processes, but only while the hub has listeners.
func TestFeed_HearsEventsWhileSomebodyListens(t *testing.T) {
	var wires []*wire
	inBubble(t, HubOptions{}, func(t *testing.T, h *Hub, _ *source) {
		f := newFeed(h, &wires)
		look := func(n int) {
			for range n {
				f.Look(web.Gate{Open: true})
			}
			synctest.Wait()
		}
		look(5)
		if len(wires) != 0 {
			t.Fatal("the events are heard for nobody")
		}
		a := listen(h, "")
		look(2)
		if len(wires) != 1 {
			t.Fatalf("%d subscriptions", len(wires))
		}
		e := func(id job.ID, s job.Status, attempt int, c job.Cause) {
			wires[len(wires)-1].c <- job.Message{Event: job.Event{ID: id, Tier: job.Public, Status: s, Attempt: attempt,
				Cause: c, At: opsNow}}
			synctest.Wait()
		}
		wires[0].c <- job.Message{Resync: true}
		e(opsID, job.Pending, 0, "")
		e(opsID, job.Processing, 1, "")
		e(opsID, job.Completed, 1, "")
		e(opsID, job.Scheduled, 1, job.HandlerError) // a retry is not shown
		e(opsID, job.Pending, 1, job.HeartbeatStopped)
		f.Took(job.Crashed, job.Reclaimed{ID: opsID, Word: job.OK, Tier: job.Public}) // the same recovery
		e(opsOther, job.Scheduled, 1, job.MaxTimeExceeded)
		e(opsOther, job.Failed, 2, job.MaxTimeExceeded)
		e(opsThird, job.Failed, 1, job.PermanentError)
		e(opsThird, job.Cancelled, 1, job.HeartbeatStopped)
		same(t, toldBy(t, h), "crashed 0 its worker stopped: taken back to its place, attempt 2 comes next",
			"stuck 1 it ran for longer than 10 s: it waits, attempt 2 comes next", "dead 1 failed for good: MAX_TIME_EXCEEDED",
			"dead 2 failed for good: PERMANENT_ERROR", "crashed 2 its worker stopped: cancelled, as requested")

		wires[0].Close() // the subscription ended: another one begins
		synctest.Wait()
		look(1)
		if len(wires) != 2 {
			t.Fatalf("%d subscriptions", len(wires))
		}
		a.leave()
		synctest.Wait()
		look(30)
		e(opsID, job.Failed, 2, job.HandlerError) // events are still read for a while
		if n := len(toldBy(t, h)); n != 6 {
			t.Errorf("%d items", n)
		}
		look(1)
		select {
		case _, more := <-wires[1].c:
			if more {
				t.Error("something is left")
			}
		default:
			t.Error("the events are heard for nobody")
		}
		listen(h, "")
		look(1)
		if err := f.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		look(3)
		if len(wires) != 3 {
			t.Errorf("%d subscriptions", len(wires))
		}
		f.Took(job.Crashed, job.Reclaimed{ID: opsThird, Word: job.OK, Tier: job.Paid})
		if n := len(toldBy(t, h)); n != 6 {
			t.Errorf("told after the end: %d items", n)
		}
		if err := f.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A tier whose jobs all fail does not push everything else out of the feed.
func TestFeed_CountsWhatIsTooMuch(t *testing.T) {
	h := NewHub(HubOptions{})
	f := newFeed(h, nil)
	f.Look(web.Gate{Open: true})
	for i := range 120 {
		w := job.Crashed
		if i >= 100 {
			w = job.Stuck
		}
		f.Took(w, job.Reclaimed{ID: job.ID(fmt.Sprintf("%s%03d", opsID[:33], i)), Word: job.OK, Tier: job.Paid})
	}
	f.Look(web.Gate{Reason: "closed"})
	list := toldBy(t, h)
	if len(list) != 23 || list[22] != "gate closed: closed" {
		t.Fatalf("%d: %q", len(list), list)
	}
	both := strings.Join(list[20:22], ", ")
	if !strings.Contains(both, "crashed and 80 more within a second") ||
		!strings.Contains(both, "stuck and 20 more within a second") {
		t.Error(both)
	}
	f.Look(web.Gate{})
	if n := len(toldBy(t, h)); n != 23 {
		t.Errorf("%d items", n)
	}
	if len(f.recent) > 20 {
		t.Errorf("%d are remembered", len(f.recent))
	}
}
