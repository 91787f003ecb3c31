package sandbox

import (
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Kind says what an event is about.
type Kind string

// The kinds of events. Every event except Began, Caption and Done is published right after the call that caused
// it, in the order of the calls.
const (
	Began        Kind = "began"         // a scenario begins on an empty queue
	Caption      Kind = "caption"       // what to look at now, and the file with the rule
	JobAccepted  Kind = "job.accepted"  // the submit is in Redis
	JobRefused   Kind = "job.refused"   // the submit is not in Redis, and never will be
	JobScheduled Kind = "job.scheduled" // the job waits for its time: a delay, or the backoff of a failure
	QueuePushed  Kind = "queue.pushed"  // the job is ready, at its place
	JobClaimed   Kind = "job.claimed"   // a worker has the lease
	LeaseBeat    Kind = "lease.beat"    // a heartbeat moved the deadline
	LeaseExpired Kind = "lease.expired" // a watch saw that the deadline has passed; it checks again before it acts
	LeaseLost    Kind = "lease.lost"    // a worker showed a lease that is not the stored one: nothing changed
	// reclaimed, failed with retries left, released, or requeued: the job is ready again
	JobRequeued     Kind = "job.requeued"
	JobCompleted    Kind = "job.completed"    // the result is in the outbox
	JobDead         Kind = "job.dead"         // no retry is left: the dead letter is in the outbox
	JobCancelled    Kind = "job.cancelled"    // the job is cancelled
	JobArchived     Kind = "job.archived"     // the archive has the outcome, and Redis knows that
	GateChanged     Kind = "gate.changed"     // the state of the gate
	CapacityChanged Kind = "capacity.changed" // how much of the capacity is used
	Done            Kind = "done"             // the scenario is over
)

// Event is something that happened in a box. Its Kind decides which other fields are set.
type Event struct {
	ID   int64     `json:"id"` // increases by one, over all scenarios of the box
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`

	Job     job.ID   `json:"job,omitempty"`
	Tier    job.Tier `json:"tier,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Worker  string   `json:"worker,omitempty"`

	Script   string   `json:"script,omitempty"` // the script's file in lua/, without .lua
	Keys     []string `json:"keys,omitempty"`   // the script's KEYS that concern this job
	Snapshot []State  `json:"snapshot,omitempty"`

	Scenario string    `json:"scenario,omitempty"` // Began, Done
	Note     string    `json:"note,omitempty"`     // a text for the viewer
	File     string    `json:"file,omitempty"`     // Caption: the file of the repository with the rule
	Error    string    `json:"error,omitempty"`    // Done: why the scenario stopped early; "" = it ended as it should
	Gate     *Gate     `json:"gate,omitempty"`     // GateChanged
	Capacity *Capacity `json:"capacity,omitempty"` // CapacityChanged
}

// State is the content of a key right after the script, at most 20 entries.
type State struct {
	Key     string  `json:"key"`
	Type    string  `json:"type"`
	Entries []Entry `json:"entries"`
	More    int     `json:"more,omitempty"` // number of entries that are left out
}

// Entry is a field and its value, or a member and its score.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Gate is the state of the gate.
type Gate struct {
	Open      bool   `json:"open"`
	Failures  int    `json:"failures"`
	Threshold int    `json:"threshold"`
	Reason    string `json:"reason,omitempty"`
}

// Capacity says how full the queue is. Used counts the ready jobs that were never claimed, to which Limit applies;
// Waiting counts all ready jobs.
type Capacity struct {
	Used    int `json:"used"`
	Limit   int `json:"limit"`
	Waiting int `json:"waiting"`
}

// ringSize is how many events a box stores.
const ringSize = 1000

// ring stores the last events of a box and wakes readers that wait for more.
type ring struct {
	mu     sync.Mutex
	last   int64
	events []Event
	more   chan struct{} // closed with the next event
	closed bool
}

// newRing makes a ring whose first event gets the id after id.
func newRing(id int64) *ring { return &ring{last: id, more: make(chan struct{})} }

// add stores an event with its id and its time.
func (r *ring) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.last++
	e.ID, e.At = r.last, time.Now().UTC()
	if len(r.events) == ringSize {
		copy(r.events, r.events[1:])
		r.events = r.events[:ringSize-1]
	}
	r.events = append(r.events, e)
	close(r.more)
	r.more = make(chan struct{})
}

// lastID returns the id of the last event.
func (r *ring) lastID() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// empty removes all events; ids go on.
func (r *ring) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

// close ends the ring: no more events are added.
func (r *ring) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.more)
	}
}

// after returns the stored events behind an id, and a channel that closes at the next event. closed says that
// there will be no more.
func (r *ring) after(id int64) (events []Event, more <-chan struct{}, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := len(r.events) - int(min(max(r.last-id, 0), int64(len(r.events))))
	if id > r.last { // the id is of an earlier box of the session
		from = 0
	}
	return append([]Event(nil), r.events[from:]...), r.more, r.closed
}
