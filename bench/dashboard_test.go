package main

import (
	"testing"
	"time"
)

// Each window with somebody stands beside those with nobody next to it, on both sides where there are two.
func TestDearer(t *testing.T) {
	share := func(watchers int, server, redis float64) window {
		cpu := func(percent float64) time.Duration { return time.Duration(percent * float64(100*time.Millisecond)) }
		return window{watchers: watchers, took: 10 * time.Second, server: cpu(server), redis: cpu(redis)}
	}
	all := []window{share(0, 10, 5), share(0, 12, 5), share(1, 15, 6), share(20, 31, 9), share(0, 14, 5), share(0, 16, 5),
		share(1, 20, 9)}
	if server, redis := dearer(all, 1); server != 3.5 || redis != 2.5 { // 15 beside 13, 20 beside 15; 6 and 9 beside 5
		t.Errorf("one costs %v and %v, want 3.5 and 2.5", server, redis)
	}
	if server, redis := dearer(all, 20); server != 18 || redis != 4 {
		t.Errorf("twenty cost %v and %v, want 18 and 4", server, redis)
	}
}
