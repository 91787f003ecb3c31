package queue_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// logged returns entries of a lease with the numbers from..to, each with a text of so many bytes.
func logged(l job.Lease, from, to, bytes int) (batch []job.LogEntry) {
	for n := from; n <= to; n++ {
		text := fmt.Sprintf("%0*d", bytes, n)
		batch = append(batch, job.LogEntry{LeaseRef: l.Ref(), Number: n, Level: "INFO", Text: text})
	}
	return batch
}

// writes sends entries and wants the same word for each.
func writesLog(t *testing.T, e *queuetest.Env, want job.Word, batch []job.LogEntry) {
	t.Helper()
	for part := range slices.Chunk(batch, job.MaxBatch) {
		words, err := e.Queue.Log(t.Context(), 0, part)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			if w != want {
				t.Fatalf("log: %v, want %s", words, want)
			}
		}
	}
}

// numbersOf returns the numbers of the lines, "attempt.number", with "+n" for a gap of n lines.
func numbersOf(lines []job.LogLine) string {
	var all []string
	for _, l := range lines {
		text := fmt.Sprintf("%d.%d", l.Attempt, l.Number)
		if l.Lost > 0 {
			text += "+" + strconv.Itoa(l.Lost)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func linesOf(t *testing.T, e *queuetest.Env, id job.ID, after int64) []job.LogLine {
	t.Helper()
	lines, err := e.LogLines(t.Context(), id, after)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestLog(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		bystander := e.Start(t, job.Paid)
		now := e.Now(t)
		batch := logged(l, 1, 2, 5)
		batch[0].Age, batch[1].Attrs, batch[1].Level = time.Minute, []byte(`{"n":1}`), "ERROR"
		writesLog(t, e, job.OK, batch)
		writesLog(t, e, job.OK, batch)              // the same call again
		writesLog(t, e, job.OK, logged(l, 5, 6, 1)) // 3 and 4 are lost
		writesLog(t, e, job.OK, []job.LogEntry{{LeaseRef: l.Ref(), Number: 9}})
		writesLog(t, e, job.OK, []job.LogEntry{{LeaseRef: l.Ref(), Level: "INFO", Text: "next"}})
		lines := linesOf(t, e, l.ID, 0)
		if got, want := numbersOf(lines), "1.1 1.2 1.4+2 1.5 1.6 1.9+3 1.10"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if at := now - lines[0].At.UnixMilli(); at < 50_000 || at > 70_000 {
			t.Errorf("the first line is %d ms old", at)
		}
		if lines[1].Level != "ERROR" || lines[1].Text != "00002" || string(lines[1].Attrs) != `{"n":1}` {
			t.Errorf("%+v", lines[1])
		}
		if got := numbersOf(linesOf(t, e, l.ID, lines[3].Seq())); got != "1.6 1.9+3 1.10" {
			t.Errorf("behind 1.5: %s", got)
		}
		if j, err := e.Find(t.Context(), l.ID); err != nil || j.LogBytes == 0 || j.Status != job.Processing {
			t.Errorf("%+v, %v", j, err)
		}
		if got := linesOf(t, e, bystander.ID, 0); len(got) > 0 {
			t.Errorf("the bystander has %v", got)
		}
		e.Finish(t, bystander)

		// The first attempt is taken back: its holder writes nothing more, and the second goes on behind its lines.
		e.Reap(t, job.Crashed, l.ID)
		before := e.Snapshot(t)
		writesLog(t, e, job.Lost, logged(l, 11, 20, 3))
		e.Unchanged(t, before)
		second := e.Take(t, 1)[0]
		writesLog(t, e, job.Lost, logged(l, 11, 20, 3))
		writesLog(t, e, job.OK, logged(second, 1, 1, 3))
		e.Finish(t, second)
		writesLog(t, e, job.Lost, logged(second, 2, 2, 3))
		if got := numbersOf(linesOf(t, e, l.ID, lines[6].Seq())); got != "2.1" {
			t.Errorf("behind the first attempt: %s", got)
		}
		for _, o := range e.Drain(t) {
			want := 0
			if o.ID == l.ID {
				want = 8
			}
			if len(o.Log) != want || (o.LogBytes > 0) != (want > 0) {
				t.Errorf("%s: %d lines go to SQL, want %d", o.ID, len(o.Log), want)
			}
		}
		if got := linesOf(t, e, l.ID, 0); len(got) > 0 {
			t.Errorf("after the acknowledge: %v", got)
		}
	})
}

// A log that is too long loses its oldest lines behind the first hundred, and says how many.
func TestLog_Bounds(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		for from := 1; from <= 10_000; from += 100 {
			writesLog(t, e, job.OK, logged(l, from, from+99, 9))
		}
		lines := linesOf(t, e, l.ID, 0)
		if n := len(lines); n < 1700 || n > job.MaxLogLines {
			t.Fatalf("%d lines", n)
		}
		lost := 0
		for i, line := range lines {
			switch {
			case i < 100 && line.Number != i+1, i == 100 && line.Lost == 0, i != 100 && line.Lost > 0:
				t.Fatalf("line %d is %+v", i, line)
			case i > 100 && line.Number != lines[i-1].Number+1:
				t.Fatalf("line %d comes behind %d", line.Number, lines[i-1].Number)
			}
			lost += line.Lost
		}
		if last := lines[len(lines)-1].Number; last != 10_000 || lost != 10_000-len(lines)+1 {
			t.Errorf("%d lines, %d lost, the last is %d", len(lines), lost, last)
		}

		// Long lines: the bytes are bounded, and so are those of the first lines.
		l = e.Start(t, job.Paid)
		for from := 1; from <= 200; from += 10 {
			writesLog(t, e, job.OK, logged(l, from, from+9, job.MaxLogLine))
		}
		lines = linesOf(t, e, l.ID, 0)
		bytes := 0
		for _, line := range lines {
			bytes += len(line.Text)
		}
		if n := e.Snapshot(t).Counters["PAID:bytes"]; bytes > job.MaxLogBytes || n > 2*job.MaxLogBytes+2000 {
			t.Errorf("%d bytes, %d are counted", bytes, n)
		}
		if lines[14].Number != 15 || lines[15].Lost == 0 || lines[len(lines)-1].Number != 200 {
			t.Errorf("%s", numbersOf(lines))
		}
	})
}

// The log of a job that is tried again, cancelled while it waits, and requeued.
func TestLog_FollowsTheJob(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		writesLog(t, e, job.OK, logged(l, 1, 3, 3))
		failure := job.Failure{LeaseRef: l.Ref(), Cause: job.HandlerError, Error: "no log=7 "}
		if _, err := e.Fail(t.Context(), 0, []job.Failure{failure}); err != nil {
			t.Fatal(err)
		}
		j, err := e.Find(t.Context(), l.ID)
		if err != nil || j.LogBytes == 0 || j.LastError != "no log=7 " || j.Crashes != 0 {
			t.Errorf("%+v, %v", j, err)
		}
		again := e.Take(t, 1)[0]
		if again.Attempt != 2 || again.RetryCount != 1 {
			t.Errorf("claimed %+v", again)
		}
		words, err := e.Fail(t.Context(), 0, []job.Failure{{LeaseRef: again.Ref(), Cause: job.HandlerError, Error: "no",
			Delay: time.Hour}})
		if err != nil || words[0].Word != job.OK {
			t.Fatal(words, err)
		}
		if w := e.Cancels(t, l.ID); w != job.WasCancelled {
			t.Fatal(w)
		}
		out := e.Drain(t)
		if len(out) != 1 || len(out[0].Log) != 3 || out[0].Status != job.Cancelled {
			t.Errorf("%+v", out)
		}
	})
}

// A full Redis takes no lines, and goes on with everything else.
func TestLog_FullRedis(t *testing.T) {
	t.Parallel()
	clients := queuetest.Connect(t, testkit.NewRedis(t, "--appendonly", "no").URL())
	e := queuetest.Open(t, clients, func(*queue.Options) {})
	l := e.Start(t, job.Paid)
	writesLog(t, e, job.OK, logged(l, 1, 1, 3))
	full := func(limit string) {
		t.Helper()
		if err := e.Redis.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1mb")
	if _, err := e.Queue.Log(t.Context(), 0, logged(l, 2, 2, 3)); !job.Outage(err) {
		t.Errorf("a full Redis: %v", err)
	}
	e.Finish(t, l)
	full("0")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		tells := func(l job.Lease, step, done int64, note string, want job.Word) {
			t.Helper()
			b := beat(l, time.Minute)
			b.Step, b.Progress = step, job.NewProgress(done, 100, note)
			if words, err := e.Heartbeat(t.Context(), 0, []job.Beat{b}); err != nil || words[0] != want {
				t.Fatalf("%v, %v", words, err)
			}
		}
		shown := func() string {
			t.Helper()
			j, err := e.Find(t.Context(), l.ID)
			if err != nil {
				t.Fatal(err)
			}
			if j.Progress == nil {
				return "none"
			}
			if ago := e.Now(t) - j.Progress.At.UnixMilli(); ago < 0 || ago > 60_000 {
				t.Errorf("told %d ms ago", ago)
			}
			return fmt.Sprintf("%d of %d %s", j.Progress.Done, j.Progress.Total, j.Progress.Note)
		}
		if got := shown(); got != "none" {
			t.Error(got)
		}
		note := "100 % +1:\n ü"
		tells(l, 2, 7, note, job.OK)
		tells(l, 1, 3, "late", job.OK) // a late copy
		if got := shown(); got != "7 of 100 "+note {
			t.Errorf("%q", got)
		}
		running, err := e.InFlight(t.Context(), 10)
		if err != nil || len(running) != 1 || running[0].Progress == nil || running[0].Progress.Done != 7 {
			t.Errorf("in flight: %+v, %v", running, err)
		}
		if w := e.Cancels(t, l.ID); w != job.Cancel {
			t.Fatal(w)
		}
		tells(l, 3, 8, "x", job.Cancel)
		writesLog(t, e, job.OK, logged(l, 1, 1, 1))
		if got := shown(); got != "8 of 100 x" {
			t.Errorf("%q", got)
		}
		e.Reap(t, job.Crashed, l.ID) // it ends CANCELLED
		tells(l, 9, 99, "zombie", job.Lost)
		if got := shown(); got != "8 of 100 x" {
			t.Errorf("the last of an ended job: %q", got)
		}
		if out := e.Drain(t); len(out) != 1 || out[0].Progress == nil || out[0].Progress.Done != 8 {
			t.Errorf("%+v", out)
		}
		if got := shown(); got != "8 of 100 x" {
			t.Errorf("the last of an acknowledged job: %q", got)
		}

		// A new attempt begins without.
		l = e.Start(t, job.Paid)
		tells(l, 1, 1, "", job.OK)
		if _, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}}); err != nil {
			t.Fatal(err)
		}
		if got := shown(); got != "none" {
			t.Error(got)
		}
		l = e.Take(t, 1)[0]
		if got := shown(); got != "none" {
			t.Error(got)
		}
		e.Finish(t, l)
	})
}

// The end of a first attempt waits for its process, unless Redis has more of the job than the process.
func TestLog_GoesThroughTheOutbox(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		plain, logs, tells := e.Start(t, job.Paid), e.Start(t, job.Paid), e.Start(t, job.Paid)
		writesLog(t, e, job.OK, logged(logs, 1, 1, 1))
		b := beat(tells, time.Minute)
		b.Step, b.Progress = 1, job.NewProgress(1, 2, "")
		if _, err := e.Heartbeat(t.Context(), 0, []job.Beat{b}); err != nil {
			t.Fatal(err)
		}
		e.Finish(t, plain, logs, tells)
		out, err := e.TakeOutbox(t.Context(), 0, job.MaxBatch)
		if err != nil || len(out) != 2 {
			t.Fatalf("%d are offered at once, %v", len(out), err)
		}
		for _, o := range out {
			if (o.ID == logs.ID) != (len(o.Log) == 1) || (o.ID == tells.ID) != (o.Progress != nil) {
				t.Errorf("%+v", o)
			}
		}
	})
}
