package handler

import (
	"context"
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

func TestChecked(t *testing.T) {
	r := NewRegistry()
	ran := false
	named := func(o order) error {
		if o.To == "nobody" {
			return &PayloadError{Field: "payload.to", Reason: "is nobody"}
		}
		return nil
	}
	Register(r, "ORDER", func(context.Context, order) (string, error) { ran = true; return "", nil }, Checked(named))
	for payload, field := range map[string]string{
		``:                           "",
		`{"to":"a"}`:                 "",
		`{"to":"nobody"}`:            "payload.to",
		`{"to":"nobody","count":-1}`: "payload.count", // Validate is called before Checked
		`{"too":"nobody"}`:           "payload",
	} {
		err := r.Check("ORDER", []byte(payload))
		var wrong *PayloadError
		if (err == nil) != (field == "") || err != nil && (!errors.As(err, &wrong) || wrong.Field != field) {
			t.Errorf("%s: %v, want %q", payload, err, field)
		}
	}
	if _, err := r.Run(t.Context(), "ORDER", []byte(`{"to":"nobody"}`)); err != nil || !ran {
		t.Errorf("what was accepted once did not run: %v", err)
	}
}

type moody struct{ Width int }

func (m *moody) Validate() error {
	if m.Width < 0 {
		return errors.New("no picture has a negative width")
	}
	return nil
}

// A Validator may return any error: it is the payload's.
func TestValidator_NamesNoField(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	Register(r, "RESIZE", func(context.Context, moody) (any, error) { return nil, nil })
	err := r.Check("RESIZE", []byte(`{"Width":-1}`))
	if !errors.Is(err, job.ErrBadPayload) || err.Error() != "payload: no picture has a negative width" {
		t.Errorf("%v", err)
	}
	if err := r.Check("RESIZE", []byte(`{"Width":1}`)); err != nil {
		t.Error(err)
	}
}
