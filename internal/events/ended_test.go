package events

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// completed returns a job as the process that ran it passes it to Ended.
func completed(id job.ID) *job.Job {
	return &job.Job{ID: id, Generation: 1, Status: job.Completed, Attempt: 1, Result: []byte("1"), Payload: []byte("p"),
		Checkpoint: []byte("c")}
}

// forEnd waits in the background for a job's end only.
func forEnd(ctx context.Context, h *Hub, id job.ID) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		j, err := h.Await(ctx, id, nil)
		c <- answer{j, err}
	}()
	return c
}

// A waiter for a job that this process completed is answered without a read, and the event causes none either.
func TestEnded_IsAnsweredAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		w.set("another", job.Pending, 0)
		c, other := forEnd(t.Context(), h, someID), forEnd(t.Context(), h, "another")
		var followed []job.Status
		following := make(chan error, 1)
		go func() {
			following <- h.Follow(t.Context(), someID,
				func(j job.Job) error { followed = append(followed, j.Status); return nil })
		}()
		nothingYet(t, c)
		reads := w.read()
		w.set(someID, job.Completed, 1)
		h.Ended(completed(someID))
		l.tell(ended(someID))
		synctest.Wait()
		a := <-c
		if a.err != nil || string(a.job.Result) != "1" || a.job.Attempt != 1 || a.job.Payload != nil ||
			a.job.Checkpoint != nil {
			t.Errorf("answered %+v, %v", a.job, a.err)
		}
		if err := <-following; err != nil || len(followed) != 2 || followed[1] != job.Completed {
			t.Errorf("followed %v, %v", followed, err)
		}
		if n := w.read() - reads; n != 0 {
			t.Errorf("%d reads", n)
		}
		nothingYet(t, other)
		hasAnswer(t, forEnd(t.Context(), h, someID), job.Completed, nil) // a later request reads
		if n := w.read() - reads; n != 1 {
			t.Errorf("%d reads for one who came later", n)
		}
		h.Ended(completed(someID)) // no waiter is left
	})
}

// Ended ignores a job that is not completed or has no result: a read is needed to show it.
func TestEnded_WhatIsNotWholeIsRead(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, _ *line, _ *world) {
		c := forEnd(t.Context(), h, someID)
		nothingYet(t, c)
		for _, j := range []*job.Job{{ID: someID, Status: job.Completed},
			{ID: someID, Status: job.Failed, Result: []byte("1")}} {
			h.Ended(j)
			nothingYet(t, c)
		}
	})
}

// A read that began before Ended does not overwrite the job's end, and a request that came during that read does
// not wait for another one.
func TestEnded_DuringARead(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		w.hold = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stays := make(chan answer, 1)
		go func() {
			j, err := h.Await(ctx, someID, func(*job.Job) bool { return false })
			stays <- answer{j, err}
		}()
		synctest.Wait()
		c := forEnd(t.Context(), h, someID)
		synctest.Wait()
		h.Ended(completed(someID))
		hasAnswer(t, c, job.Completed, nil)
		close(w.hold) // the read saw PENDING
		reads := w.read()
		l.tell(ended(someID))
		synctest.Wait()
		if n := w.read() - reads; n != 0 {
			t.Errorf("%d reads of a job that moves no more", n)
		}
		w.set(someID, job.Completed, 1)
		hasAnswer(t, forEnd(t.Context(), h, someID), job.Completed, nil) // this waiter has no state yet
		<-time.After(time.Second)
		hasAnswer(t, stays, job.Completed, nil)
	})
}

// A waiter for the end only causes no reads while the job moves, and gets the present state when its time is over.
func TestAwait_ForTheEndAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone, leave := context.WithCancel(t.Context())
		left, c, later := wait(gone, h, someID), forEnd(ctx, h, someID), forEnd(t.Context(), h, someID)
		nothingYet(t, c)
		leave() // this waiter followed every change
		<-left
		reads := w.read()
		for _, s := range []job.Status{job.Processing, job.Scheduled, job.Pending, job.Processing} {
			w.set(someID, s, 2)
			l.tell(job.Event{ID: someID, Status: s})
			synctest.Wait()
		}
		if n := w.read() - reads; n != 0 {
			t.Errorf("%d reads while it moves", n)
		}
		<-time.After(time.Second)
		hasAnswer(t, c, job.Processing, nil)
		if n := w.read() - reads; n != 1 {
			t.Errorf("%d reads for how it stands", n)
		}
		w.set(someID, job.NeedDiscard, 2)
		l.tell(job.Event{ID: someID, Status: job.Failed})
		hasAnswer(t, later, job.NeedDiscard, nil)
	})
}

// The state at the end of a wait does not come from a read that began before the job moved.
func TestAwait_TheLastLookIsFresh(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), safetyNet+time.Second)
		defer cancel()
		c := forEnd(ctx, h, someID)
		nothingYet(t, c)
		hold := make(chan struct{})
		w.mu.Lock()
		w.hold = hold
		w.mu.Unlock()
		<-time.After(safetyNet) // a read is under way, which saw PENDING
		synctest.Wait()
		w.set(someID, job.Processing, 1)
		l.tell(job.Event{ID: someID, Status: job.Processing})
		<-time.After(time.Second)
		synctest.Wait()
		hold <- struct{}{}
		nothingYet(t, c)
		hold <- struct{}{}
		hasAnswer(t, c, job.Processing, nil)
	})
}

// At the end of a wait, a job that has not moved since its last read is not read again. If it has moved, the wait
// lasts at most one read longer, and not at all when the process drains.
func TestAwait_TheLastLook(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), safetyNet+time.Second)
		defer cancel()
		c := forEnd(ctx, h, someID)
		nothingYet(t, c)
		l.tell(job.Event{ID: someID, Status: job.Scheduled})
		<-time.After(safetyNet)
		synctest.Wait()
		reads := w.read()
		<-time.After(time.Second)
		hasAnswer(t, c, job.Pending, nil)
		if n := w.read() - reads; n != 0 {
			t.Errorf("%d reads of a job that has not moved since the last", n)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.set("another", job.Pending, 0)
		c, drained := forEnd(ctx, h, someID), forEnd(t.Context(), h, "another")
		nothingYet(t, c)
		l.tell(job.Event{ID: someID, Status: job.Processing}, job.Event{ID: "another", Status: job.Processing})
		w.mu.Lock()
		w.hold = make(chan struct{})
		w.mu.Unlock()
		<-time.After(time.Second + readTimeout - time.Millisecond)
		nothingYet(t, c)
		<-time.After(time.Millisecond)
		hasAnswer(t, c, job.Pending, job.ErrUnavailable)
		h.Drain()
		hasAnswer(t, drained, job.Pending, nil)
	})
}
