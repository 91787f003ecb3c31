package worker

import (
	"context"
	"encoding/json"
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

// pulse is the answer to an entry.
type pulse struct {
	Word       string `json:"word"`
	LeaseForMs int64  `json:"leaseForMs"`
}

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
// that will be soon, so that one call does for most of them.
func (w *Worker) due(now time.Time) (batch []beat, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait = time.Minute
	for _, a := range w.held {
		if !a.lost {
			wait = min(wait, a.beatAt.Sub(now))
		}
	}
	if wait > 0 {
		return nil, wait
	}
	size := 0
	for _, a := range w.held {
		if a.lost || a.beatAt.Sub(now) > ms(a.HeartbeatEveryMs)/2 {
			continue
		}
		if len(batch) == mostBeats || size > mostBeatBytes {
			break
		}
		b := beat{Lease: a.Sealed, Progress: a.told.progress, attempt: a}
		if a.progress != nil {
			b.Save, b.Checkpoint = a.saves, a.progress
			size += len(a.progress)
		}
		batch = append(batch, b)
	}
	return batch, 0
}

// beat makes one call.
func (w *Worker) beat(ctx context.Context, batch []beat) error {
	sent := time.Now()
	var answer struct {
		State  string  `json:"state"`
		Leases []pulse `json:"leases"`
	}
	body := struct {
		Worker string `json:"worker"`
		Leases []beat `json:"leases"`
	}{w.name, batch}
	most := callTime
	for _, b := range batch {
		most = max(min(most, ms(b.attempt.HeartbeatEveryMs)), time.Second)
	}
	err := w.call(ctx, "heartbeat", &body, &answer, most)
	if err == nil {
		w.heard(answer.State)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, b := range batch {
		switch {
		case err != nil || i >= len(answer.Leases):
			b.attempt.beatAt = time.Now().Add(100 * time.Millisecond)
		default:
			if b.attempt.hear(answer.Leases[i], b.Save, sent); b.attempt.told.progress == b.Progress {
				b.attempt.told.progress = nil
			}
		}
	}
	return err
}

// hear takes the answer to a heartbeat. Only the worker's mutex is held.
func (a *attempt) hear(p pulse, save int, sent time.Time) {
	if p.Word == "LOST" {
		// After the end of the handler this is the rule: the report has arrived before the heartbeat.
		if a.lost = !a.done; a.lost {
			a.cancel(ErrLeaseLost)
		}
		a.beatAt = sent.Add(time.Hour)
		return
	}
	a.until = sent.Add(ms(p.LeaseForMs))
	a.beatAt = sent.Add(ms(a.HeartbeatEveryMs))
	a.stored = max(a.stored, save)
	if a.stored == a.saves {
		a.progress = nil
	} else {
		a.beatAt = sent // a handler has saved again meanwhile
	}
	waiting := a.savers[:0]
	for _, s := range a.savers {
		if s.number <= a.stored {
			close(s.stored)
		} else {
			waiting = append(waiting, s)
		}
	}
	a.savers = waiting
	if p.Word == "CANCEL" {
		a.cancel(ErrCancelled)
	}
}

// save hands over a checkpoint; the channel is closed when the server has stored it, or a later one.
func (a *attempt) save(progress json.RawMessage) <-chan struct{} {
	s := saver{stored: make(chan struct{})}
	a.w.mu.Lock()
	a.saves++
	s.number = a.saves
	a.progress, a.beatAt, a.savers = progress, time.Now(), append(a.savers, s)
	a.w.mu.Unlock()
	signal(a.w.beatIt)
	return s.stored
}
