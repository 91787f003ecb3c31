package job

import (
	"math"
	"time"
)

// RateAsk asks a bucket for N requests. A bucket takes Burst requests at once and empties by Rate per second.
type RateAsk struct {
	Bucket string  // the name of the rate; any text, of which the stores see a hash
	Rate   float64 // requests a second, above 0
	Burst  int     // at least 1
	N      int
}

// RateAnswer is the state of a bucket after an ask.
type RateAnswer struct {
	OK        bool          // all N requests were taken; false = none of them
	Remaining int           // requests that the bucket still takes at once
	Reset     time.Duration // until the bucket takes Burst at once again
	RetryIn   time.Duration // if not OK: until N would pass without other asks; Never if N > Burst
}

// Never is the RetryIn of an ask that can never pass.
const Never = time.Duration(math.MaxInt64)
