package events

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

func TestAwait_AnEventEndsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		began := time.Now()
		c := wait(t.Context(), h, someID)
		nothingYet(t, c)
		l.tell(ended("another"), job.Event{ID: someID, Status: job.Processing})
		nothingYet(t, c)
		w.set(someID, job.Completed, 1)
		l.tell(ended(someID))
		hasAnswer(t, c, job.Completed, nil)
		if time.Since(began) != 0 {
			t.Errorf("after %s", time.Since(began))
		}
		hasAnswer(t, wait(t.Context(), h, someID), job.Completed, nil) // the job has ended already
	})
}

func TestAwait_EndsWithTheStateThatStands(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, _ *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		a := <-wait(ctx, h, someID)
		if a.job.Status != job.Pending || a.err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("%s, %v after %s", a.job.Status, a.err, time.Since(began))
		}
		hasAnswer(t, wait(ctx, h, someID), job.Pending, nil) // a context that has ended still gets one read

		c := wait(t.Context(), h, someID)
		nothingYet(t, c)
		h.Drain()
		hasAnswer(t, c, job.Pending, nil)
		hasAnswer(t, wait(t.Context(), h, someID), job.Pending, nil)
		h.Drain()
	})
}

func TestAwait_Errors(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, w *world) {
		hasAnswer(t, wait(t.Context(), h, "unknown"), "", job.ErrNotFound)
		w.fail(job.ErrUnavailable)
		hasAnswer(t, wait(t.Context(), h, someID), "", job.ErrUnavailable)
		w.fail(nil)

		// An outage that begins during the wait is not returned at first,
		c := wait(t.Context(), h, someID)
		nothingYet(t, c)
		w.fail(job.ErrAmbiguous)
		<-time.After(30 * time.Second)
		nothingYet(t, c)
		w.set(someID, job.Failed, 3)
		w.fail(nil)
		<-time.After(onTrouble)
		hasAnswer(t, c, job.Failed, nil)

		// but is returned if it lasts to the end of the wait, because the earlier state may be out of date.
		w.set(someID, job.Pending, 3)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c = wait(ctx, h, someID)
		nothingYet(t, c)
		w.fail(job.ErrUnavailable)
		<-time.After(20 * time.Second)
		hasAnswer(t, c, job.Pending, job.ErrUnavailable)
	})
}

// A store that hangs delays a request by the time limit of one read at most.
func TestAwait_AReadThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, w *world) {
		w.hold = make(chan struct{})
		began := time.Now()
		if a := <-wait(t.Context(), h, someID); !errors.Is(a.err, job.ErrUnavailable) || time.Since(began) != readTimeout {
			t.Errorf("%v after %s", a.err, time.Since(began))
		}
	})
}

func TestAwait_SafetyNet(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, w *world) {
		c := wait(t.Context(), h, someID)
		nothingYet(t, c)
		w.set(someID, job.Completed, 1) // its event is lost
		<-time.After(safetyNet - time.Millisecond)
		nothingYet(t, c)
		<-time.After(time.Millisecond)
		hasAnswer(t, c, job.Completed, nil)
	})
}

func TestAwait_ReadsAgainAfterAGap(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		c := wait(t.Context(), h, someID)
		nothingYet(t, c)
		l.broken <- job.ErrUnavailable
		synctest.Wait()
		w.set(someID, job.Completed, 1) // while there is no subscription
		nothingYet(t, c)
		<-time.After(redialIn)
		hasAnswer(t, c, job.Completed, nil)
	})
}

// An event during a read causes one more read, because the read may have seen an earlier state. A request that
// comes during a read does not get its result.
func TestAwait_SharesReadsButNoStaleOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		w.set(someID, job.Failed, 2)
		w.hold = make(chan struct{})
		first := wait(t.Context(), h, someID)
		synctest.Wait()
		w.set(someID, job.Pending, 2) // the job was requeued
		var later []<-chan answer
		for range 10 {
			later = append(later, wait(t.Context(), h, someID))
		}
		synctest.Wait()
		if n := w.read(); n > 2 {
			t.Fatalf("%d reads for 11 requests", n) // 2, because the source's up came during the first
		}
		w.hold <- struct{}{}
		hasAnswer(t, first, job.Failed, nil)
		w.hold <- struct{}{}
		for _, c := range later {
			nothingYet(t, c)
		}
		if n := w.read(); n != 2 {
			t.Errorf("%d reads, want 2: the first, and one for all who came during it", n)
		}
		l.tell(ended(someID))
		synctest.Wait() // this read sees PENDING
		w.set(someID, job.Completed, 3)
		l.tell(ended(someID))
		w.hold <- struct{}{}
		nothingYet(t, later[0])
		w.hold <- struct{}{}
		for _, c := range later {
			hasAnswer(t, c, job.Completed, nil)
		}
	})
}

func TestFollow_TellsEachChangeUntilTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		var seen []job.Status
		done := make(chan error, 1)
		go func() {
			done <- h.Follow(t.Context(), someID, func(j job.Job) error { seen = append(seen, j.Status); return nil })
		}()
		synctest.Wait()
		for _, s := range []job.Status{job.Processing, job.Processing, job.Scheduled, job.NeedDiscard} {
			w.set(someID, s, 1)
			l.tell(job.Event{ID: someID, Status: s})
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []job.Status{job.Pending, job.Processing, job.Scheduled, job.NeedDiscard}; !slices.Equal(seen, want) {
			t.Errorf("told %v, want %v", seen, want)
		}
	})
}

func TestFollow_HowItEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, w *world) {
		boom := errors.New("the reader is gone")
		if err := h.Follow(t.Context(), someID, func(job.Job) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("an error of each: %v", err)
		}
		if err := h.Follow(t.Context(), "unknown", func(job.Job) error { return nil }); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("an unknown job: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Follow(ctx, someID, func(job.Job) error { return nil }); err != nil {
			t.Errorf("the end of ctx: %v", err)
		}
		told := 0
		h.Drain()
		if err := h.Follow(t.Context(), someID, func(job.Job) error { told++; return nil }); err != nil || told != 1 {
			t.Errorf("draining: told %d times, %v", told, err)
		}
		if n := w.read(); n == 0 {
			t.Error("nothing was read")
		}
	})
}
