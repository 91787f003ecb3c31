package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/handler"
)

// The limits of one step and of one payload.
const (
	maxSteps      = 100
	maxWaitMs     = 3_600_000
	maxIterations = 500_000 // of all COMPUTE steps together
	maxMessage    = 1024    // bytes
)

// Simulation is the payload of a SIMULATION job: steps that run in order until one fails. Without steps the job
// sleeps for 10 ms.
type Simulation struct {
	Steps []Step `json:"steps"`
}

// Step is one action. Type decides which of the other fields it has; see the table in kinds.
type Step struct {
	Type       string  `json:"type"`
	DurationMs *int64  `json:"durationMs,omitempty"`
	LatencyMs  *int64  `json:"latencyMs,omitempty"`
	Iterations *int64  `json:"iterations,omitempty"`
	Message    *string `json:"message,omitempty"`
}

// Simulated is the result. Computed is the last hash of the COMPUTE steps in hexadecimal, null if there was no
// such step.
type Simulated struct {
	StepsRun  int     `json:"stepsRun"`
	ElapsedMs int64   `json:"elapsedMs"`
	Computed  *string `json:"computed"`
}

// simulation is the state of one run: chain is the hash that the COMPUTE steps continue.
type simulation struct {
	chain     [sha256.Size]byte
	computed  bool
	processor *processor
}

type kind struct {
	field    string // the one field a step of this type has
	optional bool
	run      func(*simulation, context.Context, Step) error
}

var kinds = map[string]kind{
	"SLEEP": {field: "durationMs",
		run: func(_ *simulation, ctx context.Context, s Step) error { return wait(ctx, *s.DurationMs) }},
	"HTTP_CALL": {field: "latencyMs",
		run: func(_ *simulation, ctx context.Context, s Step) error { return wait(ctx, *s.LatencyMs) }},
	"LOG":     {field: "message", run: logStep},
	"COMPUTE": {field: "iterations", run: (*simulation).compute},
	"FAIL":    {field: "message", optional: true, run: failStep},
}

func simulate(ctx context.Context, in Simulation) (Simulated, error) {
	start := time.Now()
	steps := in.Steps
	if steps == nil {
		nap := int64(10)
		steps = []Step{{Type: "SLEEP", DurationMs: &nap}}
	}
	run := simulation{processor: ownProcessor}
	var out Simulated
	for i, s := range steps {
		if err := kinds[s.Type].run(&run, ctx, s); err != nil {
			return Simulated{}, fmt.Errorf("steps[%d] %s: %w", i, s.Type, err)
		}
		out.StepsRun++
	}
	if run.computed {
		sum := hex.EncodeToString(run.chain[:])
		out.Computed = &sum
	}
	out.ElapsedMs = time.Since(start).Milliseconds()
	return out, nil
}

// wait waits ms milliseconds, or returns the cause for which ctx ended.
func wait(ctx context.Context, ms int64) error { return pause(ctx, time.Duration(ms)*time.Millisecond) }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

func logStep(_ *simulation, ctx context.Context, s Step) error {
	handler.Logger(ctx).InfoContext(ctx, *s.Message)
	return nil
}

func failStep(_ *simulation, _ context.Context, s Step) error {
	if s.Message == nil || *s.Message == "" {
		return errors.New("the step was asked to fail")
	}
	return errors.New(*s.Message)
}
