package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierq/tierq/internal/job"
)

func TestBuckets(t *testing.T) {
	if len(bounds) != buckets {
		t.Fatalf("%d bounds, %d buckets", len(bounds), buckets)
	}
	for _, tc := range []struct {
		d    time.Duration
		want int
	}{
		{-time.Second, 0}, {0, 0}, {time.Millisecond - 1, 0}, {time.Millisecond, 1}, {2*time.Millisecond - 1, 4},
		{2 * time.Millisecond, 5},
		{4 * time.Millisecond, 9}, {1024 * time.Millisecond, 41}, {2 * time.Hour, 92}, {1000 * time.Hour, 92},
	} {
		if got := bucketOf(tc.d); got != tc.want {
			t.Errorf("%s is in bucket %d, want %d", tc.d, got, tc.want)
		}
	}
	worst := math.Exp2(1.0/8) - 1
	for range 10_000 {
		d := time.Duration(float64(time.Millisecond) * math.Exp2(rand.Float64()*math.Log2(7_200_000)))
		if off := math.Abs(float64(middle(bucketOf(d)))/float64(d) - 1); off > worst+1e-6 {
			t.Fatalf("%s is read back as %s: off by %.4f", d, middle(bucketOf(d)), off)
		}
	}
}

func TestSummary(t *testing.T) {
	got := Summary(map[string]int64{
		"PAID:submitted": 120, "PAID:refused": 1, "PAID:completed": 50, "PAID:failed": 6, "PAID:cancelled": 4,
		"PAID:retried":   7,
		"PAID:recovered": 8,
		"PAID:wait:1":    50, "PAID:wait:41": 45, "PAID:wait:92": 5, "PAID:run:0": 1,
		"PUBLIC:run:5":      1,
		"PUBLIC:submitted ": 1, "PUBLIC:wait:93": 1, "PUBLIC:wait:-1": 1, "PUBLIC:wait:x": 1, "PUBLIC:walk:1": 1,
		"PUBLIC:failed": -3,
		"":              1, "x": 2, "::": 3,
	}, time.Minute)
	ms := func(b float64) time.Duration { return time.Duration(math.Exp2((b-0.5)/4) * float64(time.Millisecond)) }
	want := map[job.Tier]TierStats{
		job.Paid: {
			SubmittedPerSecond: 2, FinishedPerSecond: 1,
			Submitted: 120, Refused: 1, Completed: 50, Failed: 6, Cancelled: 4, Retried: 7, Recovered: 8,
			Wait: Percentiles{P50: ms(1), P95: ms(41), P99: ms(92)},
			Run:  Percentiles{P50: time.Millisecond / 2, P95: time.Millisecond / 2, P99: time.Millisecond / 2},
		},
		job.Public: {Run: Percentiles{P50: ms(5), P95: ms(5), P99: ms(5)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Summary(nil, 0); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// For any durations the percentiles are within the promised error of the exact ones.
func TestPercentilesAreWithinTheirError(t *testing.T) {
	for range 50 {
		n := 1 + rand.IntN(2000)
		var exact []time.Duration
		fields := map[string]int64{}
		for range n {
			d := time.Duration(float64(time.Millisecond) * math.Exp2(rand.Float64()*20))
			exact = append(exact, d)
			fields["PAID:run:"+strconv.Itoa(bucketOf(d))]++
		}
		slices.Sort(exact)
		got := Summary(fields, time.Minute)[job.Paid].Run
		for share, p := range map[float64]time.Duration{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
			want := exact[int(math.Ceil(share*float64(n)))-1]
			if off := math.Abs(float64(p)/float64(want) - 1); off > 0.0906 {
				t.Fatalf("p%v of %d is %s, exactly %s: off by %.4f", share, n, p, want, off)
			}
		}
	}
}
