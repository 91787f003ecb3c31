package job

import "time"

// Tally says how the jobs of one tier and type that were accepted in some window ended. A job that was given a new life
// counts once, as its latest life ended. A mean or maximum is 0 where no job has it.
type Tally struct {
	Tier      Tier
	Type      string
	Completed int64
	Failed    int64
	Cancelled int64
	MeanRun   time.Duration // of the completed: from the latest claim to the end
	MaxRun    time.Duration
	MeanWait  time.Duration // of the completed and the failed: from arrival to the first claim
}
