package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// A scenario also plays outside of virtual time, as viewers see it.
func TestRealTime(t *testing.T) {
	t.Parallel()
	b := New(Options{Speed: 10})
	if err := b.Play(t.Context(), "happy"); err != nil {
		t.Fatal(err)
	}
	s := story(follow(t, b))
	if last := s[len(s)-1]; last.Error != "" {
		t.Error(last.Error)
	}
	stop(t, b)
	stop(t, b)
	if b.Playing() {
		t.Error("it still plays")
	}
	if err := b.Play(t.Context(), "happy"); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	if _, _, closed := b.Events(0); !closed {
		t.Error("its events go on")
	}
}

// A box can be stopped at any moment of any scenario, and nothing keeps running: the bubble ends only if every
// goroutine has ended.
func TestStopsAtAnyTime(t *testing.T) {
	t.Parallel()
	for _, scenario := range Scenarios() {
		for after := time.Duration(0); after < 6*time.Second; after += 700 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				b := New(Options{})
				if err := b.Play(t.Context(), scenario.ID); err != nil {
					t.Fatal(err)
				}
				<-time.After(after)
				began := time.Now()
				stop(t, b)
				if took := time.Since(began); took > 1500*time.Millisecond { // the next scenario waits for the stop
					t.Errorf("%s: stopped at %s, it takes %s", scenario.ID, after, took)
				}
				before := len(allOf(b))
				<-time.After(5 * time.Second)
				if now := len(allOf(b)); now != before {
					t.Errorf("%s: %d events after the stop", scenario.ID, now-before)
				}
			})
		}
	}
}

func allOf(b *Box) []Event {
	events, _, _ := b.Events(0)
	return events
}

// A second scenario begins on an empty queue, and no more events of the first are published.
func TestSecondScenario(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		defer stop(t, b)
		if err := b.Play(t.Context(), "crash"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		first := story(allOf(b))
		for range 3 { // in quick succession
			if err := b.Play(t.Context(), "dead"); err != nil {
				t.Fatal(err)
			}
		}
		if !b.Playing() {
			t.Error("nothing plays")
		}
		second := story(follow(t, b))
		if last := first[len(first)-1]; second[0].Kind != Began || second[0].Scenario != "dead" || second[0].ID <= last.ID {
			t.Errorf("begins with %+v, after %d", second[0], last.ID)
		}
		if last := second[len(second)-1]; last.Error != "" {
			t.Error(last.Error)
		}
		for _, e := range second {
			for _, id := range first.jobs(job.Public) {
				if e.Job == id || e.score(id) != "" {
					t.Errorf("%s of the first scenario in a %s", id, e.Kind)
				}
			}
		}
		if n := len(second.jobs(job.Public)); n != 1 {
			t.Errorf("%d jobs", n)
		}
		if err := b.Play(t.Context(), "nonsense"); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	})
}

// A scenario that stops early publishes why in its last event. The cleanup is not published.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		defer stop(t, b)
		p := &play{box: b, cancel: func() {}, scenario: Scenario{ID: "broken", play: func(s *stage) {
			s.crew()
			s.until(JobClaimed, s.submit(job.Paid, work(5*time.Second)))
			s.refused(job.Paid, work(time.Second), job.ErrQueueFull)
			s.say("", "not said any more")
		}}}
		b.now = p
		p.run(t.Context())
		events := story(allOf(b))
		done := events.at(t, 0, Done, func(*Event) bool { return true })
		if e := events[done]; !strings.Contains(e.Error, job.ErrQueueFull.Error()) || e.Scenario != "broken" {
			t.Errorf("%+v", e)
		}
		if done != len(events)-1 {
			t.Errorf("%+v after the end", events[done+1:])
		}
		for _, e := range events {
			if e.Kind == Caption {
				t.Error(e.Note)
			}
		}
	})
}

func TestTwoBoxes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := New(Options{}), New(Options{})
		defer stop(t, one)
		defer stop(t, two)
		for _, b := range []*Box{one, two} {
			if err := b.Play(t.Context(), "overtake"); err != nil {
				t.Fatal(err)
			}
		}
		a, b := story(follow(t, one)), story(follow(t, two))
		for _, s := range []story{a, b} {
			if last := s[len(s)-1]; last.Error != "" {
				t.Error(last.Error)
			}
			if n := len(s.jobs(job.Public)); n != 9 {
				t.Errorf("%d jobs", n)
			}
		}
		for _, id := range b.jobs(job.Public) {
			for _, e := range a {
				if e.Job == id || strings.Contains(fmt.Sprint(e.Snapshot), string(id)) {
					t.Errorf("%s of the other box in a %s", id, e.Kind)
				}
			}
		}
	})
}

// A reader that comes back continues where it was, also if its last id is older than the stored events.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := newRing(0)
	_, more, _ := r.after(0)
	for range ringSize + 500 {
		r.add(Event{Kind: Caption})
	}
	<-more
	for after, want := range map[int64][2]int64{0: {501, 1000}, 400: {501, 1000}, 500: {501, 1000}, 501: {502, 999},
		1499: {1500, 1}, 1500: {0, 0}, 9999: {501, 1000}, -1: {501, 1000}} {
		events, _, closed := r.after(after)
		if closed || int64(len(events)) != want[1] || want[1] > 0 && events[0].ID != want[0] {
			t.Errorf("behind %d: %d events, want %d", after, len(events), want[1])
		}
		if !slices.IsSortedFunc(events, func(a, b Event) int { return int(a.ID - b.ID) }) {
			t.Errorf("behind %d: out of order", after)
		}
	}
	r.empty()
	if events, _, _ := r.after(0); events != nil {
		t.Errorf("%d events of an empty ring", len(events))
	}
	r.close()
	r.close()
	r.add(Event{})
	if events, more, closed := r.after(0); events != nil || !closed || more == nil {
		t.Error("a closed ring goes on")
	}
}

// The snapshot of a key is bounded.
func TestSnapshotIsBounded(t *testing.T) {
	t.Parallel()
	s := newStore()
	defer s.close()
	key := queue.Key(0, "queue")
	for i := range 50 {
		if _, err := s.server.ZAdd(key, float64(i), fmt.Sprintf("%02d", i)); err != nil {
			t.Fatal(err)
		}
	}
	s.server.HSet("hash", "long", strings.Repeat("\xe2\x82\xac", 1000), "bad", "\xff")
	if _, err := s.server.Push("list", "a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Set("text", "t"); err != nil {
		t.Fatal(err)
	}
	states := s.look([]string{key, "hash", "gone", "list", "text"})
	if len(states) != 4 || len(states[0].Entries) != mostEntries || states[0].More != 30 ||
		states[0].Entries[1] != (Entry{"01", "1"}) {
		t.Fatalf("%+v", states)
	}
	for _, e := range states[1].Entries {
		if len(e.Value) > mostBytes+3 || strings.Contains(e.Value, "\xff") {
			t.Errorf("%q", e)
		}
	}
	if states[2].Entries[1] != (Entry{"1", "b"}) || states[3].Entries[0].Value != "t" {
		t.Errorf("%+v", states[2:])
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range Scenarios() {
		if s.ID == "" || s.Title == "" || s.Shows == "" || seen[s.ID] {
			t.Errorf("%+v", s)
		}
		seen[s.ID] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d scenarios", len(seen))
	}
	for _, p := range plans() {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}
