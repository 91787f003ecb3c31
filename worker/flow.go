package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Input is what a job of a flow left behind, for a job that waited for it.
type Input struct {
	Name         string          `json:"name"`
	JobID        string          `json:"jobId"`
	Status       string          `json:"status"` // COMPLETED, FAILED, CANCELLED or EXPIRED
	Result       json.RawMessage `json:"result"` // nil unless COMPLETED, and if it is TooLarge
	FailureCause string          `json:"failureCause"`
	LastError    string          `json:"lastError"`
	TooLarge     bool            `json:"tooLarge"` // Inputs leaves out results above 1 KiB: InputOf has them
}

// FlowJob is a job to add to a flow. Its fields are those of POST /jobs.
type FlowJob struct {
	Type                 string    `json:"type,omitempty"`
	Payload              any       `json:"payload,omitempty"`
	Tier                 string    `json:"tier,omitempty"` // "" = UNPAID
	Queue                string    `json:"queue,omitempty"`
	Key                  string    `json:"key,omitempty"` // of its line
	DelaySeconds         float64   `json:"delaySeconds,omitempty"`
	RunAt                time.Time `json:"runAt,omitzero"`
	ExpiresIn            float64   `json:"expiresIn,omitempty"` // seconds after its release
	ExpiresAt            time.Time `json:"expiresAt,omitzero"`
	Unique               *Unique   `json:"unique,omitempty"` // nil = none
	MaxRetries           *int      `json:"maxRetries,omitempty"`
	MaxProcessingSeconds float64   `json:"maxProcessingSeconds,omitempty"`
	CallbackURL          string    `json:"callbackUrl,omitempty"`
	After                []string  `json:"after,omitempty"`     // names of jobs of the flow
	OnFailure            string    `json:"onFailure,omitempty"` // cancel, run or wait; "" = cancel
}

// Unique gives a job of a flow a unique key: of the caller's jobs of flows with one key only one lives at a time.
type Unique struct {
	Key   string `json:"key"`
	While string `json:"while"` // living: until the job has ended; waiting: until it is claimed
	On    string `json:"on"`    // after: the job waits until its key is free
}

// ErrNoInput means that the running job waited for no job of that name, or is of no flow.
var ErrNoInput = errors.New("no such input")

// Inputs returns what the jobs that the running job waited for in its flow left behind, by name. It tries until the
// server answers or ctx ends.
func Inputs(ctx context.Context) ([]Input, error) { return inputs(ctx, "") }

// InputOf returns what one job that the running job waited for left behind, whole. It tries until the server answers or
// ctx ends.
func InputOf(ctx context.Context, name string) (Input, error) {
	all, err := inputs(ctx, name)
	switch {
	case err != nil:
		return Input{}, err
	case name == "" || len(all) != 1:
		return Input{}, fmt.Errorf("input %q: %w", name, ErrNoInput)
	}
	return all[0], nil
}

func inputs(ctx context.Context, name string) ([]Input, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errors.New("inputs: no job runs in this context")
	}
	var got struct {
		Inputs []Input `json:"inputs"`
	}
	err := a.ask(ctx, "api/worker/inputs", struct {
		Lease string `json:"lease"`
		Name  string `json:"name,omitempty"`
	}{a.Sealed, name}, &got)
	if r, refused := errors.AsType[*refusal](err); refused && r.Status == http.StatusNotFound {
		return nil, fmt.Errorf("input %q: %w", name, ErrNoInput)
	}
	return got.Inputs, err
}

// AddToFlow adds jobs to the flow of the running job, all or none, and returns their ids by name. Each name begins with
// the running job's own name and a slash. A job of the flow that is after "<own name>/*" waits for all of them. A name
// that is there with the same content is left as it is, so the next attempt may add the same jobs again. The worker's
// key must be allowed to submit. AddToFlow tries until the server answers or ctx ends. It fails if a payload is
// no JSON.
func AddToFlow(ctx context.Context, jobs map[string]FlowJob) (map[string]string, error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok || a.FlowID == "" {
		return nil, errors.New("add to flow: no job of a flow runs in this context")
	}
	var got struct {
		Jobs map[string]string `json:"jobs"`
	}
	text, err := marshal(jobs)
	if err != nil {
		return nil, fmt.Errorf("add to flow: %w", err)
	}
	err = a.ask(ctx, "api/flows/"+url.PathEscape(a.FlowID)+"/jobs", struct {
		Lease string          `json:"lease"`
		Jobs  json.RawMessage `json:"jobs"`
	}{a.Sealed, text}, &got)
	return got.Jobs, err
}

// ask makes a call that may be repeated, until the server has answered it or ctx ends.
func (a *attempt) ask(ctx context.Context, path string, body, answer any) error {
	for failures := 1; ; failures++ {
		err := a.w.callAt(ctx, path, path, body, answer, callTime)
		if err == nil {
			return nil
		}
		if r, refused := errors.AsType[*refusal](err); refused && r.Status < 500 && r.Status != http.StatusTooManyRequests {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(pause(failures, err)):
		}
	}
}
