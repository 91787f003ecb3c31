package testkit

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// Calm waits while more tasks want to run than the machine has cores for, and a test waits once.
func TestCalm(t *testing.T) {
	var busy sync.WaitGroup
	stop := make(chan struct{})
	before := runtime.GOMAXPROCS(8 * runtime.NumCPU())
	for range 8 * runtime.NumCPU() {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	began := time.Now()
	time.AfterFunc(time.Second, func() { close(stop) })
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
