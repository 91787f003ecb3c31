package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The bounds of a heartbeat: its leases, and the bytes of its checkpoints.
const (
	mostBeats     = 1000
	mostBeatBytes = 4 << 20
)

// beat is an entry of a heartbeat.
type beat struct {
	Lease      string          `json:"lease"`
	Save       int             `json:"save,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Progress   *progressed     `json:"progress,omitempty"`
	attempt    *attempt
}

// says reports whether an entry has more than a lease.
func (b *beat) says() bool { return b.Save > 0 || b.Progress != nil }

// beats sends heartbeats until ctx ends.
func (w *Worker) beats(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		batch, wait := w.due(time.Now())
		if len(batch) == 0 {
			timer := time.NewTimer(wait)
			select {
			case <-w.beatIt:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		if err := w.beat(ctx, batch); err != nil && ctx.Err() == nil {
			failures++
			w.log.Warn("a heartbeat was not answered", "jobs", len(batch), "err", err)
			rest(ctx, min(pause(failures, err), time.Second)) // the leases do not wait for longer
			continue
		}
		failures = 0
	}
}

// due returns the entries of the next heartbeat, or how long nothing is due. With the first lease that is due go all
// that will be soon, so that one call does for most of them. Leases go before the heartbeats of their own that some
// checkpoints need.
func (w *Worker) due(now time.Time) (batch []beat, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait = time.Minute
	var alone *attempt
	for _, a := range w.held {
		if a.lost {
			continue
		}
		wait = min(wait, a.beatAt.Sub(now))
		if a.sayAt.IsZero() {
			continue
		}
		if a.alone && (alone == nil || a.sayAt.Before(alone.sayAt)) {
			alone = a
		}
		if !a.alone {
			wait = min(wait, a.sayAt.Sub(now))
		}
	}
	switch {
	case wait > 0 && alone == nil:
		return nil, wait
	case wait > 0 && alone.sayAt.After(now):
		return nil, min(wait, alone.sayAt.Sub(now))
	case wait > 0:
		return []beat{alone.beat(true, now)}, 0
	}
	size := 0
	for _, a := range w.held {
		says := !a.alone && !a.sayAt.IsZero()
		if a.lost || !says && a.beatAt.Sub(now) > ms(a.HeartbeatEveryMs)/2 {
			continue
		}
		if len(batch) == mostBeats || size > mostBeatBytes {
			break
		}
		b := a.beat(says, now)
		size += len(b.Checkpoint)
		batch = append(batch, b)
	}
	return batch, 0
}

// beat returns the attempt's entry of a heartbeat, which may take the checkpoint and the progress along. w.mu is held.
func (a *attempt) beat(says bool, now time.Time) beat {
	b := beat{Lease: a.Sealed, attempt: a}
	if says && a.checkpoint != nil {
		b.Save, b.Checkpoint = a.saves, a.checkpoint
	}
	if b.Progress = a.told.progress; !says || b.Progress == nil {
		b.Progress = nil
		return b
	}
	a.w.toldAt = now
	if b.Progress.Step == 0 {
		a.told.steps++
		b.Progress.Step = a.told.steps
	}
	return b
}

// beat makes one call.
func (w *Worker) beat(ctx context.Context, batch []beat) error {
	var answer beatAnswer
	body := struct {
		Worker string `json:"worker"`
		Leases []beat `json:"leases"`
	}{w.name, batch}
	most := callTime
	for _, b := range batch {
		most = max(min(most, ms(b.attempt.HeartbeatEveryMs)), time.Second)
	}
	sent := time.Now()
	err := w.call(ctx, "heartbeat", &body, &answer, most)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.final() && w.beatRefused(batch, refused) {
		return nil
	}
	from := answer.since(sent)
	w.heard(answer.State.v)
	var lines []func()
	w.mu.Lock()
	for i := range batch {
		a := batch[i].attempt
		if p := answer.pulse(i); err == nil && p != nil {
			lines = append(lines, a.hear(p, &batch[i], from)...)
			continue
		}
		a.beatAt = time.Now().Add(leastBeatEvery)
		if !a.sayAt.IsZero() {
			a.sayAt = a.beatAt
		}
	}
	w.mu.Unlock()
	for _, line := range lines {
		line()
	}
	if err == nil && answer.lacks(len(batch)) {
		err = errors.New("the answer lacks leases, or is not understood")
	}
	return err
}

// beatRefused handles a heartbeat that the server refuses as a whole. It returns false if that had only leases. A
// checkpoint or a progress may be the reason: if it went in a heartbeat of its own, it is given up; otherwise the
// leases are extended without any, and then each goes in a heartbeat of its own.
func (w *Worker) beatRefused(batch []beat, why *refusal) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range batch {
		again = again || batch[i].says()
	}
	for i := range batch {
		if a := batch[i].attempt; again {
			a.beatAt = time.Now()
			if len(batch) == 1 {
				a.answered(&batch[0], why)
			}
			a.alone = a.alone || batch[i].says()
		}
	}
	return again
}

// hear takes the answer to an entry. The worker's mutex is held; the lines are for the log, without it.
func (a *attempt) hear(p *pulse, b *beat, from time.Time) (lines []func()) {
	if p.Word == "LOST" {
		// After the end of the handler this is the rule: the report has arrived before the heartbeat.
		if a.lost = !a.done; a.lost {
			if context.Cause(a.ctx) == nil {
				a.cancel(&ended{ErrLeaseLost, a, takenBack})
				why := p.Error
				lines = append(lines, func() { a.warn(takenBack, why.attrs()...) })
			}
			time.AfterFunc(stillAfter, a.still)
		}
		a.beatAt, a.sayAt = from.Add(time.Hour), time.Time{}
		return lines
	}
	held := min(ms(p.LeaseForMs), mostLease)
	a.until, a.beatAt = from.Add(held), a.nextBeat(from, held)
	if p.Word == "CANCEL" {
		a.cancel(ErrCancelled)
	}
	if p.Error != nil && p.Error.forNow() {
		a.sayAt = time.Now().Add(time.Second)
		return nil
	}
	if a.answered(b, p.Error); p.Error != nil {
		lines = append(lines, func() { a.warn("the server refuses a checkpoint or a progress", p.Error.attrs()...) })
	} else if b.says() {
		a.alone = false
	}
	return lines
}

// answered takes note that the server has the checkpoint and the progress of an entry, or why it refuses them: then the
// progress goes once more, without the checkpoint. w.mu is held.
func (a *attempt) answered(b *beat, refused *refusal) {
	var err error
	if refused != nil {
		err = fmt.Errorf("the server refuses it: %w", refused)
	}
	waiting := a.savers[:0]
	for _, s := range a.savers {
		if s.number <= b.Save {
			s.answered <- err
		} else {
			waiting = append(waiting, s)
		}
	}
	if a.savers = waiting; a.saves == b.Save {
		a.checkpoint = nil
	}
	if a.told.progress == b.Progress && (refused == nil || b.Save == 0) {
		a.told.progress = nil
	}
	switch {
	case a.checkpoint != nil:
		a.sayAt = time.Now()
	case a.told.progress != nil:
		a.sayAt = a.w.tellAt(time.Now())
	default:
		a.sayAt = time.Time{}
	}
}

// save hands over a checkpoint. The channel gets nil when the server has stored it, or a later one.
func (a *attempt) save(checkpoint json.RawMessage) <-chan error {
	s := saver{answered: make(chan error, 1)}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.done || a.lost {
		s.answered <- ErrLeaseLost
		return s.answered
	}
	a.saves++
	s.number = a.saves
	a.checkpoint, a.sayAt, a.savers = checkpoint, time.Now(), append(a.savers, s)
	signal(a.w.beatIt)
	return s.answered
}
