package handlers

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// batchEvent is the body that a batch's callback URL receives when a round of the batch has ended.
type batchEvent struct {
	Type      string         `json:"type"`      // batch.finished or batch.stuck
	Timestamp string         `json:"timestamp"` // when the round ended
	Data      batchEventData `json:"data"`
}

type batchEventData struct {
	job.BatchCounts
	State     job.BatchState `json:"state"` // FINISHED or STUCK
	CreatedAt *string        `json:"createdAt"`
	EndedAt   *string        `json:"endedAt"`
	Owner     *string        `json:"owner"`
}

// BatchCallback returns the CALLBACK job that reports the end of a batch's round to b.CallbackURL. It runs in the
// batch's tier, and has the batch's owner. The same round gives the same job. The message's id is <batch id>_<round>.
func BatchCallback(b *job.Batch) job.Job {
	e := batchEvent{Type: "batch.finished", Data: batchEventData{
		BatchCounts: b.Counts(), State: b.State(), CreatedAt: stamp(b.CreatedAt), EndedAt: stamp(b.EndedAt),
		Owner: orNull(b.Owner),
	}}
	if b.State() == job.BatchStuck {
		e.Type = "batch.stuck"
	}
	ended := b.EndedAt
	if ended.IsZero() {
		ended = time.Unix(0, 0)
	}
	e.Timestamp = *stamp(ended)
	text, _ := json.Marshal(e) // cannot fail: all members are plain
	payload, _ := json.Marshal(calling{ID: fmt.Sprintf("%s_%d", b.ID, b.Round), URL: b.CallbackURL, Event: text})
	return job.Job{
		ID: b.OwedID("callback"), Generation: 1, Tier: b.Tier, Type: job.CallbackType, Payload: payload,
		MaxRetries: callbackRetries, Owner: b.Owner, TraceID: b.TraceID, Options: job.Options{From: b.From},
	}
}
