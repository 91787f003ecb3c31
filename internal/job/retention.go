package job

import "time"

// Kind is what a job's outcome is kept by: its tier and how it ended.
type Kind struct {
	Tier   Tier
	Status Status // Completed, Failed or Cancelled
}

// OldJob names an ended job that is old enough to be deleted from SQL, by its latest generation.
type OldJob struct {
	ID         ID
	Generation int
	Type       string
	RecordedAt time.Time // when SQL got the outcome, by the database's clock

	Callback ID  // the id of the job that tells of this outcome, whether or not there is one
	Rows     int // at most so many of its rows are in one table; 0 = not counted
}

// DeletedRows counts rows by table.
type DeletedRows map[string]int64
