package telemetry

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Durations are counted in buckets of a logarithmic scale, four for each power of two from 1 ms to 2 h:
//
//	bucket 0       below 1 ms
//	bucket b > 0   from 2^((b-1)/4) ms up to, not including, 2^(b/4) ms; the last one has no end
//
// A duration is read back as its bucket's geometric middle, 2^((b-0.5)/4) ms. So between 1 ms and 2 h a percentile
// is wrong by at most 2^(1/8) - 1 = 9.1 %. Below 1 ms, where it is read as 0.5 ms, it is wrong by at most 0.5 ms.
const (
	perDouble = 4
	longest   = 2 * time.Hour
)

// bounds[b] is the end of bucket b.
var bounds = func() (ends []time.Duration) {
	for b := 0; len(ends) == 0 || ends[b-1] <= longest; b++ {
		ends = append(ends, time.Duration(math.Round(math.Exp2(float64(b)/perDouble)*float64(time.Millisecond))))
	}
	return ends
}()

// buckets is the number of buckets. A test compares it with bounds.
const buckets = 93

func bucketOf(d time.Duration) int {
	b, exact := slices.BinarySearch(bounds, d)
	if exact {
		b++ // a bucket does not include its end
	}
	return min(b, buckets-1)
}

// middle returns the duration as which a bucket is read back.
func middle(b int) time.Duration {
	if b == 0 {
		return time.Millisecond / 2
	}
	return time.Duration(math.Exp2((float64(b)-0.5)/perDouble) * float64(time.Millisecond))
}

// event is a kind of event that each tier counts.
type event int

const (
	submitted event = iota
	refused
	completed // completed, failed, cancelled and expired are in the order of endings
	failed
	cancelled
	expired
	retried
	recovered
	events
)

var eventNames = [events]string{"submitted", "refused", "completed", "failed", "cancelled", "expired", "retried",
	"recovered"}

// counts are a tier's events since the last flush.
type counts struct {
	events    [events]atomic.Int64
	wait, run [buckets]atomic.Int64
}

func (c *counts) add(e event) { c.events[e].Add(1) }
