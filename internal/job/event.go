package job

import "time"

// Event reports that a job entered a status. Events are hints for waiting callers and displays: an event may be
// lost, and the job itself is authoritative.
type Event struct {
	ID      ID
	Tier    Tier
	Status  Status // as shown to users: never NEED_DISCARD
	Attempt int    // claims so far
	Cause   Cause  // why the job left PROCESSING, if an attempt failed
	At      time.Time
}

// WorkerInfo is one process that runs jobs, by its own last report.
type WorkerInfo struct {
	Name      string    `json:"name"` // the process' nonce, which the histories of attempts name
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	Slots     int       `json:"slots"`
	Running   int       `json:"running"`
	Stuck     int       `json:"stuck"`
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"` // Redis' clock
	Queues    []string  `json:"queues"` // from which it claims; none = main, of a process of an earlier version

	// Settings has those of the process' settings that should be equal on all processes, from config.Alike.
	Settings map[string]string `json:"settings,omitempty"`
}
