package auth

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tierq/tierq/internal/job"
)

// logging runs a test in synthetic time with a started log of changes.
func logging(t *testing.T, test func(t *testing.T, c *Changes, s *shelf, lines *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		s, lines := &shelf{}, &bytes.Buffer{}
		c := NewChanges(ChangesOptions{Store: s, Now: time.Now, Log: slog.New(slog.NewJSONHandler(lines, nil))})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			for range 2 {
				_ = c.Stop(context.Background()) // the test checks the error itself
			}
		}()
		synctest.Wait()
		test(t, c, s, lines)
	})
}

func change(n int) job.Change {
	return job.Change{Actor: "boss", Action: "tier.put", Target: fmt.Sprint(n), Outcome: "done"}
}

func TestRecord(t *testing.T) {
	logging(t, func(t *testing.T, c *Changes, s *shelf, lines *bytes.Buffer) {
		now := time.Now()
		c.Record(job.Change{Actor: "boss", Name: "the boss", Address: "192.0.2.7", Action: "key.create",
			Target: "abc\nfake line", Outcome: "done", TraceID: "t1"})
		if line := lines.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, `"target":"abc\nfake line"`) ||
			!strings.Contains(line, `"name":"the boss"`) {
			t.Errorf("logged as %s", line)
		}
		synctest.Wait()
		if w := s.written(); len(w) != 1 || w[0].At != now || w[0].Actor != "boss" {
			t.Errorf("written: %+v", w)
		}
		for n := range 250 {
			c.Record(change(n))
		}
		synctest.Wait()
		w := s.written()
		for n, got := range w[1:] {
			if got.Target != fmt.Sprint(n) {
				t.Fatalf("number %d is %s", n, got.Target)
			}
		}
		if len(w) != 251 || s.calls > 120 {
			t.Errorf("%d written in %d calls", len(w), s.calls)
		}
	})
}

// While SQL is away, changes wait in their order, and the waits between two tries grow.
func TestChangesWaitForSQL(t *testing.T) {
	logging(t, func(t *testing.T, c *Changes, s *shelf, lines *bytes.Buffer) {
		s.fail(errAway)
		for n := range 150 {
			c.Record(change(n))
		}
		within(10 * time.Minute)
		if calls := s.calls; calls < 60 || calls > 300 {
			t.Errorf("tried %d times in ten minutes", calls)
		}
		if n := strings.Count(lines.String(), "SQL does not take the log of changes"); n != 1 {
			t.Errorf("said %d times", n)
		}
		s.fail(nil)
		within(changesCeil)
		w := s.written()
		for n, got := range w {
			if got.Target != fmt.Sprint(n) {
				t.Fatalf("number %d is %s", n, got.Target)
			}
		}
		if len(w) != 150 {
			t.Errorf("%d written", len(w))
		}
	})
}

func TestChangesAtStop(t *testing.T) {
	logging(t, func(t *testing.T, c *Changes, s *shelf, _ *bytes.Buffer) {
		s.fail(errAway)
		for n := range 250 {
			c.Record(change(n))
		}
		synctest.Wait()
		if err := c.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "250 entries") {
			t.Errorf("SQL is away: %v", err)
		}
		s.fail(nil)
		if err := c.Stop(t.Context()); err != nil || len(s.written()) != 250 {
			t.Errorf("%v, %d written", err, len(s.written()))
		}
	})
}

// If too many changes wait, the oldest are dropped, and the log says so once.
func TestChangesOverflow(t *testing.T) {
	logging(t, func(t *testing.T, c *Changes, s *shelf, lines *bytes.Buffer) {
		s.fail(errAway)
		for n := range changesHeld + 500 {
			c.Record(change(n))
			if held := c.held(); held > changesHeld {
				t.Fatalf("%d wait", held)
			}
		}
		synctest.Wait()
		if n := strings.Count(lines.String(), "loses entries"); n != 1 || c.held() != changesHeld {
			t.Errorf("said %d times, %d wait", n, c.held())
		}
		s.fail(nil)
		within(changesCeil)
		if w := s.written(); len(w) != changesHeld || w[0].Target != "500" {
			t.Errorf("%d written, the first is %s", len(w), w[0].Target)
		}
	})
}

// Every recorded change fits the columns of the table.
func TestChangesFit(t *testing.T) {
	t.Attr("proves", "A54")
	logging(t, func(t *testing.T, c *Changes, s *shelf, _ *bytes.Buffer) {
		long := strings.Repeat("\xff\u00fc", 1000)
		c.Record(job.Change{
			Actor: long, Name: long, Address: long, Action: long, Target: long, Outcome: long, TraceID: long,
			Before: make([]byte, 2<<20), After: []byte(`{}`),
		})
		synctest.Wait()
		w := s.written()
		if len(w) != 1 || !utf8.ValidString(w[0].Target) || utf8.RuneCountInString(w[0].Target) != 255 ||
			utf8.RuneCountInString(w[0].Outcome) != 16 {
			t.Fatalf("%+v", w)
		}
		if len(w[0].Before) > 100 || string(w[0].After) != `{}` {
			t.Errorf("before %d bytes, after %s", len(w[0].Before), w[0].After)
		}
	})
}

// The waiting changes are bounded in bytes as well; the newest stay.
func TestLargeChangesAreBounded(t *testing.T) {
	logging(t, func(t *testing.T, c *Changes, s *shelf, lines *bytes.Buffer) {
		s.fail(errAway)
		for n := range 100 {
			large := change(n)
			large.After = bytes.Repeat([]byte("1"), 1<<20)
			c.Record(large)
			synctest.Wait()
			if held := c.held(); held > changesBytes>>20 {
				t.Fatalf("%d MiB wait", held)
			}
		}
		if n := strings.Count(lines.String(), "loses entries"); n != 1 || c.held() != changesBytes>>20 {
			t.Errorf("%d lines about it, %d wait", n, c.held())
		}
		s.fail(nil)
		within(changesCeil)
		if w := s.written(); len(w) != changesBytes>>20 || w[0].Target != "84" {
			t.Errorf("%d written, the first %s", len(w), w[0].Target)
		}
	})
}
