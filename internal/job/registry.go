package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Registry knows the job types this server runs and how to run them. Register everything before the server starts; after
// that it is only read.
type Registry struct{ types map[string]entry }

type entry struct {
	internal bool
	check    func(payload []byte) error
	run      func(ctx context.Context, payload []byte) ([]byte, error)
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{types: map[string]entry{}} }

// Validator is a payload that can check itself. Validate returns a *PayloadError (or several, joined) that names the fields.
type Validator interface{ Validate() error }

// PayloadError names the field of a payload that is wrong, and why.
type PayloadError struct{ Field, Reason string }

func (e *PayloadError) Error() string { return e.Field + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrBadPayload) true.
func (e *PayloadError) Unwrap() error { return ErrBadPayload }

// Handle registers fn for a job type. In is decoded from the payload (unknown fields are refused; an absent payload is the zero
// In); if *In is a Validator it is asked at submit. Out is encoded as the result. fn may run more than once for one job: at-least-once
// is what a lease can promise, so side effects should carry the job's id. fn must return soon after its context ends;
// context.Cause(ctx) says why it ended. A nil error completes the job; any other fails it, see Permanent, RetryAfter and Later.
// Handle panics if the type is registered already.
func Handle[In, Out any](r *Registry, typ string, fn func(context.Context, In) (Out, error), opts ...TypeOption) {
	if _, twice := r.types[typ]; twice {
		panic("job: type registered twice: " + typ)
	}
	decode := func(payload []byte, how func([]byte, any) error) (In, error) {
		var in In
		if err := how(payload, &in); err != nil {
			return in, err
		}
		if v, ok := any(&in).(Validator); ok {
			return in, v.Validate()
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
			result, err := json.Marshal(out)
			if err != nil {
				return nil, Permanent(fmt.Errorf("encode result: %w", err))
			}
			return result, nil
		},
	}
	for _, o := range opts {
		o(&e)
	}
	r.types[typ] = e
}

// TypeOption says something about a job type beside its handler.
type TypeOption func(*entry)

// Internal makes a type that only tierq itself submits: to users it does not exist.
func Internal() TypeOption { return func(e *entry) { e.internal = true } }

// Check says whether a user's payload fits a type: nil, ErrUnknownType, or an error that is ErrBadPayload.
func (r *Registry) Check(typ string, payload []byte) error {
	e, ok := r.types[typ]
	if !ok || e.internal {
		return ErrUnknownType
	}
	return e.check(payload)
}

// Run runs the handler of a type and returns its encoded result, or ErrUnknownType.
func (r *Registry) Run(ctx context.Context, typ string, payload []byte) ([]byte, error) {
	e, ok := r.types[typ]
	if !ok {
		return nil, ErrUnknownType
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

func decodeStrictly(payload []byte, in any) error {
	if len(payload) == 0 || bytes.Equal(payload, []byte("null")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return payloadError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &PayloadError{Field: "payload", Reason: "there is something after the JSON value"}
	}
	return nil
}

// decodeChecked reads a payload that was checked at submit, perhaps by another build: a field that is unknown here is passed over.
func decodeChecked(payload []byte, in any) error {
	if len(payload) == 0 {
		return nil
	}
	if err := json.Unmarshal(payload, in); err != nil {
		return payloadError(err)
	}
	return nil
}

func payloadError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var known *PayloadError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &wrongType):
		field := "payload"
		if wrongType.Field != "" {
			field += "." + wrongType.Field
		}
		return &PayloadError{Field: field, Reason: "a " + shorten(wrongType.Value) + " does not fit"}
	}
	return &PayloadError{Field: "payload", Reason: shorten(strings.TrimPrefix(err.Error(), "json: "))}
}

// shorten bounds what is said again of a payload that cannot be read: a name, or a number.
func shorten(said string) string {
	const most = 150 // bytes
	if len(said) <= most {
		return said
	}
	return strings.ToValidUTF8(said[:most], "") + "..."
}

// The ways a handler can ask for something else than the tier's retries.
type (
	permanentError struct{ error }
	retryError     struct {
		error
		after time.Duration
	}
	laterError struct {
		after  time.Duration
		reason string
	}
)

func (e permanentError) Unwrap() error { return e.error }
func (e retryError) Unwrap() error     { return e.error }

func (e laterError) Error() string {
	text := "later: in " + e.after.String()
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// Permanent makes err final: the job becomes a dead letter at once, whatever retries are left.
func Permanent(err error) error { return permanentError{err} }

// RetryAfter fails the attempt, which costs a retry, and sets the wait before the next one in place of the tier's backoff.
func RetryAfter(d time.Duration, err error) error { return retryError{err, d} }

// Later gives the job back for d (at least 1 ms): no retry is spent.
func Later(d time.Duration) error { return LaterBecause(d, "") }

// LaterBecause is Later with a reason, which the job's history shows: at most 512 bytes of it are kept.
func LaterBecause(d time.Duration, reason string) error {
	return laterError{max(d, time.Millisecond), reason}
}

// Verdict is what a handler's error asks for.
type Verdict struct {
	Permanent  bool
	Later      time.Duration // > 0: give back, unharmed
	Reason     string        // why Later was asked for; "" = the handler did not say
	RetryAfter time.Duration // >= 0 if the handler chose; -1: the tier's backoff
}

// Judge reads a handler's error.
func Judge(err error) Verdict {
	v := Verdict{RetryAfter: -1}
	var later laterError
	var retry retryError
	var permanent permanentError
	switch {
	case errors.As(err, &later):
		v.Later, v.Reason = later.after, later.reason
	case errors.As(err, &permanent):
		v.Permanent = true
	case errors.As(err, &retry):
		v.RetryAfter = max(retry.after, 0)
	}
	return v
}
