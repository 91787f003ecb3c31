// Package handler has the tools for writing job types. Register adds a type and the function that runs its jobs.
// The function gets a payload and a context: Running returns the job, Logger logs with its id, Checkpoint saves
// the progress, and context.Cause says why the function must stop. The function's error decides what follows:
// another attempt, or the effect of Permanent, RetryAfter or Later. Payloads are checked at submit; see Validator,
// Checked, ReadURL and ReadAddress.
package handler

import (
	"context"
	"fmt"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Registry has the job types of this server and their handlers. Register all types before the server starts; after
// that the registry is only read.
type Registry struct{ types map[string]entry }

type entry struct {
	internal bool
	check    func(payload []byte) error
	run      func(ctx context.Context, payload []byte) ([]byte, error)
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{types: map[string]entry{}} }

// Register makes fn the handler of a job type. In is decoded from the payload; an absent payload is the zero In.
// At submit unknown fields are refused, and a *In that is a Validator is validated at submit and when the job
// runs. Out is encoded as the result. fn may run more than once for one job, because a lease promises
// at-least-once: side effects should carry the job's id. fn must return soon after its context ends;
// context.Cause(ctx) says why it ended. A nil error completes the job and any other fails it; see Permanent,
// RetryAfter and Later. Register panics if the type already has a handler.
func Register[In, Out any](r *Registry, typ string, fn func(context.Context, In) (Out, error), opts ...TypeOption) {
	if _, twice := r.types[typ]; twice {
		panic("handler: type registered twice: " + typ)
	}
	decode := func(payload []byte, how func([]byte, any) error) (In, error) {
		var in In
		if err := how(payload, &in); err != nil {
			return in, err
		}
		if v, ok := any(&in).(Validator); ok {
			return in, named(v.Validate())
		}
		return in, nil
	}
	e := entry{
		check: func(payload []byte) error { _, err := decode(payload, decodeStrictly); return err },
		run: func(ctx context.Context, payload []byte) ([]byte, error) {
			in, err := decode(payload, decodeChecked)
			if err != nil {
				return nil, Permanent(err)
			}
			out, err := fn(ctx, in)
			if err != nil {
				return nil, err
			}
			result, err := encode(out)
			if err != nil {
				return nil, Permanent(fmt.Errorf("result: %w", err))
			}
			return result, nil
		},
	}
	for _, o := range opts {
		o(&e)
	}
	r.types[typ] = e
}

// TypeOption sets a property of a job type; Internal and Checked return one.
type TypeOption func(*entry)

// Internal marks a type that only tierq itself submits: to users it does not exist.
func Internal() TypeOption { return func(e *entry) { e.internal = true } }

// Check checks a user's payload for a type. It returns nil, job.ErrUnknownType (also for an internal type), or an
// error that is job.ErrBadPayload.
func (r *Registry) Check(typ string, payload []byte) error {
	e, ok := r.types[typ]
	if !ok || e.internal {
		return job.ErrUnknownType
	}
	return e.check(payload)
}

// Run runs the handler of a type and returns its encoded result, or job.ErrUnknownType.
func (r *Registry) Run(ctx context.Context, typ string, payload []byte) ([]byte, error) {
	e, ok := r.types[typ]
	if !ok {
		return nil, job.ErrUnknownType
	}
	return e.run(ctx, payload)
}

// Types lists the types that users may submit, sorted.
func (r *Registry) Types() []string {
	types := make([]string, 0, len(r.types))
	for t, e := range r.types {
		if !e.internal {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	return types
}
