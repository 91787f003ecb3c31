package sandbox

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// inManager runs a test with a started manager in virtual time. The bubble fails if anything of the boxes still
// runs after the stop.
func inManager(t *testing.T, test func(t *testing.T, m *Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(ManagerOptions{})
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for range 2 {
				if err := m.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}
			if err := m.Play(context.Background(), "a", "happy"); !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
		}()
		test(t, m)
	})
}

func TestNinthBox(t *testing.T) {
	t.Parallel()
	inManager(t, func(t *testing.T, m *Manager) {
		for i := range 8 {
			if err := m.Play(t.Context(), strconv.Itoa(i), "happy"); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Play(t.Context(), "ninth", "happy"); !errors.Is(err, ErrFull) {
			t.Errorf("the ninth: %v", err)
		}
		if _, _, closed := m.Events("ninth", 0); !closed {
			t.Error("it has events")
		}
		<-time.After(4 * time.Minute)
		events, _, closed := m.Events("0", 0) // this uses the box
		if closed || events[len(events)-1].Kind != Done {
			t.Error("a box in use is gone")
		}
		<-time.After(90 * time.Second)
		if _, _, closed := m.Events("0", 0); closed {
			t.Error("a box in use is gone")
		}
		_, _, closed = m.Events("1", 0)
		if !closed {
			t.Error("an idle box is still there")
		}
		if err := m.Play(t.Context(), "ninth", "happy"); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

// A box in which nothing plays is removed for a new one: the box that was played longest ago.
func TestRoomIsMade(t *testing.T) {
	t.Parallel()
	inManager(t, func(t *testing.T, m *Manager) {
		for i := range 8 {
			if err := m.Play(t.Context(), strconv.Itoa(i), "dead"); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		<-time.After(15 * time.Second)
		old, more, _ := m.Events("0", 0)
		if err := m.Play(t.Context(), "ninth", "happy"); err != nil {
			t.Fatal(err)
		}
		<-more // the listener is woken
		if _, _, closed := m.Events("0", 0); !closed {
			t.Error("the oldest box is still there")
		}
		if _, _, closed := m.Events("1", 0); closed {
			t.Error("a younger one is gone")
		}
		<-time.After(2 * time.Second)
		if err := m.Play(t.Context(), "0", "happy"); err != nil {
			t.Fatal(err)
		}
		if events, _, _ := m.Events("0", old[len(old)-1].ID); len(events) == 0 || events[0].Kind != Began {
			t.Errorf("who heard the last box does not hear the next one from its beginning: %+v", events)
		}
	})
}

// A listener is told when its box is removed.
func TestIdleBoxSaysSo(t *testing.T) {
	t.Parallel()
	inManager(t, func(t *testing.T, m *Manager) {
		if err := m.Play(t.Context(), "a", "dead"); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		events, more, _ := m.Events("a", 0)
		<-more
		if _, _, closed := m.Events("a", events[len(events)-1].ID); !closed {
			t.Error("there is more, and the box is not gone")
		}
	})
}

func TestOnePlayASecond(t *testing.T) {
	t.Parallel()
	inManager(t, func(t *testing.T, m *Manager) {
		for _, step := range []struct {
			session, scenario string
			after             time.Duration
			want              error
		}{
			{"a", "nonsense", 0, ErrUnknown}, {"a", "happy", 0, nil}, {"a", "crash", 999 * time.Millisecond, ErrTooSoon},
			{"b", "crash", 0, nil},
			{"a", "crash", time.Millisecond, nil}, {"a", "hang", 0, ErrTooSoon}, {"a", "hang", time.Second, nil},
		} {
			<-time.After(step.after)
			if err := m.Play(t.Context(), step.session, step.scenario); !errors.Is(err, step.want) {
				t.Errorf("%s plays %s: %v, want %v", step.session, step.scenario, err, step.want)
			}
		}
		for session, want := range map[string]string{"a": "hang", "b": "crash"} {
			if events, _, _ := m.Events(session, 0); events[0].Scenario != want {
				t.Errorf("%s sees %s", session, events[0].Scenario)
			}
		}
	})
}
