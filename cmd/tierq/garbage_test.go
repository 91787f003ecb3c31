package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1: 400, 10 << 20: 400, 32 << 20: 400, 64 << 20: 200, 128 << 20: 100,
		8 << 30: 100} {
		if got := pace(live); got != want {
			t.Errorf("%d MiB in use: %d, want %d", live>>20, got, want)
		}
	}
}

// The collector slows down as its heap grows, and speeds up again.
func TestBoundGarbage(t *testing.T) {
	was := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(was) }) // a late cleanup sets it once more, which is harmless
	boundGarbage()
	settles := func(want int) {
		t.Helper()
		for begun := time.Now(); ; runtime.GC() {
			now := debug.SetGCPercent(want)
			debug.SetGCPercent(now)
			if now == want {
				return
			}
			if time.Since(begun) > 10*time.Second {
				t.Fatalf("it is %d, not %d", now, want)
			}
		}
	}
	settles(garbagePercent)
	held := make([]byte, 2*garbageMost)
	settles(100)
	runtime.KeepAlive(held) // until here
	settles(garbagePercent)
}
