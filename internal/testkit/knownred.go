package testkit

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// KnownRed runs body, a test that shows a known defect which is not fixed yet. The surrounding test passes as long
// as body fails for the expected reason: every text that body fails with contains symptom. The test fails when
// body passes, panics, skips, or fails with any other text. The report of make test lists the test with why, in
// one line.
//
// Body runs in a goroutine of its own, so Fatal ends it as usual. KnownRed decides after body's context has ended
// and its cleanups have run. Body's log goes to t. A test that may run beside others calls t.Parallel before
// KnownRed.
func KnownRed(t *testing.T, why string, body func(t testing.TB), symptom string) {
	t.Helper()
	t.Attr("known-red", why)
	if why == "" || symptom == "" {
		t.Fatal("a known-red test says why it is red, and what its failures contain")
	}
	if complaint := runRed(t, body).complaint(symptom); complaint != "" {
		t.Fatal(complaint)
	}
}

// redTest is the testing.TB of a known-red body. It collects the failures and keeps them from the surrounding
// test.
type redTest struct {
	testing.TB
	ctx context.Context
	end context.CancelFunc

	mu       sync.Mutex
	failed   bool
	failures []string // the texts of Error and Fatal
	wrong    []string // neither failure nor success: panics, skips
	cleanups []func()
}

// runRed runs body and then its cleanups, the last one first. Each of these calls may end its goroutine.
func runRed(t testing.TB, body func(testing.TB)) *redTest {
	r := &redTest{TB: t}
	r.ctx, r.end = context.WithCancel(t.Context())
	r.call(func() { body(r) })
	r.end()
	for cleanup := r.lastCleanup(); cleanup != nil; cleanup = r.lastCleanup() {
		r.call(cleanup)
	}
	return r
}

func (r *redTest) call(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if err := recover(); err != nil {
				r.note(&r.wrong, fmt.Sprintf("it panicked: %v\n%s", err, debug.Stack()))
			} else if !returned && !r.Failed() {
				r.note(&r.wrong, "it ended its goroutine without a failure")
			}
		}()
		f()
		returned = true
	}()
	<-done
}

func (r *redTest) lastCleanup() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.cleanups) - 1
	if last < 0 {
		return nil
	}
	cleanup := r.cleanups[last]
	r.cleanups = r.cleanups[:last]
	return cleanup
}

// complaint returns the reason why a known-red test must fail; "" if its body failed as expected.
func (r *redTest) complaint(symptom string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	other := func(text string) bool { return !strings.Contains(text, symptom) }
	i := slices.IndexFunc(r.failures, other)
	switch {
	case len(r.wrong) > 0:
		return "a known-red test must fail with Error or Fatal: " + strings.Join(r.wrong, "; ")
	case i >= 0:
		return fmt.Sprintf("red for another reason than the expected one: %q does not contain %q", r.failures[i], symptom)
	case len(r.failures) > 0:
		return ""
	case r.failed:
		return fmt.Sprintf("red without a text; one with %q was expected", symptom)
	default:
		return "no longer red: take it off the list (make it an ordinary test)"
	}
}

func (r *redTest) note(list *[]string, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, text)
}

func (r *redTest) failWith(text string) {
	r.TB.Helper()
	r.TB.Log("fails, as known: " + text)
	r.note(&r.failures, text)
	r.Fail()
}

func (r *redTest) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *redTest) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *redTest) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *redTest) Error(args ...any) {
	r.TB.Helper()
	r.failWith(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

func (r *redTest) Errorf(format string, args ...any) {
	r.TB.Helper()
	r.failWith(fmt.Sprintf(format, args...))
}

func (r *redTest) Fatal(args ...any) {
	r.TB.Helper()
	r.failWith(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	runtime.Goexit()
}

func (r *redTest) Fatalf(format string, args ...any) {
	r.TB.Helper()
	r.failWith(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (r *redTest) Skip(args ...any) {
	r.note(&r.wrong, "it was skipped: "+fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *redTest) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }

func (r *redTest) SkipNow() { r.Skip() }

func (r *redTest) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *redTest) Context() context.Context { return r.ctx }
