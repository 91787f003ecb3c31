package job

import "time"

// Kind is the pair of tier and outcome that decides how long a job's rows are kept.
type Kind struct {
	Tier   Tier
	Status Status // Completed, Failed or Cancelled
}

// OldJob is an ended job that is old enough to be deleted from SQL, with its latest generation.
type OldJob struct {
	ID         ID
	Generation int
	Type       string
	RecordedAt time.Time // when SQL got the outcome, by the database's clock

	Callback ID  // the id of the job that reports this outcome to a callback URL, whether or not it exists
	Rows     int // the most rows that it has in one table; 0 = not counted
}

// DeletedRows counts rows by table.
type DeletedRows map[string]int64
