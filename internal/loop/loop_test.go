package loop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Next is right from the loop's start to its end, also after a wake.
func TestLoop_Next(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under, wait := make(chan struct{}), 3*time.Second
		l := New(func(context.Context) time.Duration { <-under; return wait })
		next := func(when string, want time.Duration, moves bool) {
			t.Helper()
			synctest.Wait()
			if in, is := l.Next(); in != want || is != moves {
				t.Errorf("%s: in %s, %t; want %s, %t", when, in, is, want, moves)
			}
		}
		next("before its start", 0, false)
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		next("in the first run", 0, true)
		under <- struct{}{}
		next("after it", 3*time.Second, true)
		<-time.After(time.Second)
		next("a second later", 2*time.Second, true)
		<-time.After(2500 * time.Millisecond)
		next("in a run that takes its time", 0, true)
		wait = 6 * time.Second
		under <- struct{}{}
		next("after that one", 6*time.Second, true)
		<-time.After(time.Second)
		l.Wake()
		synctest.Wait()
		close(under)
		next("after it was woken", 6*time.Second, true)
		if err := l.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		next("after its end", 0, false)
	})
}

// A loop may be stopped before it starts, and twice. Stop waits for the present run until its context ends.
func TestLoop_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := make(chan struct{})
		l := New(func(context.Context) time.Duration { <-under; return time.Hour })
		if err := l.Stop(t.Context()); err != nil {
			t.Errorf("before its start: %v", err)
		}
		for range 2 {
			if err := l.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Stop(soon); !errors.Is(err, context.DeadlineExceeded) || !l.Running() {
			t.Errorf("in a run: %v", err)
		}
		close(under)
		for range 2 {
			if err := l.Stop(t.Context()); err != nil || l.Running() {
				t.Errorf("after the run: %v", err)
			}
		}
	})
}

// Several signals before a receive count as one.
func TestSignal(t *testing.T) {
	s := NewSignal()
	s.Set()
	s.Set()
	<-s
	select {
	case <-s:
		t.Error("set twice, it is there twice")
	default:
	}
}

func TestPace(t *testing.T) {
	p := Pace{Floor: 3 * time.Second, Ceiling: 20 * time.Second}
	wait := p.Floor
	for i, step := range []struct {
		failed bool
		want   int // seconds
	}{{true, 6}, {true, 12}, {true, 20}, {true, 20}, {false, 10}, {false, 5}, {false, 3}, {false, 3}} {
		if wait = p.Next(wait, step.failed); wait != time.Duration(step.want)*time.Second {
			t.Errorf("step %d: %s, want %d s", i, wait, step.want)
		}
	}
}

func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group sync.WaitGroup
		group.Go(func() { <-time.After(time.Minute) })
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Waited(soon, &group); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("too early: %v", err)
		}
		if err := Waited(t.Context(), &group); err != nil {
			t.Errorf("in the end: %v", err)
		}
	})
}
