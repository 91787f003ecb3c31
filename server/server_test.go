package server

import (
	"context"
	"io"
	"strings"
	"testing"
)

func nothing(context.Context, any) (any, error) { return nil, nil }

// A server that cannot run says why: each setting that is wrong, and a type with two handlers.
func TestRun_Refuses(t *testing.T) {
	t.Parallel()
	s := New(WithSetting("TIERQ_ADDR", "nonsense"), WithSetting("TIERQ_WORKERS", "many"), WithOutput(io.Discard))
	Handle(s, "RESIZE", nothing)
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "TIERQ_ADDR") || !strings.Contains(err.Error(), "TIERQ_WORKERS") {
		t.Errorf("%v", err)
	}
	for _, types := range [][]string{{"A", "A"}, {""}} {
		s := New()
		for _, typ := range types {
			Handle(s, typ, nothing)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "two handlers, or no name") {
			t.Errorf("%q: %v", types, err)
		}
	}
}

func TestRunning_WithoutJob(t *testing.T) {
	t.Parallel()
	if j, running := Running(t.Context()); running {
		t.Errorf("%+v", j)
	}
	if err := Checkpoint(t.Context(), 1); err == nil {
		t.Error("a checkpoint without a job")
	}
}
