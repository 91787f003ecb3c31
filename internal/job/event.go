package job

import "time"

// Event says that a job came into a status. Events are hints for those who wait and watch: they may be lost, the job
// itself is the truth.
type Event struct {
	ID      ID
	Tier    Tier
	Status  Status // as it is shown: never NEED_DISCARD
	Attempt int    // claims so far
	Cause   Cause  // why it left PROCESSING, if an attempt failed
	At      time.Time
}

// WorkerInfo is one process that runs jobs, as it last described itself.
type WorkerInfo struct {
	Name      string    `json:"name"` // its nonce: what attempts are signed with
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	Slots     int       `json:"slots"`
	Running   int       `json:"running"`
	Stuck     int       `json:"stuck"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"` // Redis' clock

	// Settings are those of its settings that should be alike on all processes, as config.Alike gives them.
	Settings map[string]string `json:"settings,omitempty"`
}
