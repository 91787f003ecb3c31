package events

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestHub_ListensOnlyWhileSomebodyWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		expect := func(when string, listens, open int) {
			t.Helper()
			synctest.Wait()
			if n, o := l.counts(); n != listens || o != open {
				t.Fatalf("%s: listened %d times, %d open; want %d, %d", when, n, o, listens, open)
			}
		}
		<-time.After(time.Minute)
		expect("nobody waits", 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		a, b := wait(ctx, h, someID), wait(ctx, h, someID)
		s := h.Stream("")
		expect("three wait", 1, 1)
		cancel()
		<-a
		<-b
		<-time.After(time.Minute)
		expect("the stream is left", 1, 1)
		s.Close()
		s.Close()
		<-time.After(linger - time.Second)
		expect("the last left a moment ago", 1, 1)
		h.Stream("").Close()
		<-time.After(linger - time.Second)
		expect("another one came and left", 1, 1)
		<-time.After(2 * time.Second)
		expect("the last left long ago", 1, 0)
		w.set(someID, job.Completed, 1)
		<-wait(t.Context(), h, someID)
		expect("one more", 2, 1)
		<-time.After(linger)
		expect("and gone", 2, 0)
		if n := h.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// A broken subscription is renewed with growing waits. Meanwhile waiting requests read the job every few seconds.
func TestHub_Redials(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		l.dead = true
		c := wait(t.Context(), h, someID)
		<-time.After(20 * time.Second)
		nothingYet(t, c)
		if n, _ := l.counts(); n != 9 { // at 0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 11.3, 16.3 s
			t.Errorf("%d tries in 20 s", n)
		}
		w.set(someID, job.Completed, 1)
		<-time.After(safetyNet)
		hasAnswer(t, c, job.Completed, nil)
		<-time.After(time.Minute)
		before, _ := l.counts()
		<-time.After(time.Minute)
		if n, _ := l.counts(); n != before {
			t.Errorf("%d more tries although nobody waits", n-before)
		}
		l.mu.Lock()
		l.dead = false
		l.mu.Unlock()
		w.set(someID, job.Pending, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		<-wait(ctx, h, someID)
		if _, open := l.counts(); open != 1 {
			t.Error("not taken up again")
		}
	})
}

// A subscription that had stood is renewed after the shortest wait, however often it breaks.
func TestHub_RedialsAtOnceAfterItStood(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, _ *world) {
		s := h.Stream("")
		defer s.Close()
		for n := range 10 {
			synctest.Wait()
			l.broken <- job.ErrAmbiguous
			<-time.After(redialIn)
			synctest.Wait()
			if listens, open := l.counts(); listens != n+2 || open != 1 {
				t.Fatalf("after break %d: listened %d times, %d open", n, listens, open)
			}
		}
	})
}

func TestHub_StartAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.set(someID, job.Pending, 0)
		never := New(Options{Source: newLine(), Finder: w})
		for range 2 {
			if err := never.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := never.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		hasAnswer(t, wait(t.Context(), never, someID), "", job.ErrUnavailable)

		l := newLine()
		h := New(Options{Source: l, Finder: w})
		early := wait(t.Context(), h, someID) // before Start only the safety net reads
		nothingYet(t, early)
		for range 2 {
			if err := h.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n, open := l.counts(); n != 1 || open != 1 {
			t.Errorf("listened %d times, %d open", n, open)
		}
		s := h.Stream("")
		for range 2 {
			if err := h.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		hasAnswer(t, early, job.Pending, nil)
		if m := <-s.C(); !m.Bye {
			t.Errorf("the stream ended with %+v", m)
		}
		if _, open := l.counts(); open != 0 {
			t.Error("still listening")
		}
	})
}

func TestHub_StopIsBoundByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		h := New(Options{Source: deaf(free), Finder: &world{}})
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Stream("")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped: %v", err)
		}
		close(free)
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// deaf is a source that ignores its context.
type deaf chan struct{}

func (d deaf) Listen(context.Context, func([]job.Event), func()) error {
	<-d
	return job.ErrUnavailable
}

// A store that hangs gets a bounded number of reads, and a request that gives up is held for one read's time limit
// at most.
func TestHub_AStoreThatHangs(t *testing.T) {
	t.Attr("proves", "A24")
	inBubble(t, func(t *testing.T, h *Hub, _ *line, w *world) {
		free := make(chan struct{})
		h.Finder = stone(func() { w.mu.Lock(); w.reads++; w.mu.Unlock(); <-free })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var answers []<-chan answer
		for n := range 100 {
			answers = append(answers, wait(ctx, h, job.ID(fmt.Sprint("job ", n))))
		}
		synctest.Wait()
		if n := w.read(); n != maxReaders {
			t.Errorf("%d reads at once", n)
		}
		cancel()
		<-time.After(readTimeout - time.Millisecond)
		nothingYet(t, answers[99])
		<-time.After(time.Millisecond)
		for _, c := range answers {
			hasAnswer(t, c, "", job.ErrUnavailable)
		}
		close(free)
		synctest.Wait()
		if n := w.read(); n != maxReaders {
			t.Errorf("%d reads for nobody", n-maxReaders)
		}
	})
}

// stone is a finder that ignores its context.
type stone func()

func (f stone) Find(context.Context, job.ID) (job.Job, error) { f(); return job.Job{}, nil }

// 2,000 requests that wait for 40 jobs need one subscription, no goroutines except their own and the readers, and
// few reads.
func TestHub_ManyWaiters(t *testing.T) {
	t.Attr("proves", "A24")
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		const waiters, jobs = 2000, 40
		id := func(n int) job.ID { return job.ID(fmt.Sprintf("019de340-01fe-7a58-be69-567cd7d6b7%02x", n%jobs)) }
		for n := range jobs {
			w.set(id(n), job.Pending, 0)
		}
		before := runtime.NumGoroutine()
		answers := make([]<-chan answer, waiters)
		for n := range waiters {
			answers[n] = wait(t.Context(), h, id(n))
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > waiters+maxReaders {
			t.Errorf("%d goroutines for %d requests", n, waiters)
		}
		if n := h.Waiting(); n != waiters {
			t.Errorf("%d wait", n)
		}
		reads := w.read()
		for n := range jobs {
			w.set(id(n), job.Completed, 1)
			l.tell(ended(id(n)))
		}
		for _, c := range answers {
			hasAnswer(t, c, job.Completed, nil)
		}
		if n := w.read() - reads; n != jobs {
			t.Errorf("%d reads for %d events", n, jobs)
		}
		if n, _ := l.counts(); n != 1 {
			t.Errorf("%d subscriptions", n)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.topics) != 0 || len(h.due) != 0 {
			t.Errorf("%d topics, %d due are left", len(h.topics), len(h.due))
		}
	})
}
