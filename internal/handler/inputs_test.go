package handler

import (
	"context"
	"errors"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// A handler reads the inputs that its worker gives, and job.ErrNotFound without any.
func TestInputs(t *testing.T) {
	t.Parallel()
	ctx := WithRun(t.Context(), Run{Inputs: func(_ context.Context, name string) ([]job.FlowInput, error) {
		switch name {
		case "":
			return []job.FlowInput{{Name: "a"}, {Name: "b"}}, nil
		case "a":
			return []job.FlowInput{{Name: "a", Result: []byte("1")}}, nil
		}
		return nil, job.ErrNotFound
	}})
	if all, err := Inputs(ctx); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if one, err := Input(ctx, "a"); err != nil || string(one.Result) != "1" {
		t.Errorf("%v, %v", one, err)
	}
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := Input(ctx, "c"); !errors.Is(err, job.ErrNotFound) {
			t.Error(err)
		}
	}
	if _, err := Inputs(t.Context()); !errors.Is(err, job.ErrNotFound) {
		t.Error(err)
	}
}
