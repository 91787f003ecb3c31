package handlers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

func registry() *handler.Registry {
	r := handler.NewRegistry()
	Register(r)
	return r
}

func run(ctx context.Context, t *testing.T, payload string) (Simulated, error) {
	t.Helper()
	result, err := registry().Run(ctx, "SIMULATION", []byte(payload))
	var out Simulated
	if err == nil {
		if err := json.Unmarshal(result, &out); err != nil {
			t.Fatalf("result %s: %v", result, err)
		}
	}
	return out, err
}

func TestSimulation(t *testing.T) {
	t.Attr("proves", "S4-N9 S4-S3")
	t.Run("waits and computes in order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out, err := run(t.Context(), t, `{"steps":[{"type":"SLEEP","durationMs":100},{"type":"COMPUTE","iterations":2},
				{"type":"HTTP_CALL","latencyMs":50},{"type":"COMPUTE","iterations":1}]}`)
			if err != nil {
				t.Fatal(err)
			}
			sum := [32]byte{}
			for range 3 {
				sum = sha256.Sum256(sum[:])
			}
			if out.StepsRun != 4 || out.ElapsedMs != 150 || out.Computed == nil || *out.Computed != hex.EncodeToString(sum[:]) {
				t.Errorf("result = %+v, want 4 steps, 150 ms and the third hash", out)
			}
		})
	})
	for _, none := range []string{"", "null", "{}"} {
		t.Run("no steps is a short sleep: "+none, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, err := run(t.Context(), t, none)
				if err != nil || out.StepsRun != 1 || out.ElapsedMs != 10 || out.Computed != nil {
					t.Errorf("result = %+v, %v, want one step of 10 ms", out, err)
				}
			})
		})
	}
	t.Run("FAIL halts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := run(t.Context(), t, `{"steps":[{"type":"SLEEP","durationMs":20},{"type":"FAIL","message":"boom"},`+
				`{"type":"SLEEP","durationMs":1000}]}`)
			if err == nil || err.Error() != "steps[1] FAIL: boom" {
				t.Errorf("error = %v", err)
			}
			if took := time.Since(start); took != 20*time.Millisecond {
				t.Errorf("took %v: the steps after FAIL ran", took)
			}
			if v := handler.Judge(err); v.Permanent || v.Later > 0 {
				t.Errorf("FAIL must be an ordinary failure, is %+v", v)
			}
		})
	})
	t.Run("FAIL needs no message", func(t *testing.T) {
		if _, err := run(t.Context(), t, `{"steps":[{"type":"FAIL"}]}`); err == nil ||
			!strings.Contains(err.Error(), "asked to fail") {
			t.Errorf("error = %v", err)
		}
	})
}

func TestSimulationLogs(t *testing.T) {
	t.Attr("proves", "S4-N9 S4-O1")
	var lines bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
	defer slog.SetDefault(before)
	ctx := handler.WithRun(t.Context(), handler.Run{ID: "the-job", Tier: job.Paid, Attempt: 2})
	if _, err := run(ctx, t, `{"steps":[{"type":"LOG","message":"hi\nthere"}]}`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"level=INFO", `msg="hi\nthere"`, "job_id=the-job", "tier=PAID", "attempt=2"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("log %q lacks %s", lines.String(), want)
		}
	}
}

func TestSimulationEndsWithItsContext(t *testing.T) {
	for _, payload := range []string{
		`{"steps":[{"type":"SLEEP","durationMs":3600000}]}`,
		`{"steps":[{"type":"HTTP_CALL","latencyMs":3600000}]}`,
		`{"steps":[{"type":"COMPUTE","iterations":500000}]}`,
	} {
		t.Run(payload, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(handler.ErrDraining)
			if _, err := run(ctx, t, payload); !errors.Is(err, handler.ErrDraining) {
				t.Errorf("error = %v, want the cause", err)
			}
		})
	}
}

func TestSimulationRefuses(t *testing.T) {
	t.Attr("proves", "S4-N9 S4-P7")
	step := func(s string) string { return `{"steps":[{"type":"SLEEP","durationMs":1},` + s + `]}` }
	many := `{"steps":[` + strings.Repeat(`{"type":"SLEEP","durationMs":1},`, 100) + `{"type":"SLEEP","durationMs":1}]}`
	cases := []struct{ name, payload, field string }{
		{"unknown type", step(`{"type":"EXPLODE"}`), "payload.steps[1].type"},
		{"type in lower case", step(`{"type":"sleep","durationMs":1}`), "payload.steps[1].type"},
		{"no type", step(`{"durationMs":1}`), "payload.steps[1].type"},
		{"missing number", step(`{"type":"SLEEP"}`), "payload.steps[1].durationMs"},
		{"missing latency", step(`{"type":"HTTP_CALL"}`), "payload.steps[1].latencyMs"},
		{"missing iterations", step(`{"type":"COMPUTE"}`), "payload.steps[1].iterations"},
		{"missing message", step(`{"type":"LOG"}`), "payload.steps[1].message"},
		{"negative", step(`{"type":"SLEEP","durationMs":-1}`), "payload.steps[1].durationMs"},
		{"huge sleep", step(`{"type":"SLEEP","durationMs":3600001}`), "payload.steps[1].durationMs"},
		{"huge latency", step(`{"type":"HTTP_CALL","latencyMs":9223372036854775807}`), "payload.steps[1].latencyMs"},
		{"huge computation", step(`{"type":"COMPUTE","iterations":500001}`), "payload.steps[1].iterations"},
		{
			"too much computation together",
			step(`{"type":"COMPUTE","iterations":500000},{"type":"COMPUTE","iterations":1}`), "payload.steps",
		},
		{"long message", step(`{"type":"LOG","message":"` + strings.Repeat("x", 1025) + `"}`), "payload.steps[1].message"},
		{"another type's field", step(`{"type":"LOG","message":"hi","durationMs":1}`), "payload.steps[1].durationMs"},
		{"a field too many", step(`{"type":"FAIL","iterations":1}`), "payload.steps[1].iterations"},
		{"empty list", `{"steps":[]}`, "payload.steps"},
		{"too many steps", many, "payload.steps"},
		{"unknown field", `{"stepz":[]}`, "payload"},
		{"a text for a number", step(`{"type":"SLEEP","durationMs":"1"}`), "payload.steps.durationMs"},
		{"not an object", `[1]`, "payload"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := registry().Check("SIMULATION", []byte(c.payload))
			var wrong *handler.PayloadError
			if !errors.As(err, &wrong) || !errors.Is(err, job.ErrBadPayload) || wrong.Field != c.field {
				t.Errorf("Check = %v, want a PayloadError of %s", err, c.field)
			}
		})
	}
	t.Run("all that is wrong is named", func(t *testing.T) {
		err := registry().Check("SIMULATION", []byte(`{"steps":[{"type":"SLEEP"},{"type":"X"}]}`))
		for _, field := range []string{"payload.steps[0].durationMs", "payload.steps[1].type"} {
			if err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("%v does not name %s", err, field)
			}
		}
	})
	t.Run("the limits themselves are taken", func(t *testing.T) {
		if err := registry().Check("SIMULATION", []byte(fmt.Sprintf(`{"steps":[{"type":"SLEEP","durationMs":%d},{"type":"SLEEP","durationMs":0},
			{"type":"COMPUTE","iterations":%d},{"type":"LOG","message":"%s"}]}`, maxWaitMs, maxIterations, strings.Repeat("x", maxMessage)))); err != nil {
			t.Error(err)
		}
	})
}
