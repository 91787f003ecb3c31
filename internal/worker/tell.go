package worker

import (
	"context"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The lines that wait to be sent, of one lease and of the whole pool. A handler that logs faster than the store takes
// its lines loses what does not fit; the numbers of its lines show how many.
const (
	mostWaitingLines = 1000
	mostWaitingBytes = 512 << 10
	mostPoolBytes    = 16 << 20
)

// notes are what a handler tells of its attempt beside its result: how far it is, and lines of a log. A lease has it
// from the first time on that its handler tells anything.
type notes struct {
	mu       sync.Mutex
	step     int64         // counts what was told of the progress
	sent     int64         // the last step that the store has
	progress *job.Progress // of the step
	number   int           // of the last line, also of those that did not fit
	passed   int           // the number of the last line that was sent, or will not be
	lines    []waitingLine
	bytes    int
	queued   bool          // the logger of its partition knows of its lines
	closed   bool          // the lease has its ending: further lines are dropped
	empty    chan struct{} // closed when no line waits; nil = nobody waits for that
}

// waitingLine is a line that waits to be sent.
type waitingLine struct {
	at    time.Time
	entry job.LogEntry
}

// notes returns what the handler has told, nil if it told nothing.
func (h *held) notes() *notes { return h.tells.Load() }

func (h *held) tell() *notes {
	if t := h.tells.Load(); t != nil {
		return t
	}
	h.tells.CompareAndSwap(nil, &notes{})
	return h.tells.Load()
}

// progressed takes how far the handler is: the next heartbeat has it.
func (h *held) progressed(p *job.Progress) {
	t := h.tell()
	t.mu.Lock()
	t.step++
	t.progress = p
	t.mu.Unlock()
}

// beatOf returns a heartbeat for a lease, with the progress that the store lacks, if any.
func (p *Pool) beatOf(h *held) job.Beat {
	b := job.Beat{LeaseRef: h.lease.Ref(), Timeout: p.plan(h.lease.Tier).HeartbeatTimeout}
	if t := h.notes(); t != nil {
		t.mu.Lock()
		if t.step > t.sent {
			b.Step, b.Progress = t.step, t.progress
		}
		t.mu.Unlock()
	}
	return b
}

// progressSent notes that the store has answered a heartbeat with OK or CANCEL.
func (h *held) progressSent(step int64) {
	if t := h.notes(); t != nil && step > 0 {
		t.mu.Lock()
		t.sent = max(t.sent, step)
		t.mu.Unlock()
	}
}

// logged takes a line of the handler's log. It never waits for the store.
func (h *held) logged(level, text string, attrs []byte) {
	p := h.pool
	if p.cfg.Logs == nil || p.cfg.LogsOff != nil && p.cfg.LogsOff(h.lease.QueueName()) {
		return
	}
	t := h.tell()
	e := job.LogEntry{LeaseRef: h.lease.Ref(), Level: level, Text: text, Attrs: attrs}
	size := e.Size()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.number >= job.MaxLogNumber {
		return
	}
	t.number++
	e.Number = t.number
	fits := len(t.lines) < mostWaitingLines && t.bytes+size <= mostWaitingBytes
	if fits && p.waitingBytes.Add(int64(size)) > mostPoolBytes {
		p.waitingBytes.Add(-int64(size))
		fits = false
	}
	if fits {
		t.lines = append(t.lines, waitingLine{at: time.Now(), entry: e})
		t.bytes += size
	}
	if !t.queued {
		t.queued = true
		p.loggers[h.partition].add(h)
	}
}

// unsent says whether the store lacks something that the handler told.
func (h *held) unsent() bool {
	t := h.notes()
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.step > t.sent || t.passed < t.number
}

// flushBound is how long an ending waits for what its handler told before.
const flushBound = time.Second

// flush sends what the handler told, because its lease ends. It gives up after flushBound.
func (p *Pool) flush(h *held) {
	t := h.notes()
	t.mu.Lock()
	t.closed = true
	var empty chan struct{}
	if t.passed < t.number {
		empty = make(chan struct{})
		t.empty = empty
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.io, flushBound)
	defer cancel()
	if b := p.beatOf(h); b.Step > 0 {
		once, cancel := context.WithTimeout(ctx, p.beatLimit())
		words, err := p.pulse.Heartbeat(once, h.partition, []job.Beat{b})
		cancel()
		if err == nil && len(words) == 1 && words[0] != job.Lost {
			h.progressSent(b.Step)
		}
	}
	if empty == nil {
		return
	}
	p.loggers[h.partition].hurry()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}
