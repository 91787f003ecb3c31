package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// fakeLogs keeps the lines of jobs as the script does.
type fakeLogs struct {
	mu     sync.Mutex
	answer func(call int) (job.Word, error)
	calls  int
	lines  []string // "number text", or "number lost"
	most   int      // lines in one call
	hold   chan struct{}
}

func (f *fakeLogs) Log(ctx context.Context, _ int, batch []job.LogEntry) ([]job.Word, error) {
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
			return nil, job.ErrAmbiguous
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	f.most = max(f.most, len(batch))
	word := job.OK
	if f.answer != nil {
		var err error
		if word, err = f.answer(f.calls); err != nil {
			return nil, err
		}
	}
	words := make([]job.Word, len(batch))
	for i, e := range batch {
		if words[i] = word; word == job.OK {
			text := "lost"
			if e.Level != "" {
				text = e.Level + " " + e.Text + string(e.Attrs)
			}
			f.lines = append(f.lines, fmt.Sprint(e.Number, " ", text))
		}
	}
	return words, nil
}

func (f *fakeLogs) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.lines, ", ")
}

// logging returns a rig whose handlers' lines go to a fake.
func logging(run func(ctx context.Context) (string, error)) (*rig, *fakeLogs) {
	r, f := newRig(run), &fakeLogs{}
	r.Pool.cfg.Logs = f
	return r, f
}

func TestLinesOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := logging(func(ctx context.Context) (string, error) {
			log := handler.Logger(ctx)
			log.Debug("not for users")
			log.Info("begins", "n", 1)
			<-time.After(1500 * time.Millisecond)
			log.With("page", 2).WithGroup("g").Warn("half way", "k", "v")
			log.Error(strings.Repeat("x", 2*job.MaxLogLine))
			return "", nil
		})
		r.queue.push(work(1, job.Public))
		r.start(t)
		after(1100 * time.Millisecond)
		if got := f.seen(); got != `1 INFO begins{"n":1}` {
			t.Errorf("after a second: %q", got)
		}
		after(500 * time.Millisecond)
		want := `1 INFO begins{"n":1}, 2 WARN half way{"page":2,"g":{"k":"v"}}, 3 ERROR ` +
			strings.Repeat("x", job.MaxLogLine)
		if got := f.seen(); got != want {
			t.Errorf("%q", got)
		}
		if done, _, _ := r.queue.endings(); len(done) != 1 { // the ending came right behind its lines
			t.Errorf("completed %+v", done)
		}
		r.stop(t)
		if offered, _ := r.recorder.seen(); len(offered) > 0 { // its log is in Redis only
			t.Errorf("offered %v", offered)
		}
	})
}

// A store that does not answer delays neither a handler nor, by more than a second, its ending. What does not fit is
// lost, and counted.
func TestLinesOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took time.Duration
		r, f := logging(func(ctx context.Context) (string, error) {
			begin := time.Now()
			for n := range 10_000 {
				handler.Logger(ctx).Info(fmt.Sprint(n))
			}
			took = time.Since(begin)
			<-time.After(3 * time.Second)
			return "", nil
		})
		f.hold = make(chan struct{})
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(2 * time.Second)
		if n := r.waitingBytes.Load(); took != 0 || n > mostWaitingBytes {
			t.Errorf("10,000 lines took %v, %d bytes wait", took, n)
		}
		close(f.hold)
		after(10 * time.Second)
		r.stop(t)
		lines := strings.Split(f.seen(), ", ")
		if len(lines) != mostWaitingLines+1 || lines[0] != "1 INFO 0" ||
			lines[mostWaitingLines] != "10000 lost" || f.most > job.MaxBatch {
			t.Errorf("%d lines, the last is %q, %d in a call", len(lines), lines[len(lines)-1], f.most)
		}
		if n := r.waitingBytes.Load(); n != 0 {
			t.Errorf("%d bytes wait still", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, f := logging(func(ctx context.Context) (string, error) {
			handler.Logger(ctx).Info("x")
			return "", nil
		})
		f.answer = func(int) (job.Word, error) { return "", job.ErrUnavailable }
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(flushBound + 100*time.Millisecond)
		if done, _, _ := r.queue.endings(); len(done) != 1 {
			t.Errorf("completed %+v", done)
		}
		r.stop(t)
	})
}

func TestLinesOfALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := logging(func(ctx context.Context) (string, error) {
			for n := range 500 {
				handler.Logger(ctx).Info(fmt.Sprint(n))
				<-time.After(10 * time.Millisecond)
			}
			return "", nil
		})
		f.answer = func(call int) (job.Word, error) {
			switch call {
			case 1:
				return job.OK, nil
			case 2:
				return "", errors.New("the script failed")
			}
			return job.Lost, nil
		}
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(10 * time.Second)
		r.stop(t)
		if f.calls != 3 || strings.Count(f.seen(), ",") < 90 {
			t.Errorf("%d calls, %q", f.calls, f.seen())
		}
	})
}

// The last progress goes along with a heartbeat, and the very last with the ending.
func TestProgressOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(ctx context.Context) (string, error) {
			for n := range 10 {
				handler.Progress(ctx, int64(n), 10, "note")
				<-time.After(90 * time.Millisecond)
			}
			handler.Progress(ctx, 10, 10, "")
			return "", nil
		})
		r.queue.push(work(1, job.Paid))
		r.start(t)
		after(5 * time.Second)
		r.stop(t)
		var seen []string
		for _, b := range r.pulse.seen() {
			if b.Progress != nil {
				seen = append(seen, fmt.Sprint(b.Step, ":", b.Progress.Done))
			}
		}
		if got := strings.Join(seen, " "); got != "6:5 11:10" {
			t.Errorf("heartbeats had %q", got)
		}
		offered, _ := r.recorder.seen()
		if done, _, _ := r.queue.endings(); len(done) != 1 || len(offered) != 0 {
			t.Errorf("completed %+v, offered %v", done, offered)
		}
	})
}
