package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// NewBatch is a batch to make: a group of jobs with at most one job at the end.
type NewBatch struct {
	Name        string // one line, for people
	Tier        Tier   // of the job at the end, unless Then names one; "" = UNPAID
	Then        *Then  // nil = no job
	CallbackURL string // gets a signed POST at the end of each round
	// Jobs are the first members, at most 1,000: the server takes the batch with all of them, or not at all.
	Jobs   []BatchJob
	Sealed bool // the batch takes no other members
	// IdempotencyKey makes the call idempotent as long as the server keeps the batch; "" = a random key, which protects
	// against lost answers only.
	IdempotencyKey string
}

// BatchJob is a job that comes with the call that makes its batch. Of the Submission, Unique, BatchID and
// IdempotencyKey must be empty.
type BatchJob struct {
	Submission
	Tier Tier // "" = the batch's
}

// ThenOn says at the end of which rounds the then job of a batch runs.
type ThenOn string

// The values of ThenOn.
const (
	ThenFinished  ThenOn = "finished"  // at the end of every round; the default
	ThenSucceeded ThenOn = "succeeded" // only if all members are COMPLETED
)

// Then is the job that runs when all members of a batch have ended. If its type takes a member batch in its payload, it
// gets the counts there.
type Then struct {
	Type       string
	Payload    any
	Tier       Tier // "" = the batch's
	Queue      string
	MaxRetries *int   // nil = the tier's
	On         ThenOn // "" = ThenFinished
}

// BatchState says how a batch stands.
type BatchState string

// The states of a batch.
const (
	BatchOpen     BatchState = "OPEN"     // it takes members
	BatchRunning  BatchState = "RUNNING"  // it is sealed, and members live
	BatchStuck    BatchState = "STUCK"    // no member lives, and the then job waits for members that failed
	BatchFinished BatchState = "FINISHED" // no member lives
)

// Batch is a batch as the server has it.
type Batch struct {
	BatchID     string     `json:"batchId"`
	Name        string     `json:"name"`
	Owner       string     `json:"owner,omitempty"` // the id of the API key that made it; operators see it
	Tier        Tier       `json:"tier"`
	State       BatchState `json:"state"`
	Round       int        `json:"round"` // a requeue of a failed member after the end begins the next one
	Sealed      bool       `json:"sealed"`
	Total       int64      `json:"total"`
	Living      int64      `json:"living"`
	Completed   int64      `json:"completed"`
	Failed      int64      `json:"failed"`
	Cancelled   int64      `json:"cancelled"`
	Expired     int64      `json:"expired"`
	Progress    float64    `json:"progress"`            // the part of the members that has ended, 0 to 1
	ThenJobID   string     `json:"thenJobId,omitempty"` // of this round; "" until it is owed
	CallbackURL string     `json:"callbackUrl,omitempty"`
	CreatedAt   time.Time  `json:"createdAt"`
	EndedAt     time.Time  `json:"endedAt,omitzero"`
	CancelledAt time.Time  `json:"cancelledAt,omitzero"` // when a cancel of it was first asked for

	// Jobs are the ids of the jobs that came with CreateBatch, in their order; only CreateBatch returns them.
	Jobs []string `json:"jobs,omitempty"`

	Raw json.RawMessage `json:"-"` // the whole answer; none in a list
}

// BatchMember is a job of a batch.
type BatchMember struct {
	JobID      string    `json:"jobId"`
	Status     string    `json:"status"` // LIVING, or how it ended; LOST if the server has the job no more
	Generation int       `json:"generation"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
}

// BatchCancelled says what a cancel of a batch did.
type BatchCancelled struct {
	BatchID   string `json:"batchId"`
	Cancelled int    `json:"cancelled"` // members that waited
	Asked     int    `json:"asked"`     // members that run, and are asked to stop
}

// BatchError says that a batch did not finish as it was to.
type BatchError struct{ Batch Batch }

func (e *BatchError) Error() string {
	return fmt.Sprintf("batch %s is %s: %d failed, %d cancelled, %d expired", e.Batch.BatchID, e.Batch.State,
		e.Batch.Failed, e.Batch.Cancelled, e.Batch.Expired)
}

const batchesPath = "api/batches"

// InBatch makes the job a member of an open batch: see NewBatch. It excludes a unique key.
func InBatch(batchID string) SubmitOption { return func(s *Submission) { s.BatchID = batchID } }

// CreateBatch makes a batch, with its first members if it has any. Its errors are those of SubmitJob; Error.Fields name
// the job, as jobs.<place>.
func (c *Client) CreateBatch(ctx context.Context, b NewBatch) (Batch, error) {
	body, err := b.encode()
	if err != nil {
		return Batch{}, fmt.Errorf("create batch: %w", err)
	}
	return c.createBatch(ctx, body, b.IdempotencyKey)
}

// CreateBatchJSON is CreateBatch for the body of a request, as POST /api/batches takes it.
func (c *Client) CreateBatchJSON(ctx context.Context, body json.RawMessage, idempotencyKey string) (Batch, error) {
	if !json.Valid(body) {
		return Batch{}, fmt.Errorf("create batch: %w: it is no JSON", ErrInvalid)
	}
	return c.createBatch(ctx, body, idempotencyKey)
}

func (c *Client) createBatch(ctx context.Context, body []byte, key string) (Batch, error) {
	own := Submission{IdempotencyKey: key}
	if _, err := own.encode(""); err != nil {
		return Batch{}, fmt.Errorf("create batch: %w", err)
	}
	return c.batch(ctx, call{verb: "create batch", method: http.MethodPost, path: batchesPath, body: body, key: own.key(),
		changes: true})
}

// encode returns the body of the request that makes the batch.
func (b *NewBatch) encode() ([]byte, error) {
	type then struct {
		Type       string `json:"type"`
		Payload    any    `json:"payload,omitempty"`
		Tier       Tier   `json:"tier,omitempty"`
		Queue      string `json:"queue,omitempty"`
		MaxRetries *int   `json:"maxRetries,omitempty"`
		On         ThenOn `json:"on,omitempty"`
	}
	asked := struct {
		Name        string           `json:"name"`
		Tier        Tier             `json:"tier,omitempty"`
		CallbackURL string           `json:"callbackUrl,omitempty"`
		Then        *then            `json:"then,omitempty"`
		Jobs        []map[string]any `json:"jobs,omitempty"`
		Sealed      bool             `json:"sealed,omitempty"`
	}{Name: b.Name, Tier: b.Tier, CallbackURL: b.CallbackURL, Sealed: b.Sealed}
	if b.Then != nil {
		t := then(*b.Then)
		asked.Then = &t
	}
	for i := range b.Jobs {
		j := &b.Jobs[i]
		if j.Unique != nil || j.BatchID != "" || j.IdempotencyKey != "" {
			return nil, fmt.Errorf("job %d: a job of a new batch has no unique key, no batch and no key of its own", i)
		}
		said, err := j.members(j.Tier)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		if j.TraceID != "" {
			said["traceId"] = j.TraceID
		}
		asked.Jobs = append(asked.Jobs, said)
	}
	return json.Marshal(asked)
}

func (c *Client) batch(ctx context.Context, k call) (Batch, error) {
	b, a, err := fetch[Batch](ctx, c, k)
	b.Raw = a.body
	return b, err
}

// SubmitTo submits a job as a member of a batch. Its errors are those of SubmitJob, ErrNotFound if there is no such
// batch, and ErrSealed if it takes no more members.
func (c *Client) SubmitTo(ctx context.Context, batchID string, tier Tier, s Submission) (Submitted, error) {
	s.BatchID = batchID
	return c.SubmitJob(ctx, tier, s)
}

// Batch returns a batch. It returns ErrNotFound if there is no such batch, or it is another caller's.
func (c *Client) Batch(ctx context.Context, batchID string) (Batch, error) {
	if err := checkID(batchID); err != nil {
		return Batch{}, fmt.Errorf("batch: %w", err)
	}
	return c.batch(ctx, call{verb: "batch", method: http.MethodGet, path: batchesPath + "/" + batchID})
}

// SealBatch ends the adding of members. A repeat changes nothing.
func (c *Client) SealBatch(ctx context.Context, batchID string) (Batch, error) {
	if err := checkID(batchID); err != nil {
		return Batch{}, fmt.Errorf("seal batch: %w", err)
	}
	return c.batch(ctx, call{verb: "seal batch", method: http.MethodPost, path: batchesPath + "/" + batchID + "/seal",
		changes: true})
}

// WaitBatch returns a sealed batch when no member lives. If it is STUCK then, the error is a *BatchError. It asks again
// and again, every two seconds at most.
func (c *Client) WaitBatch(ctx context.Context, batchID string) (Batch, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		b, err := c.Batch(ctx, batchID)
		switch {
		case err != nil || b.State == BatchFinished:
			return b, err
		case b.State == BatchStuck:
			return b, fmt.Errorf("wait: %w", &BatchError{b})
		}
		select {
		case <-ctx.Done():
			return b, fmt.Errorf("wait: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
}

// CancelBatch seals a batch and cancels its members that live: those that wait end, those that run are asked to stop. A
// repeat ends the others.
func (c *Client) CancelBatch(ctx context.Context, batchID string) (done BatchCancelled, err error) {
	if err := checkID(batchID); err != nil {
		return done, fmt.Errorf("cancel batch: %w", err)
	}
	done.BatchID = batchID
	for cursor := ""; ; {
		q := url.Values{}
		set(q, "cursor", cursor)
		page, _, err := fetch[struct {
			BatchCancelled
			Next string `json:"next"`
		}](ctx, c, call{verb: "cancel batch", method: http.MethodPost, path: batchesPath + "/" + batchID + "/cancel",
			query: q, changes: true})
		if err != nil {
			return done, err
		}
		done.Cancelled, done.Asked = done.Cancelled+page.Cancelled, done.Asked+page.Asked
		if cursor = page.Next; cursor == "" {
			return done, nil
		}
	}
}

// BatchesPage is a page of batches.
type BatchesPage struct {
	Items []Batch `json:"items"`
	Next  string  `json:"next,omitempty"` // the cursor of the next page; "" at the end
}

// Batches returns a page of the caller's own batches, or with an operator's key of all, the latest first. cursor is ""
// or the Next of the page before.
func (c *Client) Batches(ctx context.Context, cursor string, limit int) (BatchesPage, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	set(q, "cursor", cursor)
	p, _, err := fetch[BatchesPage](ctx, c, call{verb: "batches", method: http.MethodGet, path: batchesPath, query: q})
	return p, err
}

// MembersPage is a page of a batch's members.
type MembersPage struct {
	Items []BatchMember `json:"items"`
	Next  string        `json:"next,omitempty"` // the cursor of the next page; "" at the end
}

// BatchMembers returns a page of the members of a batch. status is LIVING, a status that jobs end with, LOST, or "" for
// all; cursor is "" or the Next of the page before.
func (c *Client) BatchMembers(ctx context.Context, batchID, status, cursor string, limit int) (MembersPage, error) {
	if err := checkID(batchID); err != nil {
		return MembersPage{}, fmt.Errorf("batch members: %w", err)
	}
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	set(q, "status", status)
	set(q, "cursor", cursor)
	p, _, err := fetch[MembersPage](ctx, c, call{verb: "batch members", method: http.MethodGet,
		path: batchesPath + "/" + batchID + "/members", query: q})
	return p, err
}
