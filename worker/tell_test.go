package worker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a handler tells comes before its report: the last progress, and the lines, each once and in their order, over
// calls that fail.
func TestProgressAndLogger(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(verb string, n int, _ []byte) int {
		switch {
		case verb == "log" && n == 1:
			return 503
		case verb == "log" && n == 2:
			return 1 // carried out, and the answer is lost
		}
		return 0
	}
	s.add("1", "RESIZE", `{}`)
	s.add("2", "QUIET", `{}`)
	s.worker(func(w *Worker) {
		Handle(w, "RESIZE", func(ctx context.Context, in size) (size, error) {
			Progress(ctx, 1, 9, "begins")
			log := Logger(ctx)
			log.Debug("not for users")
			log.Info("one", "n", 1)
			<-time.After(1100 * time.Millisecond)
			log.With("page", 2).Error(strings.Repeat("ü", mostLine))
			Progress(ctx, 9, 9, strings.Repeat("x", 300))
			return in, nil
		})
		Handle(w, "QUIET", double)
	})
	s.reported("1")
	s.reported("2")
	s.mu.Lock()
	defer s.mu.Unlock()
	want := []string{`1 INFO one{"n":1}`, "2 ERROR " + strings.Repeat("ü", mostLine/2)}
	if got := s.logs["lease-1"]; !slices.Equal(got, want) {
		t.Errorf("%.300q", got)
	}
	if got := s.tells["lease-1"]; len(got) == 0 || got[len(got)-1] != fmt.Sprint("2 9 of 9 ", strings.Repeat("x", 200)) {
		t.Errorf("told %q", got)
	}
	if len(s.logs["lease-2"])+len(s.tells["lease-2"]) > 0 {
		t.Errorf("a quiet handler told %q, %q", s.logs["lease-2"], s.tells["lease-2"])
	}
}

// A server that takes no lines delays an end by two seconds at most; lines that do not fit are counted.
func TestLogger_Floods(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	refuse := true
	s.fault = func(verb string, _ int, _ []byte) int {
		if verb == "log" && refuse {
			return 503
		}
		return 0
	}
	s.add("1", "FLOOD", `{}`)
	s.worker(func(w *Worker) {
		Handle(w, "FLOOD", func(ctx context.Context, in size) (size, error) {
			for n := range 5000 {
				Logger(ctx).Info(fmt.Sprint(n))
			}
			s.mu.Lock()
			refuse = false
			s.mu.Unlock()
			return in, nil
		})
	})
	s.reported("1")
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.logs["lease-1"]
	if len(got) != mostWaiting+1 || got[0] != "1 INFO 0" ||
		got[mostWaiting-1] != "1000 INFO 999" || got[mostWaiting] != "5000 lost" {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
}

// A server that refuses a call for the lines of one job gets the lines of the other jobs. The refused lines are counted
// as lost, and the job's later lines arrive.
func TestLogger_Refused(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(verb string, _ int, body []byte) int {
		if verb == "log" && strings.Contains(string(body), "poison") {
			return http.StatusUnprocessableEntity
		}
		return 0
	}
	for _, id := range []string{"1", "2", "3"} {
		s.add(id, "LOG", `{"width":`+id+`}`)
	}
	var logged, seen sync.WaitGroup // all handlers log before the first call, and end after it
	logged.Add(3)
	seen.Add(1)
	var of *Worker
	s.worker(func(w *Worker) {
		of = w
		Handle(w, "LOG", func(ctx context.Context, in size) (size, error) {
			Logger(ctx).Info(map[bool]string{true: "poison", false: "good"}[in.Width == 2])
			Logger(ctx).Info("second")
			logged.Done()
			logged.Wait()
			seen.Wait()
			Logger(ctx).Info("third")
			return in, nil
		})
	})
	s.until("the lines that the server takes", func() bool {
		return len(s.logs["lease-1"]) == 2 && len(s.logs["lease-2"]) == 1 && len(s.logs["lease-3"]) == 2
	})
	s.until("the worker reads the answers", func() bool {
		of.mu.Lock()
		defer of.mu.Unlock()
		for _, a := range of.held {
			if len(a.told.lines)+a.told.dropped > 0 {
				return false
			}
		}
		return true
	})
	seen.Done()
	for _, id := range []string{"1", "2", "3"} {
		s.reported(id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for lease, want := range map[string][]string{
		"lease-1": {"1 INFO good", "2 INFO second", "3 INFO third"}, "lease-2": {"2 lost", "3 INFO third"},
		"lease-3": {"1 INFO good", "2 INFO second", "3 INFO third"},
	} {
		if got := s.logs[lease]; !slices.Equal(got, want) {
			t.Errorf("%s has %q", lease, got)
		}
	}
}

// Lines that the server cannot store now, beside those of another job that it stores, are sent again.
func TestLogger_Away(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.away = map[string]int{"lease-1": 3}
	s.add("1", "LOG", `{}`)
	s.add("2", "LOG", `{}`)
	s.worker(func(w *Worker) {
		Handle(w, "LOG", func(ctx context.Context, in size) (size, error) {
			Logger(ctx).Info("one")
			s.until("the lines", func() bool { return len(s.logs) == 2 })
			return in, nil
		})
	})
	s.reported("1")
	s.reported("2")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := fmt.Sprint(s.logs, s.away["lease-1"]); got != "map[lease-1:[1 INFO one] lease-2:[1 INFO one]] 0" {
		t.Error(got)
	}
}

// The lines are lost if the server understands none of them, and a handler's end waits for two answers only.
func TestLogger_RefusesAll(t *testing.T) {
	t.Parallel()
	s := newFake(t)
	s.fault = func(verb string, _ int, _ []byte) int {
		if verb == "log" {
			return http.StatusNotFound
		}
		return 0
	}
	s.add("1", "LOG", `{}`)
	s.worker(func(w *Worker) {
		Handle(w, "LOG", func(ctx context.Context, in size) (size, error) {
			Logger(ctx).Info("one")
			return in, nil
		})
	})
	s.reported("1")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts["log"] != 2 { // the line, and that it is lost
		t.Errorf("%d calls", s.counts["log"])
	}
}
