package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// The constants of every box: its TIERQ_CAPACITY, and the slots of its workers together.
const (
	Limit = 12
	Slots = 3
)

// plans returns the default tiers with shorter times.
func plans() []job.Plan {
	backoff := job.Backoff{Base: 400 * time.Millisecond, Factor: 2, Cap: 2 * time.Second}
	return []job.Plan{
		{Tier: job.Paid, Priority: 1, MaxRetries: 3, HeartbeatTimeout: 3 * time.Second, MaxProcessingTime: 6 * time.Second,
			Share: 100, Backoff: backoff, Version: 1},
		{Tier: job.Unpaid, Priority: 2, MaxRetries: 2, HeartbeatTimeout: 2 * time.Second, MaxProcessingTime: 4 * time.Second,
			Share: 85, Backoff: backoff, Version: 1},
		{Tier: job.Public, Priority: 3, MaxRetries: 1, HeartbeatTimeout: 1500 * time.Millisecond,
			MaxProcessingTime: 3 * time.Second, Share: 60, Backoff: backoff, Version: 1},
	}
}

// demo is the payload of a DEMO job: the job works for a while, except perhaps at its first attempts.
type demo struct {
	WorkMs    int64 `json:"workMs"`
	FailFirst int   `json:"failFirst,omitempty"` // how many attempts fail
	RetryMs   int64 `json:"retryMs,omitempty"`   // the wait that a failed attempt asks for; 0 = the tier's backoff
	HangFirst int   `json:"hangFirst,omitempty"` // how many attempts hang
	Deaf      bool  `json:"deaf,omitempty"`      // hanging attempts ignore their context
}

var errAsked = errors.New("the attempt was asked to fail")

// registry returns a registry with the type DEMO. Closing over ends attempts that ignore their context.
func registry(over <-chan struct{}) *handler.Registry {
	r := handler.NewRegistry()
	handler.Register(r, "DEMO", func(ctx context.Context, in demo) (map[string]int, error) {
		run, _ := handler.Running(ctx)
		done := ctx.Done()
		if run.Attempt <= in.HangFirst {
			if in.Deaf {
				done = nil
			}
			select {
			case <-done:
				return nil, context.Cause(ctx)
			case <-over:
				return nil, errAsked
			}
		}
		t := time.NewTimer(time.Duration(in.WorkMs) * time.Millisecond)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-t.C:
		}
		if run.Attempt <= in.FailFirst {
			if in.RetryMs > 0 {
				return nil, handler.RetryAfter(time.Duration(in.RetryMs)*time.Millisecond, errAsked)
			}
			return nil, errAsked
		}
		return map[string]int{"attempt": run.Attempt}, nil
	})
	return r
}

// work returns a job that takes d.
func work(d time.Duration) job.Submission { return demo{WorkMs: d.Milliseconds()}.job() }

func (d demo) job() job.Submission {
	text, _ := json.Marshal(d) // cannot fail for these types
	return job.Submission{Type: "DEMO", Payload: text, MaxRetries: -1}
}
