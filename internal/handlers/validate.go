package handlers

import (
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/handler"
)

// Validate returns every wrong field as a *handler.PayloadError, joined into one error.
func (s *Simulation) Validate() error {
	switch {
	case s.Steps != nil && len(s.Steps) == 0:
		return &handler.PayloadError{Field: "payload.steps", Reason: "needs at least one step"}
	case len(s.Steps) > maxSteps:
		return &handler.PayloadError{
			Field: "payload.steps", Reason: fmt.Sprintf("has %d steps, the most is %d", len(s.Steps), maxSteps),
		}
	}
	var wrong []error
	var iterations int64
	for i := range s.Steps {
		bad := s.Steps[i].check(i)
		if n := s.Steps[i].Iterations; n != nil && len(bad) == 0 { // each is at most maxIterations: no overflow
			iterations += *n
		}
		wrong = append(wrong, bad...)
	}
	if iterations > maxIterations {
		reason := fmt.Sprintf("ask for %d iterations of COMPUTE together, the most is %d", iterations, maxIterations)
		wrong = append(wrong, &handler.PayloadError{Field: "payload.steps", Reason: reason})
	}
	return errors.Join(wrong...)
}

// check returns the errors of the i-th step.
func (s *Step) check(i int) []error {
	bad := func(field, reason string) error {
		return &handler.PayloadError{Field: fmt.Sprintf("payload.steps[%d].%s", i, field), Reason: reason}
	}
	k, known := kinds[s.Type]
	if !known {
		return []error{bad("type", "is none of SLEEP, LOG, COMPUTE, HTTP_CALL, FAIL")}
	}
	var wrong []error
	for _, f := range s.fields() {
		switch {
		case f.set && f.name != k.field:
			wrong = append(wrong, bad(f.name, "does not belong to a "+s.Type+" step"))
		case !f.set && f.name == k.field && !k.optional:
			wrong = append(wrong, bad(f.name, "is missing"))
		case f.set && (f.value < 0 || f.value > f.most):
			wrong = append(wrong, bad(f.name, fmt.Sprintf("is %d %s, not in 0..%d", f.value, f.unit, f.most)))
		}
	}
	return wrong
}

type field struct {
	name        string
	set         bool
	value, most int64
	unit        string
}

func (s *Step) fields() [4]field {
	number := func(name string, v *int64, most int64, unit string) field {
		f := field{name: name, set: v != nil, most: most, unit: unit}
		if v != nil {
			f.value = *v
		}
		return f
	}
	message := field{name: "message", set: s.Message != nil, most: maxMessage, unit: "bytes"}
	if s.Message != nil {
		message.value = int64(len(*s.Message))
	}
	return [...]field{
		number("durationMs", s.DurationMs, maxWaitMs, "ms"),
		number("latencyMs", s.LatencyMs, maxWaitMs, "ms"),
		number("iterations", s.Iterations, maxIterations, "iterations"),
		message,
	}
}
