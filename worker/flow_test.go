package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// A job of a flow reads what the jobs before it left behind, and adds jobs; a call that was refused for now is
// repeated.
func TestFlow(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(verb string, n int, _ []byte) int {
		switch {
		case verb == "inputs" && n == 1:
			return http.StatusServiceUnavailable
		case verb == "inputs" && n == 4:
			return http.StatusNotFound
		}
		return 0
	}
	s.flows = []string{`{"inputs":[{"name":"a","status":"COMPLETED","result":{"n":1}},{"name":"b","tooLarge":true}]}`,
		`{"inputs":[{"name":"b","status":"COMPLETED","result":"big"}]}`, `{"jobs":{"j/1":"job-1"}}`}
	s.add("j", "JOIN", `{}`, "flowId", `"f"`)
	s.worker(func(w *Worker) {
		Handle(w, "JOIN", func(ctx context.Context, _ size) (string, error) {
			all, err := Inputs(ctx)
			if err != nil || len(all) != 2 || !all[1].TooLarge {
				return "", fmt.Errorf("%v, %w", all, err)
			}
			one, err := InputOf(ctx, "b")
			if err != nil {
				return "", err
			}
			if _, err := InputOf(ctx, "c"); !errors.Is(err, ErrNoInput) {
				return "", fmt.Errorf("another name: %w", err)
			}
			ids, err := AddToFlow(ctx, map[string]FlowJob{"j/1": {
				Type: "PART", After: []string{"j"}, RunAt: time.Unix(0, 0).UTC(), MaxProcessingSeconds: 1.5,
				CallbackURL: "http://c", ExpiresIn: 60, Unique: &Unique{"shop 7", "living", "after"},
			}})
			return string(one.Result) + ids["j/1"], err
		})
	})
	if got := s.reported("j"); got != `{"lease":"","completed":{"result":"\"big\"job-1"}}` {
		t.Errorf("%s", got)
	}
	want := []string{`{"lease":"lease-j"}`, `{"lease":"lease-j","name":"b"}`,
		`{"lease":"lease-j","jobs":{"j/1":{"type":"PART","runAt":"1970-01-01T00:00:00Z","expiresIn":60,` +
			`"unique":{"key":"shop 7","while":"living","on":"after"},"maxProcessingSeconds":1.5,` +
			`"callbackUrl":"http://c","after":["j"]}}}`}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked %q", s.asked)
	}
	for _, err := range []error{
		func() error { _, err := Inputs(t.Context()); return err }(),
		func() error { _, err := InputOf(t.Context(), "a"); return err }(),
		func() error { _, err := AddToFlow(t.Context(), nil); return err }(),
	} {
		if err == nil {
			t.Error("a call without a job")
		}
	}
}
