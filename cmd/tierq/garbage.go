package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The limits of the garbage on the heap. Frequent collections of a small heap cost a tenth of the processor, so
// the heap may grow to five times the live bytes. But the garbage is limited to garbageMost bytes, or to the live
// bytes if those are more.
const (
	garbageMost    = 128 << 20
	garbagePercent = 400
)

// boundGarbage sets the collector's pace now and after each collection, according to the live bytes.
func boundGarbage() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(pace(live[0].Value.Uint64()))
	runtime.AddCleanup(new([64]byte), func(struct{}) { boundGarbage() }, struct{}{})
}

// pace returns the GC percentage for this number of live bytes.
func pace(live uint64) int {
	return int(min(garbagePercent, max(100, garbageMost*100/max(live, 1))))
}
