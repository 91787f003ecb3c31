package job

import (
	"testing"
	"time"
)

// A job expires at the time that its submit asked for, or MaxWait after it may run if that is earlier.
func TestPlan_Expiry(t *testing.T) {
	t.Parallel()
	due := time.UnixMilli(1_800_000_000_400)
	for _, c := range []struct {
		wait        time.Duration
		asked, want int64
	}{
		{0, 0, 0}, {0, 1_800_000_009_999, 1_800_000_009_999},
		{time.Minute, 0, 1_800_000_061_000},
		{time.Minute + 600*time.Millisecond, 0, 1_800_000_061_000},
		{time.Minute + 601*time.Millisecond, 0, 1_800_000_062_000},
		{time.Minute, 1_800_000_001_234, 1_800_000_001_234},
		{time.Minute, 1_800_000_090_000, 1_800_000_061_000},
	} {
		if got := (Plan{MaxWait: c.wait}).Expiry(c.asked, due); got != c.want {
			t.Errorf("%s, asked %d: %d, not %d", c.wait, c.asked, got, c.want)
		}
	}
}
