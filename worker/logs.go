package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// How the lines that handlers log get to the server.

// logEntry has the lines of a lease in a call.
type logEntry struct {
	Lease   string `json:"lease"`
	From    int    `json:"from"`
	Lines   []any  `json:"lines"` // nil = lines up to this one are lost
	attempt *attempt
	kept    int // lines that waited
	lost    int // lines that did not fit
	size    int
}

// logAnswer is the server's answer about the lines of one lease.
type logAnswer struct {
	Error *refusal `json:"error"` // nil = it has them, or stores none of this queue
}

// sendLogs sends the lines that wait, and runs again later while lines wait.
func (w *Worker) sendLogs() {
	ctx, stop := context.WithTimeout(context.Background(), logTime)
	defer stop()
	w.flush(ctx, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logging = false
	for _, a := range w.held {
		if len(a.told.lines)+a.told.dropped > 0 && !a.lost {
			w.logging = true
			time.AfterFunc(logEvery, w.sendLogs)
			return
		}
	}
}

// flush sends the lines that wait, of one attempt or of all, in their order. It gives up when ctx ends.
func (w *Worker) flush(ctx context.Context, of *attempt) {
	w.logCalls.Lock() // one call at a time: the lines of a lease stay in order
	defer w.logCalls.Unlock()
	for ctx.Err() == nil {
		batch := w.logBatch(of)
		if len(batch) == 0 {
			return
		}
		var answer struct {
			Logs lenient[[]json.RawMessage] `json:"logs"`
		}
		body := struct {
			Worker string     `json:"worker"`
			Logs   []logEntry `json:"logs"`
		}{w.name, batch}
		err := w.call(ctx, "log", &body, &answer, logTime)
		refused, ok := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			if w.linesAnswered(batch, answer.Logs.v) {
				rest(ctx, 100*time.Millisecond)
			}
		case !ok || refused.forNow():
			rest(ctx, 100*time.Millisecond)
		default:
			w.linesRefused(batch, refused)
		}
	}
}

// linesAnswered takes off the lines that the server has answered. again is true if it cannot store some of them now, or
// has not answered them.
func (w *Worker) linesAnswered(batch []logEntry, answers []json.RawMessage) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range batch {
		var answer *logAnswer // "null" is no answer either
		if i >= len(answers) || json.Unmarshal(answers[i], &answer) != nil || answer == nil ||
			answer.Error != nil && answer.Error.forNow() {
			again = true
			continue
		}
		batch[i].attempt.told.sent(&batch[i], answer.Error != nil)
	}
	return again
}

// linesRefused takes note that the server refuses a call with lines. If the call had the lines of several jobs, each of
// these jobs gets a call of its own, so that only the lines of the job that the server refuses are lost.
func (w *Worker) linesRefused(batch []logEntry, why *refusal) {
	e := &batch[0]
	if len(batch) == 1 {
		w.log.Warn("the server refuses lines of a job's log", "job_id", e.attempt.ID, "cause", why)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(batch) > 1:
		for i := range batch {
			batch[i].attempt.told.alone = true
		}
	case e.kept > 0:
		e.attempt.told.refused()
	default:
		e.attempt.told.sent(e, false)
	}
}

// sent drops the lines of a call. If the server takes no lines of the lease any more, lost is true, and all lines go.
func (t *told) sent(e *logEntry, lost bool) {
	t.alone = false
	t.first += e.kept + e.lost
	t.lines, t.size, t.dropped = t.lines[e.kept:], t.size-e.size, t.dropped-e.lost
	if lost {
		t.first += len(t.lines) + t.dropped
		t.lines, t.size, t.dropped = nil, 0, 0
	}
}

// refused counts the lines that wait as lost: the server understands none of them.
func (t *told) refused() {
	t.dropped += len(t.lines)
	t.lines, t.size, t.alone = nil, 0, false
}

// logBatch returns the lines of one call: those of some jobs that wait, or of one job that has a call of its own.
func (w *Worker) logBatch(of *attempt) (batch []logEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, now := 0, time.Now()
	for _, a := range w.held {
		if of != nil && a != of || len(a.told.lines)+a.told.dropped == 0 || n >= mostLogLines ||
			a.told.alone && len(batch) > 0 {
			continue
		}
		e := logEntry{Lease: a.Sealed, From: a.told.first, attempt: a}
		for _, l := range a.told.lines {
			if n++; n > mostLogLines {
				break
			}
			e.size += len(l.Text) + len(l.Attrs)
			l.AgeMs = now.Sub(l.at).Milliseconds()
			e.Lines, e.kept = append(e.Lines, l), e.kept+1
		}
		if e.kept == 0 { // the line of this number is lost, and those before it
			e.From, e.Lines, e.lost = a.told.first+a.told.dropped-1, []any{nil}, a.told.dropped
		}
		if batch = append(batch, e); a.told.alone {
			break
		}
	}
	return batch
}
