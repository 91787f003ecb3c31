package sandbox

import (
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Kind is what an event is about.
type Kind string

// The kinds. All but Began, Caption and Done are told right after the call that made them happen, in the order of the
// calls.
const (
	Began        Kind = "began"         // a scenario begins on an empty queue
	Caption      Kind = "caption"       // what to look at now, and the file that has the rule
	JobAccepted  Kind = "job.accepted"  // the submit is in Redis
	JobRefused   Kind = "job.refused"   // it is not, and never will be
	JobScheduled Kind = "job.scheduled" // it waits for its time: a delay, or the backoff of a failure
	QueuePushed  Kind = "queue.pushed"  // it is ready, at its place
	JobClaimed   Kind = "job.claimed"   // a worker has the lease
	LeaseBeat    Kind = "lease.beat"    // a heartbeat moved the deadline
	LeaseExpired Kind = "lease.expired" // a watch saw the deadline passed; it looks again before it acts
	LeaseLost    Kind = "lease.lost"    // a worker showed a lease that is not the stored one: nothing changed
	// taken back, failed with retries left, released, or given a new life: it is ready again
	JobRequeued     Kind = "job.requeued"
	JobCompleted    Kind = "job.completed"    // its result is in the outbox
	JobDead         Kind = "job.dead"         // no retry is left: the dead letter is in the outbox
	JobCancelled    Kind = "job.cancelled"    // cancelled
	JobArchived     Kind = "job.archived"     // the archive has the outcome and Redis knows
	GateChanged     Kind = "gate.changed"     // what the gate knows
	CapacityChanged Kind = "capacity.changed" // how much of the capacity is taken
	Done            Kind = "done"             // the scenario is over
)

// Event is something that happened in a box. Which of the fields below Kind are set depends on it.
type Event struct {
	ID   int64     `json:"id"` // grows by one, over all scenarios of the box
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`

	Job     job.ID   `json:"job,omitempty"`
	Tier    job.Tier `json:"tier,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Worker  string   `json:"worker,omitempty"`

	Script   string   `json:"script,omitempty"` // of lua/, without .lua
	Keys     []string `json:"keys,omitempty"`   // its KEYS, as far as this job is concerned
	Snapshot []State  `json:"snapshot,omitempty"`

	Scenario string    `json:"scenario,omitempty"` // Began, Done
	Note     string    `json:"note,omitempty"`     // for people
	File     string    `json:"file,omitempty"`     // Caption: the file of the repository with the rule
	Error    string    `json:"error,omitempty"`    // Done: why it did not come to its end; "" = it did
	Gate     *Gate     `json:"gate,omitempty"`     // GateChanged
	Capacity *Capacity `json:"capacity,omitempty"` // CapacityChanged
}

// State is what a key held right after the script, at most 20 entries of it.
type State struct {
	Key     string  `json:"key"`
	Type    string  `json:"type"`
	Entries []Entry `json:"entries"`
	More    int     `json:"more,omitempty"` // entries that are not shown
}

// Entry is a field and its value, or a member and its score.
type Entry struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Gate is the gate as it stands.
type Gate struct {
	Open      bool   `json:"open"`
	Failures  int    `json:"failures"`
	Threshold int    `json:"threshold"`
	Reason    string `json:"reason,omitempty"`
}

// Capacity is how full the queue is. Used are the ready jobs that nobody ever claimed, which is what Limit is for;
// Waiting are all ready ones.
type Capacity struct {
	Used    int `json:"used"`
	Limit   int `json:"limit"`
	Waiting int `json:"waiting"`
}

// ringSize is how many events a box keeps.
const ringSize = 1000

// ring keeps the last events of a box and wakes those who wait for more.
type ring struct {
	mu     sync.Mutex
	last   int64
	events []Event
	more   chan struct{} // closed with the next event
	closed bool
}

// newRing makes a ring whose first event comes right behind the id.
func newRing(id int64) *ring { return &ring{last: id, more: make(chan struct{})} }

// add gives an event its id and its time.
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

// lastID is the last that an event was given.
func (r *ring) lastID() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// empty forgets all events; ids go on.
func (r *ring) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = nil
}

// close ends the ring: nothing comes any more.
func (r *ring) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.more)
	}
}

// after is what is kept of the events behind an id, and a channel that closes when there is more. closed: there never
// will be.
func (r *ring) after(id int64) (events []Event, more <-chan struct{}, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := len(r.events) - int(min(max(r.last-id, 0), int64(len(r.events))))
	if id > r.last { // of an earlier box of the same name
		from = 0
	}
	return append([]Event(nil), r.events[from:]...), r.more, r.closed
}
