package job

import (
	"math"
	"time"
)

// RateAsk asks a bucket for N requests: it takes Burst at once, and empties by Rate a second.
type RateAsk struct {
	Bucket string  // whose rate it is; any text, of which the stores see a hash
	Rate   float64 // requests a second, above 0
	Burst  int     // at least 1
	N      int
}

// RateAnswer is how a bucket stands after an ask.
type RateAnswer struct {
	OK        bool          // the requests were taken; else none of them was
	Remaining int           // requests that it still takes at once
	Reset     time.Duration // until it takes Burst at once again
	RetryIn   time.Duration // not OK: until N would pass, if nobody else asks meanwhile; Never if they are more than Burst
}

// Never is the RetryIn of what does not pass, however long one waits.
const Never = time.Duration(math.MaxInt64)
