package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Text from outside reaches the log only as text within its own line, without line breaks and ESC. Here it comes
// from a store's error, a collector's answer, and the attributes that hold users' words.
func TestLogLinesCannotBeForged(t *testing.T) {
	t.Attr("proves", "A54")
	const evil = "x\r\n{\"level\":\"ERROR\",\"msg\":\"forged\"}\x1b[31m\u2028"
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			log := slog.New(handler(&out))
			log.Info("job", "type", evil, "trace_id", evil, "err", errors.New(evil))

			m := measured()
			m.Submitted(job.Paid, Accepted)
			NewStats(m, &shelf{fail: func() error { return errors.New(evil) }}, log).runOnce(t.Context())

			endpoint, _ := newCollector(t, http.StatusBadRequest)
			tracing, err := NewTracing(endpoint, "v", log)
			if err := errors.Join(err, tracing.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			_, done := tracing.Process(t.Context(), first(job.Paid))
			done(nil)
			if err := tracing.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}

			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(lines) != 3 || !strings.Contains(lines[2], "evil") {
				t.Fatalf("%d lines, want 3:\n%q", len(lines), out.String())
			}
			for _, line := range lines {
				if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' || r == '\u2028' }); i >= 0 {
					t.Errorf("a control character at %d: %q", i, line)
				}
				if name == "json" && !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %q", line)
				}
			}
		})
	}
}
