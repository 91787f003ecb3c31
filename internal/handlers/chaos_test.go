//go:build failpoint

package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/handler"
)

// A CHAOS job fails, ends with "later" and completes in the attempts that its payload says, and records each of
// them.
func TestChaosJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	payload := `{"key":"k1", "file":"` + file + `","fail":3,"later":1,"sleepMs":20}`
	attempt := func(ctx context.Context, n int) ([]byte, error) {
		ctx = handler.WithRun(ctx, handler.Run{ID: "the-job", Generation: 2, Attempt: n})
		return registry().Run(ctx, "CHAOS", []byte(payload))
	}
	_, later := attempt(t.Context(), 1)
	_, failed := attempt(t.Context(), 3)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(handler.ErrLeaseLost)
	_, stopped := attempt(gone, 4)
	result, err := attempt(t.Context(), 4)
	if err != nil || !errors.Is(stopped, handler.ErrLeaseLost) || handler.Judge(later).Later != laterFor ||
		failed == nil || handler.Judge(failed).Later != 0 {
		t.Fatalf("later %v, failed %v, stopped %v, completed %v", later, failed, stopped, err)
	}
	if want := `{"key":"k1","sum":"` + sum([]byte(payload)) + `"}`; string(result) != want {
		t.Errorf("result %s, want %s", result, want)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"start later", "start fail", "start fail", "start end"}
	var got []string
	for line := range strings.Lines(string(text)) {
		var n note
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		if n.ID != "the-job" || n.Key != "k1" || n.Generation != 2 || n.PID != os.Getpid() || n.At == 0 ||
			n.Sum != sum([]byte(payload)) {
			t.Errorf("%+v", n)
		}
		if n.What == "start" {
			got = append(got, "start")
			continue
		}
		got[len(got)-1] += " " + n.What
		if (n.Result == sum(result)) != (n.What == "end") {
			t.Errorf("the %s says result %q", n.What, n.Result)
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("wrote %v, want %v", got, want)
	}
}
