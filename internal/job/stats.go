package job

import "time"

// Tally counts how the jobs of one tier and type that were accepted in a time window ended. A requeued job counts
// once, by its latest generation. A mean or maximum is 0 if no job contributes to it.
type Tally struct {
	Tier      Tier
	Type      string
	Completed int64
	Failed    int64
	Cancelled int64
	Expired   int64
	MeanRun   time.Duration // of completed jobs: from the latest claim to the end
	MaxRun    time.Duration
	MeanWait  time.Duration // of completed and failed jobs: from arrival to the first claim
}
