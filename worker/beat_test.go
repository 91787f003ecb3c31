package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A checkpoint that the server refuses fails in its own handler, with the server's text. Other leases are kept, and
// other checkpoints are stored: whether the server refuses the entry or the whole heartbeat.
func TestCheckpoint_Refused(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"an entry": false, "a heartbeat": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake(t)
			s.leaseMs = 1500
			s.fault = func(verb string, _ int, body []byte) int {
				if whole && verb == "heartbeat" && strings.Contains(string(body), `"poison"`) {
					return 400
				}
				return 0
			}
			s.refuses = func(b *beat) *refusal {
				if strings.Contains(string(b.Checkpoint), "poison") {
					return &refusal{Status: 400, ErrorCode: "REFUSED", Detail: "by the test"}
				}
				return nil
			}
			s.worker(func(w *Worker) {
				Handle(w, "SAVE", func(ctx context.Context, in string) (string, error) {
					for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
						Progress(ctx, 1, 2, "note")
						err := Checkpoint(ctx, in)
						refused := err != nil && strings.HasSuffix(err.Error(), "the server refuses it: 400 REFUSED: by the test")
						if (in == "poison") != refused || err != nil && !refused {
							return "", fmt.Errorf("%s: %w", in, err)
						}
						rest(ctx, 50*time.Millisecond)
					}
					return in, context.Cause(ctx)
				})
				Handle(w, "WAIT", func(ctx context.Context, _ size) (any, error) {
					rest(ctx, 3*time.Second)
					return 1, context.Cause(ctx)
				})
			})
			for _, in := range []string{"poison", "good", "fine"} {
				s.add("j"+in, "SAVE", `"`+in+`"`)
			}
			s.add("wait", "WAIT", `{}`)
			for _, id := range []string{"jpoison", "jgood", "jfine", "wait"} {
				if got := s.reported(id); !strings.Contains(got, "completed") {
					t.Errorf("%s: %s", id, got)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.saved["lease-jgood"]) < 5 || len(s.saved["lease-jfine"]) < 5 || len(s.saved["lease-jpoison"]) > 0 {
				t.Errorf("saved %v", s.saved)
			}
		})
	}
}

// Progress is sent within a second of a change, and not more often than once a second.
func TestProgress_EachSecond(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.worker(func(w *Worker) {
		Handle(w, "TELL", func(ctx context.Context, in string) (any, error) {
			for n := range 300 {
				Progress(ctx, int64(n), 300, in)
				rest(ctx, 10*time.Millisecond)
			}
			return nil, nil
		})
	})
	for _, id := range []string{"a", "b", "c"} {
		s.add(id, "TELL", `"`+id+`"`)
	}
	s.until("progress", func() bool { return len(s.tells) == 3 })
	for _, id := range []string{"a", "b", "c"} {
		s.reported(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.counts["heartbeat"]; n < 3 || n > 4+3 { // the ends have one each
		t.Errorf("%d heartbeats in 3 s", n)
	}
	for lease, tells := range s.tells {
		if len(tells) < 3 || !strings.Contains(tells[len(tells)-1], "299 of 300") {
			t.Errorf("%s told %q", lease, tells)
		}
	}
}

// The log says why an attempt ended, that its result was not taken, and that its handler still runs.
func TestLog_Ends(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	log := &lines{}
	end := make(chan struct{})
	s.worker(func(w *Worker) {
		Handle(w, "LATE", func(context.Context, size) (any, error) { <-end; return 1, nil })
		Handle(w, "DEAF", func(context.Context, size) (any, error) { <-end; return 1, nil })
		Handle(w, "RESIZE", double)
	}, WithConcurrency(3), log.option())
	s.leaseMs = 600
	s.add("slow", "LATE", `{}`, "endsInMs", "200")
	s.add("deaf", "DEAF", `{}`)
	s.add("good", "RESIZE", `{}`)
	s.reported("good")
	<-time.After(time.Second)
	s.with(func() { s.words["lease-slow"], s.words["lease-deaf"] = "LOST", "LOST" })
	for _, want := range []string{
		`msg="the attempt ended after 0.2 s, its maximum processing time; raise it with maxProcessingSeconds of the ` +
			`queue or maxProcessingTimeMs of the tier" job_id=slow type=LATE`,
		`msg="the lease was lost, another worker may run the job: the server has taken the job back" job_id=deaf type=DEAF`,
		`msg="the handler still runs although its attempt has ended; its slot stays taken" job_id=slow`,
		`msg="the handler still runs although its attempt has ended; its slot stays taken" job_id=deaf`,
	} {
		s.until(want, func() bool { return strings.Contains(log.String(), want) })
	}
	close(end)
	for _, want := range []string{
		`attempt had ended before" job_id=slow type=LATE why="its maximum processing time was over"`,
		`attempt had ended before" job_id=deaf type=DEAF why="its lease was lost"`,
	} {
		s.until(want, func() bool { return strings.Contains(log.String(), want) })
	}
	s.with(func() { s.words["lease-late"] = "" })
	if n := strings.Count(log.String(), "still runs"); n != 2 {
		t.Errorf("%d lines about handlers that still run", n)
	}
	s.add("more", "RESIZE", `{}`)
	s.reported("more")
}

// A report that the server refuses keeps what it meant.
func TestReport_Refused(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(_ string, _ int, body []byte) int {
		if text := string(body); strings.Contains(text, "poison") && !strings.Contains(text, "refused the report") {
			return 400
		}
		return 0
	}
	poison := errors.New("poison")
	const why = "the server refused the report: by the test"
	ends := map[string]struct {
		err  error
		want string
	}{
		"DONE":      {nil, `"message":"` + why + `"},"permanent":true}`},
		"FAILED":    {poison, `"message":"poison; ` + why + `"}}`},
		"RETRY":     {RetryAfter(time.Hour, poison), `"message":"poison; ` + why + `"}}`},
		"PERMANENT": {Permanent(poison), `"message":"poison; ` + why + `"},"permanent":true}`},
		"LATER": {LaterBecause(time.Hour, "poison"),
			`"message":"the handler gave the job back: poison; ` + why + `"}}`},
	}
	s.worker(func(w *Worker) {
		for typ, e := range ends {
			Handle(w, typ, func(context.Context, size) (any, error) { return "poison", e.err })
		}
	})
	for typ := range ends {
		s.add(typ, typ, `{}`)
	}
	for typ, e := range ends {
		if got := s.reported(typ); got != `{"lease":"","failed":{"error":{`+e.want+`}` {
			t.Errorf("%s: %s", typ, got)
		}
	}
}
