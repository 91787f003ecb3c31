package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
