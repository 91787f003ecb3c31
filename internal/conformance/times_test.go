package conformance

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// life is what the behaviour LIFE completes with.
type life struct {
	Lived int64  `json:"lived"` // ms
	Ended int64  `json:"ended"` // Unix ms
	Cause string `json:"cause"`
}

// lifeOf waits for the result of a LIFE.
func (f *fake) lifeOf(t testing.TB, id string) (l life) {
	t.Helper()
	said := f.await(t, id, 30*time.Second)
	if said.Completed == nil {
		t.Fatalf("%s ended otherwise: %s", id, f.jobs[id].report)
	}
	if err := json.Unmarshal(said.Completed.Result, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// A claim is held for three seconds, and then gets a job of four. The handler's context ends at the deadline that the
// server counts from the hand-out: not at four seconds after the claim was sent, and not later.
func TestDeadlineOfAnIdleWorker(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		worker := p.start(t, f)
		if !f.until(20*time.Second, func() bool { return f.asking > 0 }) {
			t.Fatal("no claim came")
		}
		<-time.After(3 * time.Second)
		f.add("life", "LIFE", `{}`, endsIn(4*time.Second))
		l := f.lifeOf(t, "life")
		var late int64
		f.with(func() { late = l.Ended - f.jobs["life"].ends.UnixMilli() })
		// Never late; early by the time on the network. Timers of a busy machine fire late.
		if late < -1500 || late > 1500 {
			t.Errorf("the context ended %d ms after the deadline; it lived %d ms", late, l.Lived)
		}
		if l.Cause == "" {
			t.Error("the context has no cause")
		}
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// Progress is heard within 1.5 s of a change, and no more than one heartbeat a second is sent because of it. Ordinary
// heartbeats are 10 s apart here.
func TestProgressIsSoon(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.leaseFor, f.every = 30*time.Second, 10*time.Second
		f.add("tell", "TELL", `{"seconds":6}`)
		worker := p.start(t, f)
		f.await(t, "tell", 30*time.Second)
		f.mu.Lock()
		j := f.jobs["tell"]
		heard, beats, before := len(j.told), len(j.beats), j.handed
		for _, told := range j.told {
			if told.at.Sub(before) > 2500*time.Millisecond { // 1.5 s, and a second for a busy machine
				t.Errorf("no progress was heard for %s", told.at.Sub(before))
			}
			before = told.at
		}
		f.mu.Unlock()
		if heard < 3 {
			t.Errorf("%d progresses in 6 s", heard)
		}
		if beats > 8 { // one a second, and the last one before the report
			t.Errorf("%d heartbeats in 6 s", beats)
		}
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// A cancel is heard with the next heartbeat.
func TestCancelIsSoon(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		j := f.add("life", "LIFE", `{}`)
		worker := p.start(t, f)
		if !f.until(20*time.Second, func() bool { return len(j.beats) > 0 }) {
			t.Fatal("no heartbeat came")
		}
		var at time.Time
		f.with(func() { j.word, at = "CANCEL", time.Now() })
		l := f.lifeOf(t, "life")
		if took := time.UnixMilli(l.Ended).Sub(at); took > f.every+1500*time.Millisecond {
			t.Errorf("the cancel was heard after %s", took)
		}
		if err := partly("ancelled").check(f.reportOf("life")); err != nil {
			t.Error(err)
		}
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// Heartbeats come as often as the server says, whatever the handlers do.
func TestHeartbeatsAreRegular(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.leaseFor, f.every = 30*time.Second, time.Second
		f.add("block", "BLOCK", `{"seconds":5}`)
		f.add("hold", "HOLD", `{"seconds":6}`)
		worker := p.start(t, f)
		f.await(t, "hold", 30*time.Second)
		f.await(t, "block", 30*time.Second)
		f.with(func() {
			for _, j := range f.jobs {
				before := j.handed
				for _, at := range append(j.beats, j.reported) {
					if gap := at.Sub(before); gap > 3*time.Second {
						t.Errorf("%s: %s without a heartbeat", j.id, gap)
					}
					before = at
				}
				if most := int(math.Ceil(j.reported.Sub(j.handed).Seconds())) + 3; len(j.beats) > most {
					t.Errorf("%s: %d heartbeats, at most %d are asked for", j.id, len(j.beats), most)
				}
			}
		})
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}
