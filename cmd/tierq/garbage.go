package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much garbage may lie about. A small heap that is collected often costs a tenth of the processor, so it may grow
// to five times what is in use; but not by more than this many bytes, unless that much is in use as well.
const (
	garbageMost    = 128 << 20
	garbagePercent = 400
)

// boundGarbage sets the collector's pace now and after each collection, from what that one has left.
func boundGarbage() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(pace(live[0].Value.Uint64()))
	runtime.AddCleanup(new([64]byte), func(struct{}) { boundGarbage() }, struct{}{})
}

// pace is the percentage for so many bytes in use.
func pace(live uint64) int {
	return int(min(garbagePercent, max(100, garbageMost*100/max(live, 1))))
}
