package queue

import (
	"testing"
	"time"
)

// A quick reading of Redis' clock is preferred to slower ones that agree with it, until the clocks may have drifted
// apart by more than the slower one may be wrong. A reading that shows that the clock was set is used at once.
func TestReading_TheQuickOneStays(t *testing.T) {
	t.Parallel()
	redis, local := time.UnixMilli(1_700_000_000_000), time.Now()
	read := func(later, off, took time.Duration) *reading {
		return &reading{redis: redis.Add(later + off), at: local.Add(later), took: took}
	}
	quick := read(0, 0, time.Millisecond)
	for name, c := range map[string]struct {
		next *reading
		want bool
	}{
		"as quick":           {read(time.Second, 0, time.Millisecond), true},
		"slower":             {read(time.Second, 20*time.Millisecond, 50*time.Millisecond), false},
		"slower, later":      {read(2*time.Minute, 20*time.Millisecond, 50*time.Millisecond), false},
		"after the drift":    {read(3*time.Minute, 20*time.Millisecond, 50*time.Millisecond), true},
		"a little slower":    {read(10*time.Second, 0, 4*time.Millisecond), true},
		"a clock set ahead":  {read(time.Second, 40*time.Millisecond, 50*time.Millisecond), true},
		"a clock set behind": {read(time.Second, -40*time.Millisecond, 50*time.Millisecond), true},
	} {
		if got := c.next.better(quick); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !quick.better(nil) {
		t.Error("the first one")
	}
}
