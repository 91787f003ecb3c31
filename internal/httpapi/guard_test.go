package httpapi

import (
	"context"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// After a panic the client learns nothing about it, the log has the stack, and neither of them has the caller's
// key.
func TestPanic(t *testing.T) {
	t.Attr("proves", "A47")
	r := newRooms(t)
	r.submit = func(context.Context, job.Submission) (job.Accepted, error) { panic("the secret cause") }
	rec := r.do("POST", "/paid/submit", "", "X-Api-Key", "tq_1_hunter2", "Authorization", "Bearer tq_1_hunter2")
	wantProblem(t, rec, 500, "INTERNAL")
	for _, inside := range []string{"secret cause", "goroutine", ".go:", "hunter2"} {
		if strings.Contains(rec.Body.String(), inside) {
			t.Errorf("the client is told %q: %s", inside, rec.Body)
		}
	}
	log := r.log.String()
	if !strings.Contains(log, "the secret cause") || !strings.Contains(log, "submit.go:") ||
		!strings.Contains(log, rec.Header().Get("X-Trace-Id")) {
		t.Errorf("log: %s", log)
	}
	if strings.Contains(log, "hunter2") {
		t.Errorf("the key is in the log: %s", log)
	}
	if rec := r.do("GET", "/livez", ""); rec.Code != 200 {
		t.Errorf("after the panic: %d", rec.Code)
	}
}

func TestAccessLog(t *testing.T) {
	t.Attr("proves", "A54")
	r := newRooms(t)
	r.do("POST", "/paid/submit", "", "X-Trace-Id", "trace-9", "User-Agent", "x\r\n\x1b[31mevil")
	line := r.log.String()
	for _, want := range []string{`"method":"POST"`, `"route":"/:tier/submit"`, `"status":202`, `"ms":`,
		`"trace_id":"trace-9"`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	r.do("EVIL", "/evil", "")
	if strings.Contains(strings.ToLower(r.log.String()), "evil") || strings.Count(r.log.String(), "\n") != 2 {
		t.Errorf("the caller's text is in the log: %s", &r.log)
	}
}
