package job

import "time"

// InFlight is a running job with its two deadlines, by Redis' clock.
type InFlight struct {
	ID          ID
	Tier        Tier
	Type        string
	Worker      string
	Attempt     int
	StartedAt   time.Time
	HeartbeatBy time.Time
	EndBy       time.Time
	Progress    *Progress // nil = its handler told none
}
