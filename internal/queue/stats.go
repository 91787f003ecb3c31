package queue

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// resolutions are the two kinds of buckets: their length, and how long Redis keeps them.
var resolutions = []struct {
	name       string
	long, keep time.Duration
}{
	{"10s", 10 * time.Second, 15 * time.Minute},
	{"1m", time.Minute, 25 * time.Hour},
}

// statsPipe is the most fields, or buckets, per pipeline.
const statsPipe = 15

// AddStats adds counts to the present buckets of the whole cluster, by Redis' time as this process knows it. It
// deletes each added field from counts, so that a caller can repeat the rest after an error.
func (q *Queue) AddStats(ctx context.Context, counts map[string]int64) error {
	now := q.now()
	fields := make([]string, 0, len(counts))
	for f := range counts {
		fields = append(fields, f)
	}
	for len(fields) > 0 {
		n := min(len(fields), statsPipe)
		_, err := q.redis.Main.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, r := range resolutions {
				key := statsKey(r.name, now.Unix()/int64(r.long/time.Second))
				for _, f := range fields[:n] {
					p.HIncrBy(ctx, key, f, counts[f])
				}
				p.Expire(ctx, key, r.keep+r.long)
			}
			return nil
		})
		if err != nil {
			return classify("add stats", err)
		}
		for _, f := range fields[:n] {
			delete(counts, f) // after an error the caller must not add this field again
		}
		fields = fields[n:]
	}
	return nil
}

// ReadStats sums the buckets of the last window: buckets of 10 s up to 15 minutes, of a minute up to 25 hours.
func (v *View) ReadStats(ctx context.Context, window time.Duration) (map[string]int64, error) {
	r := resolutions[0]
	if window > r.keep {
		r = resolutions[1]
	}
	window = min(max(window, r.long), r.keep)
	last := v.now().Unix() / int64(r.long/time.Second)
	sums := map[string]int64{}
	for first := last - int64(window/r.long) + 1; first <= last; first += statsPipe {
		var buckets []*redis.MapStringStringCmd
		_, err := v.redis.Read.Pipelined(ctx, func(p redis.Pipeliner) error {
			for b := first; b <= min(first+statsPipe-1, last); b++ {
				buckets = append(buckets, p.HGetAll(ctx, statsKey(r.name, b)))
			}
			return nil
		})
		if err != nil {
			return nil, classify("read stats", err)
		}
		for _, b := range buckets {
			for field, text := range b.Val() {
				n, _ := strconv.ParseInt(text, 10, 64)
				sums[field] += n
			}
		}
	}
	return sums, nil
}
