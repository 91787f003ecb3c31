package job

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Batch is a group of jobs, its members, with at most one job at the end: its then job. A batch is open until it is
// sealed; only an open batch takes members. A round of the batch ends when the batch is sealed and no member lives.
// A requeue of a failed member after that begins the next round. SQL has batches and their members, and counts the
// members.
type Batch struct {
	ID    ID
	Name  string
	Owner string // the id of the API key that made the batch; "" = anonymous
	Tier  Tier   // of the callback's job, and of the then job unless Then names another
	BatchSpec

	Sealed bool
	// Total counts the members. The others count those of them that ended, by how they ended.
	Total, Completed, Failed, Cancelled, Expired int64
	Round                                        int // 1 at first
	EndedRound                                   int // the last round that ended; 0 = none

	CreatedAt   time.Time // times are by SQL's clock
	EndedAt     time.Time // when the last round ended; the zero time while a round is under way
	CancelledAt time.Time // when somebody asked to cancel the batch; the zero time = nobody did
}

// BatchSpec is what a batch owes at the end of a round. It never changes.
type BatchSpec struct {
	Then        *Then  `json:"then,omitempty"`        // nil = no job
	CallbackURL string `json:"callbackUrl,omitempty"` // gets a request at the end of each round; "" = none
	From        string `json:"from,omitempty"`        // see Options.From
	TraceID     string `json:"traceId,omitempty"`
}

// Then is the job that a batch owes at the end of a round.
type Then struct {
	Type       string          `json:"type"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	Tier       Tier            `json:"tier"`
	Queue      string          `json:"queue,omitempty"` // "" = main
	MaxRunMs   int64           `json:"maxRunMs,omitempty"`
	MaxRetries int             `json:"maxRetries"`
	On         ThenOn          `json:"on"`
	Counts     bool            `json:"counts,omitempty"` // the payload gets the member batch, see BatchCounts
}

// ThenOn says at the end of which rounds the then job is owed.
type ThenOn string

const (
	ThenFinished  ThenOn = "finished"  // of every round
	ThenSucceeded ThenOn = "succeeded" // of a round at whose end all members are COMPLETED
)

// BatchState is the state of a batch.
type BatchState string

// The states of a batch.
const (
	BatchOpen     BatchState = "OPEN"     // it takes members
	BatchRunning  BatchState = "RUNNING"  // it is sealed, and members live
	BatchStuck    BatchState = "STUCK"    // no member lives, and the then job waits for requeues of failed members
	BatchFinished BatchState = "FINISHED" // no member lives, and what it owes is owed
)

// BatchStates are all states of a batch.
var BatchStates = []BatchState{BatchOpen, BatchRunning, BatchStuck, BatchFinished}

// MemberLost is the status of a member whose job neither store has any more: only an edit by hand takes a job away.
// The batch counts the member as failed.
const MemberLost Status = "LOST"

// BatchMember is a job of a batch. Status is "" while the job lives.
type BatchMember struct {
	ID         ID
	Generation int
	Status     Status
	EndedAt    time.Time
}

// Ended returns how many members have ended.
func (b *Batch) Ended() int64 { return b.Completed + b.Failed + b.Cancelled + b.Expired }

// State returns the batch's state.
func (b *Batch) State() BatchState {
	switch {
	case !b.Sealed:
		return BatchOpen
	case b.EndedRound < b.Round:
		return BatchRunning
	case b.Then != nil && b.Then.On == ThenSucceeded && b.Completed < b.Total:
		return BatchStuck
	}
	return BatchFinished
}

// BatchCounts is what the then job of a batch learns of the round that ended.
type BatchCounts struct {
	BatchID   ID     `json:"batchId"`
	Name      string `json:"name"`
	Round     int    `json:"round"`
	Total     int64  `json:"total"`
	Completed int64  `json:"completed"`
	Failed    int64  `json:"failed"`
	Cancelled int64  `json:"cancelled"`
	Expired   int64  `json:"expired"`
}

// Counts returns the counts of the present round.
func (b *Batch) Counts() BatchCounts {
	return BatchCounts{b.ID, b.Name, b.Round, b.Total, b.Completed, b.Failed, b.Cancelled, b.Expired}
}

// ThenJob returns the then job of the round that has just ended; false if the round owes none. The same round of the
// same batch gives the same id.
func (b *Batch) ThenJob() (Job, bool) {
	t := b.Then
	if t == nil || b.State() != BatchFinished {
		return Job{}, false
	}
	return Job{
		ID: b.OwedID("then"), Generation: 1, Tier: t.Tier, Type: t.Type, Owner: b.Owner, TraceID: b.TraceID,
		Payload: t.payload(b), MaxRetries: t.MaxRetries,
		Options: Options{Queue: t.Queue, MaxRunMs: t.MaxRunMs, From: b.From, ThenOf: string(b.ID)},
	}, true
}

// payload returns the payload of the then job: that of the batch's maker and, if the type takes it, a member batch.
func (t *Then) payload(b *Batch) []byte {
	if !t.Counts {
		return t.Payload
	}
	merged, err := MergeCounts(t.Payload, b.Counts())
	if err != nil { // the payload was an object when the batch was made
		return t.Payload
	}
	return merged
}

// MergeCounts returns a payload with the member batch. The payload is a JSON object, null or nothing.
func MergeCounts(payload []byte, counts BatchCounts) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if len(payload) > 0 {
		if err := json.Unmarshal(payload, &members); err != nil {
			return nil, err
		}
	}
	if members == nil { // the payload is null
		members = map[string]json.RawMessage{}
	}
	text, err := json.Marshal(counts)
	if err != nil {
		return nil, err
	}
	members["batch"] = text
	return json.Marshal(members)
}

// OwedID returns the id of a job that the batch owes at the end of its present round: a UUIDv7 with the time and the
// partition of the batch's id. Its other bits are a hash of the batch, the round and what the job is for.
func (b *Batch) OwedID(what string) ID {
	var u [16]byte
	_, _ = hex.Decode(u[:], []byte(strings.ReplaceAll(string(b.ID), "-", ""))) // cannot fail: the id is a UUID
	sum := sha256.Sum256([]byte("batch " + what + " " + string(b.ID) + " " + strconv.Itoa(b.Round)))
	copy(u[6:15], sum[:])
	return UUIDv7(u)
}

// BatchCancel is what one cancel of a batch did.
type BatchCancel struct {
	Batch     Batch  // as it was before its members ended
	Cancelled int    // members that waited, and are cancelled
	Asked     int    // members that run, and are asked to stop
	Next      string // where the next cancel goes on; "" = all members that live were asked
}
