package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) option() Option { return WithLog(slog.New(slog.NewTextHandler(l, nil))) }

// odd are answers to any call.
var odd = []string{
	`{}`, `[]`, `null`, `<html>ok</html>`, `{"jobs":[{"jobId":"j`, `7`,
	`{"jobs":null,"leases":null,"reports":null,"reported":null}`,
	`{"state":7,"jobs":{},"leases":"x","reports":7,"reported":{},"heldMs":"x","retryAfterMs":"x"}`,
	`{"jobs":[null,7,{}],"leases":[null,7,{}],"reports":[null,7,{}],"reported":[null,7,{}],"heldMs":-1,"retryAfterMs":-1}`,
	`{"leases":[{"word":"MAYBE","leaseForMs":9}],"reports":[{"error":{"status":"x"}}],"heldMs":1e300}`,
	`{"leases":[{"word":"OK","leaseForMs":"x"}]}`, `{"leases":[{"word":"OK","leaseForMs":1e300}]}`,
	`{"leases":[{"word":"OK"}]}`, `{"leases":[{"word":"OK","leaseForMs":-1}]}`,
}

// The worker lives through odd answers to all of its calls, without many calls, and goes on when answers are good.
func TestAnswers_Odd(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"claim", "heartbeat", "report"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			s.leaseMs = 60_000
			last := 0
			s.raw = func(called string, n int) string {
				if called != verb || n > len(odd) || verb == "report" && n > 6 {
					return ""
				}
				last = n
				return odd[(n-1)%len(odd)]
			}
			begun := time.Now()
			s.add("first", "RESIZE", `{"Width":1}`)
			s.worker(func(w *Worker) {
				Handle(w, "RESIZE", double)
				Handle(w, "SAVE", func(ctx context.Context, _ size) (any, error) { return nil, Checkpoint(ctx, 1) })
			}, WithConcurrency(1))
			s.add("save", "SAVE", `{}`)
			for _, id := range []string{"first", "save"} {
				if got := s.reported(id); !strings.Contains(got, "completed") {
					t.Errorf("%s: %s", id, got)
				}
			}
			s.until("the answers are good again", func() bool { return verb == "report" || s.counts[verb] > len(odd) })
			s.with(func() {
				if took := time.Since(begun); last > 6 && took < 3*time.Second {
					t.Errorf("%d odd answers in %v", last, took)
				}
			})
		})
	}
}

// A job that cannot be read is not started, nor one that the server hands out twice or unasked. No slot is lost.
func TestClaim_OddJobs(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	good := `"leaseForMs":30000,"heartbeatEveryMs":9000,"endsInMs":60000`
	var jobs []string
	for i, members := range []string{
		`"jobId":"1","type":"RUN",` + good, `"type":"RUN","lease":"a",` + good, `"jobId":"1","lease":"b",` + good,
		`"jobId":"1","type":"RUN","lease":"c","leaseForMs":30000,"heartbeatEveryMs":9000`,
		`"jobId":"1","type":"RUN","lease":"d","leaseForMs":"x","heartbeatEveryMs":9000,"endsInMs":9000`,
		`"jobId":"1","type":"RUN","lease":"e","leaseForMs":9000,"heartbeatEveryMs":-1,"endsInMs":9000`,
		`"jobId":"1","type":"RUN","lease":"f","leaseForMs":9000,"heartbeatEveryMs":9000,"endsInMs":1e300`,
		`"jobId":"1","type":"RUN","lease":"g","leaseForMs":9000,"heartbeatEveryMs":9000,"endsInMs":9e15`,
		`"jobId":7,"type":"RUN","lease":"h",` + good, `"jobId":"1","type":"RUN","lease":"i","attempt":"x",` + good,
		`"jobId":"ok","type":"RUN","lease":"lease-ok",` + good, `"jobId":"ok","type":"RUN","lease":"lease-ok",` + good,
		`"jobId":"x","type":"RUN","lease":"lease-x",` + good, `"jobId":"more","type":"RUN","lease":"lease-more",` + good,
	} {
		jobs = append(jobs, fmt.Sprintf(`{"queue":"q%d",%s}`, i, members))
	}
	s.raw = func(verb string, n int) string {
		if verb == "claim" && n <= 4 {
			return `{"retryAfterMs":1,"jobs":[` + strings.Join(jobs, ",") + `]}`
		}
		return ""
	}
	var ran sync.Map
	var twice atomic.Int64
	log := &lines{}
	s.worker(func(w *Worker) {
		Handle(w, "RUN", func(ctx context.Context, _ size) (any, error) {
			j, _ := Running(ctx)
			if _, again := ran.Swap(j.ID, true); again {
				twice.Add(1)
			}
			return nil, nil
		})
	}, WithConcurrency(2), log.option())
	for _, id := range []string{"ok", "x", "more"} {
		s.reported(id)
	}
	s.add("later", "RUN", `{}`)
	s.reported("later")
	if _, bad := ran.Load("1"); bad || twice.Load() > 0 {
		t.Errorf("a job that cannot be read ran: %v; %d ran twice", bad, twice.Load())
	}
	if !strings.Contains(log.String(), "cannot be read") || !strings.Contains(log.String(), "handed out twice") {
		t.Errorf("the log is %s", log)
	}
}

// A server that holds a claim hands out the whole time of an attempt, and of its lease.
func TestTimes_Held(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.held, s.leaseMs = 800*time.Millisecond, 1500 // 2 s of lease without the time that a heartbeat is held
	s.add("j", "WAIT", `{}`, "endsInMs", "2700")
	left := make(chan time.Duration, 1)
	s.worker(func(w *Worker) {
		Handle(w, "WAIT", func(ctx context.Context, in size) (any, error) {
			begun := time.Now()
			out, err := untilEnded(ctx, in)
			if _, bounded := ctx.Deadline(); !bounded || !errors.Is(err, ErrMaxTime) ||
				!errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("%v, %v", err, ctx.Err())
			}
			left <- time.Since(begun)
			return out, err
		})
	})
	if got := <-left; got < 2300*time.Millisecond || got > 3*time.Second {
		t.Errorf("the attempt ended after %v of 2.7 s", got)
	}
	for text, want := range map[string]time.Duration{ // no answer is held for longer than it took, or before it was sent
		`{}`: 0, `{"heldMs":-5}`: 0, `{"heldMs":1e300}`: 2 * time.Second, `{"heldMs":1500}`: 1500 * time.Millisecond,
	} {
		var h held
		sent := time.Now().Add(-2 * time.Second)
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Error(err)
		}
		if got := h.since(sent).Sub(sent); got < want || got > want+100*time.Millisecond {
			t.Errorf("%s: counts from %v", text, got)
		}
	}
}

// A queue that no admin has declared is claimed for ten seconds, and then the worker says what to type.
func TestRun_UnknownQueue(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	body := `{"status":404,"errorCode":"UNKNOWN_QUEUE","detail":"there is no queue \"pictures\""}`
	refuse := true
	s.unknown = func(verb string) string {
		if verb == "claim" && refuse {
			return body
		}
		return ""
	}
	s.add("j", "RESIZE", `{}`)
	w := New(s.URL, []string{"others", "pictures"}, WithLog(slog.New(slog.DiscardHandler)))
	Handle(w, "RESIZE", double)
	Handle(w, "ANOTHER", double)
	begun, ended := time.Now(), make(chan error)
	go func() { ended <- w.Run(t.Context()) }()
	time.AfterFunc(5*time.Second, func() { s.with(func() { refuse = false }) })
	s.reported("j")
	s.with(func() { refuse = true })
	s.add("k", "RESIZE", `{}`)
	err := <-ended
	want := `there is no queue "pictures"; declare the queue first: tierq queues declare pictures --type RESIZE`
	if took := time.Since(begun); err == nil || !strings.HasSuffix(err.Error(), want) || took < 15*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
