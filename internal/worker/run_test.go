package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// badError is an error whose Error method panics.
type badError struct{ text *string }

func (e *badError) Error() string { return *e.text }

// badVerdict is an error whose As method panics when the error is judged.
type badVerdict struct{}

func (badVerdict) Error() string { return "bad verdict" }
func (badVerdict) As(any) bool   { panic("As panics") }

// The errors whose methods panic when something else is done with them.
type (
	badIs     struct{ error }
	badUnwrap struct{ error }
	circle    struct{ error }
	loudError struct{}
	exitError struct{}
)

func (badIs) Is(error) bool       { panic("Is panics") }
func (badUnwrap) Unwrap() error   { panic("Unwrap panics") }
func (e circle) Unwrap() []error  { return []error{e, e} }
func (e loudError) Error() string { panic(e) }
func (exitError) Error() string   { runtime.Goexit(); return "" }

func circular() any {
	v := []any{nil}
	v[0] = v
	return v
}

type badText struct{}

func (badText) String() string { panic("String panics") }

func TestHandlerCrashesAreContained(t *testing.T) {
	t.Attr("proves", "F45")
	var nilError *badError
	cases := []struct {
		name string
		fn   func() (string, error)
		want []string
	}{
		{"a value", func() (string, error) { panic("boom") }, []string{"panic: boom\n", "run_test.go"}},
		{"an error", func() (string, error) { panic(errors.New("as error")) }, []string{"panic: as error\n", "run_test.go"}},
		{"nil", func() (string, error) { panic(nil) }, []string{"panic called with nil argument", "run_test.go"}},
		{"a runtime error", func() (string, error) { return *nilError.text, nil },
			[]string{"nil pointer dereference", "run_test.go"}},
		{"Goexit", func() (string, error) { runtime.Goexit(); return "", nil }, []string{"runtime.Goexit", "run_test.go"}},
		{"a long value", func() (string, error) { panic(strings.Repeat("\u20ac", 3000)) }, []string{"panic: \u20ac\u20ac"}},
		{"bytes that are no text", func() (string, error) { panic("\xff\xfe") }, []string{"panic: \uFFFD"}},
		{"a value whose String panics", func() (string, error) { panic(badText{}) }, []string{"String panics"}},
		{"an error whose Error panics", func() (string, error) { return "", &badError{} },
			[]string{"*worker.badError, whose"}},
		{"an error whose Error panics with itself", func() (string, error) { return "", loudError{} },
			[]string{"worker.loudError, whose text cannot be read"}},
		{"an error whose Error exits", func() (string, error) { return "", exitError{} }, []string{"runtime.Goexit"}},
		{"an error whose Is panics", func() (string, error) { return "", badIs{errors.New("is")} }, []string{"is"}},
		{"an error whose Unwrap panics", func() (string, error) { return "", badUnwrap{errors.New("wrap")} },
			[]string{"wrap"}},
		{"an error that wraps itself", func() (string, error) { return "", circle{errors.New("circle")} },
			[]string{"circle"}},
		{"a value that contains itself", func() (string, error) { panic(circular()) }, []string{"panic: []interface {}\n"}},
		{"a value whose Error exits", func() (string, error) { panic(exitError{}) }, []string{"runtime.Goexit"}},
		{"RetryAfter without an error", func() (string, error) { return "", handler.RetryAfter(0, nil) },
			[]string{"retry after: the handler gave no error"}},
		{"an error that is a nil pointer", func() (string, error) { return "", nilError }, []string{"nil"}},
		{"an error whose As panics", func() (string, error) { return "", badVerdict{} }, []string{"bad verdict"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				crash := true
				r := newRig(func(context.Context) (string, error) {
					if crash {
						crash = false
						return c.fn()
					}
					return "fine", nil
				}, func(c *Config) { c.Slots = 1 })
				r.queue.push(work(1, job.Paid), work(2, job.Paid))
				r.start(t)
				after(time.Second)
				done, failures, _ := r.queue.endings()
				if len(failures) != 1 || len(done) != 1 || done[0].ID != work(2, job.Paid).ID {
					t.Fatalf("failed %+v, completed %+v, want the first to fail and the next to run", failures, done)
				}
				f := failures[0]
				if f.Cause != job.HandlerError || f.Final || len(f.Error) > 2048 || !utf8.ValidString(f.Error) {
					t.Errorf("failure = %+v", f)
				}
				for _, want := range c.want {
					if !strings.Contains(f.Error, want) {
						t.Errorf("error %q lacks %q", f.Error, want)
					}
				}
				if s := r.Stats(); s.Running != 0 || s.Free != 1 {
					t.Errorf("stats = %+v, want the slot free", s)
				}
				r.stop(t)
			})
		})
	}
}

func TestHandlerEndings(t *testing.T) {
	t.Attr("proves", "S3-I3 S3-Q5 S1-P2 S3-Q6")
	// 2 s * 2^2, +-20 %
	second := func(d time.Duration) bool { return d >= 6400*time.Millisecond && d <= 9600*time.Millisecond }
	exactly := func(want time.Duration) func(time.Duration) bool {
		return func(d time.Duration) bool { return d == want }
	}
	boom := errors.New("boom")
	cases := []struct {
		name   string
		result string
		err    error
		typ    string
		fails  job.Cause // "" = released
		final  bool
		delay  func(time.Duration) bool
		says   string
	}{
		{name: "an error waits for the tier's backoff", err: boom, fails: job.HandlerError, delay: second},
		{name: "Permanent", err: fmt.Errorf("wrapped: %w", handler.Permanent(boom)), fails: job.PermanentError, final: true,
			delay: exactly(0)},
		{name: "Permanent(nil)", err: handler.Permanent(nil), fails: job.PermanentError, final: true, delay: exactly(0),
			says: "permanent: the handler gave no error"},
		{name: "Permanent of a typed nil", err: handler.Permanent((*badError)(nil)), fails: job.PermanentError, final: true,
			delay: exactly(0), says: "*worker.badError, whose text cannot be read"},
		{name: "RetryAfter for ever", err: handler.RetryAfter(math.MaxInt64, boom), fails: job.HandlerError,
			delay: exactly(24 * time.Hour)},
		{name: "Later for ever", err: handler.Later(math.MaxInt64), delay: exactly(365 * 24 * time.Hour)},
		{name: "RetryAfter", err: handler.RetryAfter(time.Minute, boom), fails: job.HandlerError,
			delay: exactly(time.Minute)},
		{name: "RetryAfter nothing", err: handler.RetryAfter(0, boom), fails: job.HandlerError, delay: exactly(0)},
		{name: "Later", err: handler.Later(time.Hour), delay: exactly(time.Hour)},
		{name: "a result over the limit", result: strings.Repeat("x", 1023), fails: job.ResultTooLarge, final: true,
			delay: exactly(0)},
		{name: "an unknown type", typ: "ELSEWHERE", fails: job.UnknownJobType, delay: exactly(0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(func(context.Context) (string, error) { return c.result, c.err })
				j := work(1, job.Paid)
				j.RetryCount = 2
				if c.typ != "" {
					j.Type = c.typ
				}
				r.queue.push(j)
				r.start(t)
				after(time.Second)
				r.stop(t)
				done, failures, back := r.queue.endings()
				switch {
				case len(done) != 0 || len(failures)+len(back) != 1:
					t.Fatalf("completed %+v, failed %+v, released %+v", done, failures, back)
				case c.fails == "":
					if len(back) != 1 || !c.delay(back[0].Delay) {
						t.Errorf("failed %+v, released %+v", failures, back)
					}
				case len(failures) != 1 || failures[0].Cause != c.fails || failures[0].Final != c.final ||
					!c.delay(failures[0].Delay) || failures[0].Error == "" || !strings.Contains(failures[0].Error, c.says):
					t.Errorf("failed %+v, released %+v", failures, back)
				}
			})
		})
	}
	t.Run("a result at the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(func(context.Context) (string, error) { return strings.Repeat("x", 1022), nil }) // and two quotes
			r.queue.push(work(1, job.Paid))
			r.start(t)
			after(time.Second)
			r.stop(t)
			if done, _, _ := r.queue.endings(); len(done) != 1 || len(done[0].Result) != 1024 {
				t.Errorf("completed %+v", done)
			}
		})
	})
}

func TestHandlerKnowsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var got handler.Run
		var deadline time.Time
		r := newRig(func(ctx context.Context) (string, error) {
			got, _ = handler.Running(ctx)
			deadline, _ = ctx.Deadline()
			if ctx.Value(ctxKey{}) != "value" {
				t.Error("the handler does not see the values of Start's context")
			}
			return "", ctx.Err()
		})
		r.queue.claim = func(req job.ClaimRequest) (job.ClaimReply, error) {
			<-time.After(time.Second) // the deadline counts from when the claim was sent
			return r.queue.pop(req), nil
		}
		j := work(1, job.Public)
		j.Attempt, j.Generation, j.TraceID, j.Owner, j.RetryCount, j.Checkpoint = 3, 2, "trace", "owner", 1, []byte("half")
		j.Everybody = true
		r.queue.push(j)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "value"))
		if err := r.Start(ctx); err != nil {
			t.Fatal(err)
		}
		cancel() // handlers do not run in Start's context
		after(2 * time.Second)
		r.stop(t)
		want := handler.Run{
			ID: j.ID, Generation: 2, Attempt: 4, RetryCount: 1, MaxRetries: 5, Tier: job.Public, Type: "WORK", Owner: "owner",
			Everybody: true, TraceID: "trace",
			Deadline: begin.Add(10 * time.Second), Saved: []byte("half"), Log: got.Log,
		}
		if got.Save == nil || got.Log == nil {
			t.Errorf("run = %+v, want it to save and to log", got)
		}
		if got.Tell == nil || got.Line == nil {
			t.Errorf("run = %+v, want it to take progress and lines", got)
		}
		got.Tell, got.Line = nil, nil
		if got.Save = nil; !reflect.DeepEqual(got, want) || !deadline.Equal(want.Deadline) {
			t.Errorf("run = %+v, deadline %v, want %+v", got, deadline, want)
		}
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Error("the handler's context had ended")
		}
	})
}

type ctxKey struct{}

// A job of a tier that is not in the plan book runs with the default plan.
func TestHandlerOfADeletedPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		deadlines := map[job.Tier]time.Duration{}
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			deadlines[run.Tier] = run.Deadline.Sub(begin)
			return "", nil
		}, func(c *Config) { c.Slots, c.Plans = 1, &job.PlanBook{} })
		r.queue.push(work(1, job.Public), work(2, "GOLD"))
		r.start(t)
		after(0)
		r.stop(t)
		if deadlines[job.Public] != 50*time.Second || deadlines["GOLD"] != 50*time.Second {
			t.Errorf("deadlines = %v", deadlines)
		}
	})
}

// A job with an unreadable payload or an unknown type neither crashes the process nor is repeated without end.
func TestStrangeJobs(t *testing.T) {
	t.Attr("proves", "F51")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(quick)
		strange, elsewhere := work(1, job.Paid), work(2, job.Paid)
		strange.Payload, elsewhere.Type = []byte("{not json"), "ELSEWHERE"
		r.queue.push(strange, elsewhere)
		r.start(t)
		after(time.Second)
		r.stop(t)
		_, failures, _ := r.queue.endings()
		got := map[job.ID]job.Failure{}
		for _, f := range failures {
			got[f.ID] = f
		}
		if f := got[strange.ID]; f.Cause != job.PermanentError || !f.Final {
			t.Errorf("an unreadable payload: %+v", f)
		}
		if f := got[elsewhere.ID]; f.Cause != job.UnknownJobType || f.Final || f.Delay != 0 {
			t.Errorf("an unknown type: %+v", f)
		}
	})
}

// Goroutines stay for the next job, but every free slot has a goroutine.
func TestSlotsRunAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meet := make(chan struct{})
		r := newRig(func(ctx context.Context) (string, error) {
			run, _ := handler.Running(ctx)
			switch run.ID {
			case work(1, job.Paid).ID:
			case work(2, job.Paid).ID:
				<-meet
			default:
				meet <- struct{}{}
			}
			return "", nil
		})
		r.queue.push(work(1, job.Paid))
		r.start(t)
		synctest.Wait()
		r.queue.push(work(2, job.Paid), work(3, job.Paid))
		r.Wake()
		synctest.Wait()
		if s := r.Stats(); s.Completed != 3 {
			t.Errorf("stats = %+v, want the two jobs that wait for each other done", s)
		}
		r.stop(t)
	})
}
