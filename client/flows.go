package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// OnFailure is the fate of a job of a flow after a job that it waits for has failed, expired or been cancelled.
type OnFailure string

// The values of OnFailure.
const (
	FlowCancels OnFailure = "cancel" // it ends CANCELLED at once, and so on down; the default
	FlowRuns    OnFailure = "run"    // it runs once all have ended, and sees which failed
	FlowWaits   OnFailure = "wait"   // it waits on, until the failed one was requeued and has completed
)

// FlowJob is a job of a flow to submit. Of the Submission, BatchID, IdempotencyKey and TraceID must be empty. Delay and
// ExpiresIn count from the end of the last job that it waits for. A Unique key counts among the jobs of flows, with
// WhileWaiting or WhileLiving and OnAfter: the job waits until the holder of the key has ended.
type FlowJob struct {
	Submission
	Tier      Tier      // "" = UNPAID
	After     []string  // the names of the jobs that it waits for; "split/*" is split and all that are named below it
	OnFailure OnFailure // "" = FlowCancels
}

// NewFlow is a flow to submit: up to 1,000 jobs by name.
type NewFlow struct {
	Name string // for people; "" = none
	Jobs map[string]FlowJob
	// IdempotencyKey makes the submit idempotent as long as the server keeps the flow; "" = a random key, which protects
	// against lost answers only.
	IdempotencyKey string
	TraceID        string // of all its jobs; "" = the server makes one
}

// FlowState says how a flow stands as a whole.
type FlowState string

// The states of a flow.
const (
	FlowRunning   FlowState = "RUNNING"
	FlowStuck     FlowState = "STUCK"     // all that is left waits for a failed job to be requeued
	FlowCompleted FlowState = "COMPLETED" // all jobs are
	FlowFailed    FlowState = "FAILED"    // all jobs have ended, and one is FAILED or EXPIRED
	FlowCancelled FlowState = "CANCELLED" // all jobs have ended, and one is CANCELLED
)

// Flow is a flow as the server has it.
type Flow struct {
	FlowID          string        `json:"flowId"`
	Name            string        `json:"name"`
	State           FlowState     `json:"state"`
	CancelRequested bool          `json:"cancelRequested"`
	CreatedAt       time.Time     `json:"createdAt"`
	EndedAt         time.Time     `json:"endedAt,omitzero"` // when its last job's end was recorded
	TraceID         string        `json:"traceId,omitempty"`
	Counts          FlowCounts    `json:"counts"`
	Jobs            []FlowJobInfo `json:"jobs,omitempty"` // none in a list

	Raw json.RawMessage `json:"-"` // the whole answer; none in a list
}

// FlowCounts counts the jobs of a flow by how they stand. Living jobs wait in a queue or run.
type FlowCounts struct {
	Waiting   int `json:"waiting"`
	Living    int `json:"living"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	Expired   int `json:"expired"`
}

// FlowJobInfo is a job of a flow as the server has it.
type FlowJobInfo struct {
	Name         string    `json:"name"`
	JobID        string    `json:"jobId"`
	Status       Status    `json:"status"`
	Tier         Tier      `json:"tier"`
	Type         string    `json:"type"`
	Queue        string    `json:"queue"`
	Generation   int       `json:"generation"`
	After        []string  `json:"after"`
	OnFailure    OnFailure `json:"onFailure"`
	FailureCause string    `json:"failureCause,omitempty"` // DEPENDENCY_FAILED of a job that its flow cancelled
}

// FlowAccepted is an accepted flow.
type FlowAccepted struct {
	FlowID   string            `json:"flowId"`
	Jobs     map[string]string `json:"jobs"` // the ids of the jobs, by name
	Replayed bool              `json:"-"`    // the IdempotencyKey was known: this is its first flow
}

// FlowError says that a flow did not complete.
type FlowError struct{ Flow Flow }

func (e *FlowError) Error() string {
	return fmt.Sprintf("flow %s is %s", e.Flow.FlowID, e.Flow.State)
}

const flowsPath = "api/flows"

// SubmitFlow submits a flow: the server accepts all of it, or nothing. Its errors are those of SubmitJob; Error.Fields
// name the job, as jobs.<name>.
func (c *Client) SubmitFlow(ctx context.Context, f NewFlow) (FlowAccepted, error) {
	body, err := f.encode()
	if err != nil {
		return FlowAccepted{}, fmt.Errorf("submit flow: %w", err)
	}
	return c.submitFlow(ctx, body, Submission{IdempotencyKey: f.IdempotencyKey, TraceID: f.TraceID})
}

// SubmitFlowJSON is SubmitFlow for the body of a request, as POST /api/flows takes it.
func (c *Client) SubmitFlowJSON(ctx context.Context, body json.RawMessage, idempotencyKey string) (
	FlowAccepted, error,
) {
	if !json.Valid(body) {
		return FlowAccepted{}, fmt.Errorf("submit flow: %w: it is no JSON", ErrInvalid)
	}
	return c.submitFlow(ctx, body, Submission{IdempotencyKey: idempotencyKey})
}

func (c *Client) submitFlow(ctx context.Context, body []byte, own Submission) (FlowAccepted, error) {
	if _, err := own.encode(""); err != nil {
		return FlowAccepted{}, fmt.Errorf("submit flow: %w", err)
	}
	got, a, err := fetch[FlowAccepted](ctx, c, call{
		verb: "submit flow", method: http.MethodPost, path: flowsPath, header: own.headers(), body: body, key: own.key(),
		changes: true,
	})
	got.Replayed = err == nil && a.header.Get("Idempotency-Replayed") == "true"
	return got, err
}

func (f *NewFlow) encode() ([]byte, error) {
	jobs := make(map[string]map[string]any, len(f.Jobs))
	for name, j := range f.Jobs {
		if j.BatchID != "" || j.IdempotencyKey != "" || j.TraceID != "" {
			return nil, fmt.Errorf("job %s: a job of a flow has no batch, no key and no trace of its own", name)
		}
		one, err := j.members(j.Tier)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", name, err)
		}
		if len(j.After) > 0 {
			one["after"] = j.After
		}
		if j.OnFailure != "" {
			one["onFailure"] = j.OnFailure
		}
		jobs[name] = one
	}
	if len(jobs) == 0 {
		return nil, errors.New("a flow has at least one job")
	}
	return json.Marshal(struct {
		Name string                    `json:"name,omitempty"`
		Jobs map[string]map[string]any `json:"jobs"`
	}{f.Name, jobs})
}

// Flow returns a flow with its jobs. It returns ErrNotFound if there is no such flow, or it is another caller's.
func (c *Client) Flow(ctx context.Context, flowID string) (Flow, error) {
	if err := checkID(flowID); err != nil {
		return Flow{}, fmt.Errorf("flow: %w", err)
	}
	f, a, err := fetch[Flow](ctx, c, call{verb: "flow", method: http.MethodGet, path: flowsPath + "/" + flowID})
	f.Raw = a.body
	return f, err
}

// WaitFlow returns a flow when all its jobs are COMPLETED. If it ends otherwise, or is STUCK, the error is a
// *FlowError. It asks again and again, every two seconds at most.
func (c *Client) WaitFlow(ctx context.Context, flowID string) (Flow, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		f, err := c.Flow(ctx, flowID)
		switch {
		case err != nil:
			return f, err
		case f.State == FlowCompleted:
			return f, nil
		case f.State != FlowRunning:
			return f, fmt.Errorf("wait: %w", &FlowError{f})
		}
		select {
		case <-ctx.Done():
			return f, fmt.Errorf("wait: %w", ctx.Err())
		case <-time.After(pause):
		}
	}
}

// FlowFilter selects flows; an empty field selects all.
type FlowFilter struct {
	State FlowState
	JobID string // the flow of this job
}

// FlowsPage is a page of flows.
type FlowsPage struct {
	Items []Flow `json:"items"`
	Next  string `json:"next,omitempty"` // the cursor of the next page; "" at the end
}

// Flows returns a page of the caller's own flows, or with an operator's key of all, the latest first. cursor is "" or
// the Next of the page before.
func (c *Client) Flows(ctx context.Context, f FlowFilter, cursor string, limit int) (FlowsPage, error) {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	set(q, "state", string(f.State))
	set(q, "jobId", f.JobID)
	set(q, "cursor", cursor)
	p, _, err := fetch[FlowsPage](ctx, c, call{verb: "flows", method: http.MethodGet, path: flowsPath, query: q})
	return p, err
}

// AllFlows returns all flows that f selects, page by page.
func (c *Client) AllFlows(ctx context.Context, f FlowFilter) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) {
		for cursor := ""; ; {
			p, err := c.Flows(ctx, f, cursor, 100)
			if err == nil && p.Next == cursor && p.Next != "" {
				err = errors.New("client: the server answers the same cursor again: the list would not end")
			}
			if err != nil {
				yield(Flow{}, err)
				return
			}
			for _, one := range p.Items {
				if !yield(one, nil) {
					return
				}
			}
			if cursor = p.Next; cursor == "" {
				return
			}
		}
	}
}

// CancelFlow cancels all jobs of a flow that have not ended, and returns the flow without its jobs. Running jobs are
// asked to stop. reason is one line of at most 500 characters; "" = none. A repeat ends the others.
func (c *Client) CancelFlow(ctx context.Context, flowID, reason string) (Flow, error) {
	if err := checkID(flowID); err != nil {
		return Flow{}, fmt.Errorf("cancel flow: %w", err)
	}
	body, err := because(reason)
	if err != nil {
		return Flow{}, fmt.Errorf("cancel flow: %w", err)
	}
	f, a, err := fetch[Flow](ctx, c, call{
		verb: "cancel flow", method: http.MethodPost, path: flowsPath + "/" + flowID + "/cancel", body: body, changes: true,
	})
	f.Raw = a.body
	return f, err
}

// RequeueCascade is RequeueBecause for a job of a flow: the jobs that were cancelled because of it wait again, too.
func (c *Client) RequeueCascade(ctx context.Context, jobID, reason string) error {
	k, err := jobCall("requeue", http.MethodPost, "jobs/", jobID, "/retry")
	if err != nil {
		return err
	}
	k.changes, k.key = true, (&Submission{}).key()
	k.body, err = json.Marshal(struct {
		Reason  string `json:"reason,omitempty"`
		Cascade bool   `json:"cascade"`
	}{reason, true})
	if err != nil {
		return fmt.Errorf("requeue: %w", err)
	}
	_, err = c.do(ctx, k)
	return err
}
