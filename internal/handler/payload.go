package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// PayloadError names the wrong field of a payload, and the reason.
type PayloadError = job.PayloadError

// Validator is a payload that checks itself. Validate returns a *PayloadError (or several, joined) that names the
// wrong fields.
type Validator interface{ Validate() error }

// named returns a Validator's error as one of the whole payload, if it names no field.
func named(err error) error {
	if err == nil || errors.Is(err, job.ErrBadPayload) {
		return err
	}
	return &PayloadError{Field: "payload", Reason: err.Error()}
}

// Checked adds a check of a type's payload at submit, for conditions that the payload's own Validate cannot check.
// check returns a *PayloadError (or several, joined) that names the fields. It is not called again when the job
// runs.
func Checked[In any](check func(In) error) TypeOption {
	return func(e *entry) {
		fits := e.check
		e.check = func(payload []byte) error {
			if err := fits(payload); err != nil {
				return err
			}
			var in In
			if err := decodeChecked(payload, &in); err != nil {
				return err
			}
			return check(in)
		}
	}
}

// decodeStrictly decodes a payload at submit. It refuses a field that the type does not have.
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

// decodeChecked decodes a payload that was checked at submit, perhaps by another build. It ignores a field that
// this build does not have.
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

// shorten bounds the length of a name or number from an unreadable payload that an error quotes.
func shorten(said string) string {
	const most = 150 // bytes
	if len(said) <= most {
		return said
	}
	return strings.ToValidUTF8(said[:most], "") + "..."
}
