package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// StatsBucket has what all processes together counted within one span of time, in the fields of AddStats.
type StatsBucket struct {
	From   time.Time
	Long   time.Duration
	Counts map[string]int64 // nil = nothing
}

// steps maps the windows of ReadSeries to the length of their buckets: a chart needs no more than 180 points.
var steps = map[time.Duration]time.Duration{
	5 * time.Minute: 10 * time.Second,
	time.Hour:       time.Minute,
	24 * time.Hour:  10 * time.Minute,
}

// ReadSeries returns the last 5 minutes, hour or 24 hours in buckets of 10 s, a minute or 10 minutes, oldest first
// and without gaps. The last bucket is the present one and still grows. Any other window is an error.
func (v *View) ReadSeries(ctx context.Context, window time.Duration) ([]StatsBucket, error) {
	step, known := steps[window]
	if !known {
		return nil, fmt.Errorf("read series: none is kept of %s", window)
	}
	r := resolutions[0]
	if window > r.keep {
		r = resolutions[1]
	}
	merged := int64(step / r.long) // Redis buckets per bucket of the series
	last := v.now().Unix() / int64(r.long/time.Second)
	begin := (last/merged - int64(window/step) + 1) * merged
	series := make([]StatsBucket, window/step)
	for i := range series {
		number := begin + int64(i)*merged
		series[i] = StatsBucket{From: time.Unix(number*int64(r.long/time.Second), 0).UTC(), Long: step}
	}
	for first := begin; first <= last; first += statsPipe {
		var buckets []*redis.MapStringStringCmd
		_, err := v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
			for b := first; b <= min(first+statsPipe-1, last); b++ {
				buckets = append(buckets, p.HGetAll(ctx, statsKey(r.name, b)))
			}
			return nil
		})
		if err != nil {
			return nil, classify("read series", err)
		}
		for i, b := range buckets {
			series[(first+int64(i)-begin)/merged].add(b.Val())
		}
	}
	return series, nil
}

func (b *StatsBucket) add(fields map[string]string) {
	if len(fields) > 0 && b.Counts == nil {
		b.Counts = make(map[string]int64, len(fields))
	}
	for field, text := range fields {
		n, _ := strconv.ParseInt(text, 10, 64)
		b.Counts[field] += n
	}
}
