package queue_test

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// farOff is a time by which a job must be claimed that the test lets pass with the step "lapse". It is no round number:
// the embedded Redis writes those with an exponent, which its Lua does not read.
const farOff = 4_000_000_000_001

func (w *walk) expiry() int64 {
	return rapid.SampledFrom([]int64{0, 0, 0, farOff, farOff, 1}).Draw(w.T, "expires")
}

// lapse makes the time pass by which a waiting job must be claimed, whether the job was claimed or not.
func (w *walk) lapse() {
	j := w.anyJob()
	if j == nil || j.Expires != farOff || j.State.Ended() || j.State == job.Processing {
		return
	}
	j.Expires = 1
	w.e.Edit(w.t, "job", j.ID, func(text string) string {
		return strings.Replace(text, fmt.Sprintf(" exp=%d\n", int64(farOff)), " exp=1\n", 1)
	})
	w.e.Redis.ZAddXX(w.t.Context(), queue.Key(0, "expiries"), redis.Z{Score: 1, Member: string(j.ID)})
}
