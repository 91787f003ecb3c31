package handler

import (
	"context"
	"errors"
	"testing"
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
