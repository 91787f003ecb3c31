package testkit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Calm waits while the machine is busy, and only once per test.
func TestCalm(t *testing.T) {
	var busy sync.WaitGroup
	var stop atomic.Bool
	before := runtime.GOMAXPROCS(8 * runtime.NumCPU())
	for range 8 * runtime.NumCPU() {
		busy.Go(func() {
			for !stop.Load() {
			}
		})
	}
	began := time.Now()
	time.AfterFunc(time.Second, func() { stop.Store(true) })
	Calm(t)
	waited := time.Since(began)
	busy.Wait()
	runtime.GOMAXPROCS(before)
	if waited < time.Second {
		t.Errorf("the test began after %s, while the machine was busy for a second", waited)
	}
	began = time.Now()
	Calm(t)
	if again := time.Since(began); again > time.Second {
		t.Errorf("the second call waited %s", again)
	}
}
