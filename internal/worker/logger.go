package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/loop"
)

// Logs is the store of the lines that handlers log. It answers a word per line: OK, or LOST if the lease is not the
// stored one any more. A call may be sent twice.
type Logs interface {
	Log(ctx context.Context, partition int, batch []job.LogEntry) ([]job.Word, error)
}

const (
	logEvery = time.Second // how long lines wait for further ones
	logBound = 2 * time.Second
)

// logger sends the lines of one partition's leases, in batches and one call at a time, so that the lines of a lease
// stay in order. Its goroutine lives while there are lines.
type logger struct {
	pool      *Pool
	partition int
	hurried   loop.Signal

	mu   sync.Mutex
	due  []*held // leases with lines, each once
	runs bool
}

func newLoggers(p *Pool, partitions int) []*logger {
	loggers := make([]*logger, partitions)
	for i := range loggers {
		loggers[i] = &logger{pool: p, partition: i, hurried: loop.NewSignal()}
	}
	return loggers
}

// add takes a lease that has a line to send.
func (l *logger) add(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, h)
	if !l.runs && l.pool.io.Err() == nil {
		l.runs = true
		l.pool.wg.Go(l.run)
	}
}

// hurry makes the logger send what waits now: an ending waits for it.
func (l *logger) hurry() { l.hurried.Set() }

func (l *logger) run() {
	slow := growing{base: 100 * time.Millisecond, cap: 2 * time.Second}
	pause := time.NewTimer(logEvery)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-l.hurried:
		case <-l.pool.io.Done():
		}
		for {
			more, err := l.sendOnce()
			l.pool.logOutage("log", l.partition, err)
			if err != nil && !slow.pause(l.pool.io) {
				l.leave()
				return
			}
			if err != nil {
				continue
			}
			if slow.reset(); !more {
				break
			}
		}
		if l.leave() {
			return
		}
		pause.Reset(logEvery)
	}
}

// leave ends the logger's goroutine, unless there are lines again.
func (l *logger) leave() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) > 0 && l.pool.io.Err() == nil {
		return false
	}
	l.runs = false
	return true
}

// sendOnce makes one call, for the leases whose lines have waited longest. more says whether lines are left that did
// not fit into it. After an error the lines wait on.
func (l *logger) sendOnce() (more bool, err error) {
	l.mu.Lock()
	due := l.due
	l.due = nil
	l.mu.Unlock()
	var batch []job.LogEntry
	var of []*held
	bytes, now, taken := 0, time.Now(), 0
	for _, h := range due {
		if len(batch) >= job.MaxBatch || bytes >= job.MaxBatchBytes {
			break
		}
		taken++
		part := h.notes().next(now, h.lease.Ref(), job.MaxBatch-len(batch), job.MaxBatchBytes-bytes)
		for range part {
			of = append(of, h)
		}
		batch = append(batch, part...)
		for i := range part {
			bytes += part[i].Size()
		}
	}
	if len(batch) > 0 {
		err = l.call(batch, of)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := due[taken:len(due):len(due)]
	for _, h := range due[:taken] { // a lease with further lines goes behind the others
		if t := h.notes(); t.waits() {
			rest = append(rest, h)
		}
	}
	l.due = append(rest, l.due...)
	return taken < len(due) || len(batch) >= job.MaxBatch, err
}

func (l *logger) call(batch []job.LogEntry, of []*held) error {
	ctx, cancel := context.WithTimeout(l.pool.io, logBound)
	defer cancel()
	words, err := l.pool.cfg.Logs.Log(ctx, l.partition, batch)
	if err == nil && len(words) != len(batch) {
		err = fmt.Errorf("log: %d words for %d lines", len(words), len(batch))
	}
	if err != nil && !outage(err) { // the store refuses a line: all of the call are lost, and others go on
		l.pool.log.Error("lines of jobs' logs are lost", "lines", len(batch), "err", err)
		words, err = make([]job.Word, len(batch)), nil
	}
	if err != nil {
		return err
	}
	for i, h := range of {
		l.pool.waitingBytes.Add(-int64(h.notes().settle(&batch[i], words[i] == job.Lost)))
	}
	return nil
}

// next returns the lines to send, in their order, at most so many and of about so many bytes. Behind them it says which
// further lines are lost because they did not fit.
func (t *notes) next(now time.Time, ref job.LeaseRef, lines, bytes int) (batch []job.LogEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.lines {
		e := t.lines[i].entry
		if len(batch) > 0 && (len(batch) >= lines || bytes < e.Size()) {
			return batch
		}
		e.Age = now.Sub(t.lines[i].at)
		bytes -= e.Size()
		batch = append(batch, e)
	}
	if last := max(t.passed, lastNumber(batch)); len(batch) < lines && t.number > last {
		batch = append(batch, job.LogEntry{LeaseRef: ref, Number: t.number})
	}
	return batch
}

func lastNumber(batch []job.LogEntry) int {
	if len(batch) == 0 {
		return 0
	}
	return batch[len(batch)-1].Number
}

// settle takes a line off that was answered, and returns its size. A lost lease sends no further lines.
func (t *notes) settle(e *job.LogEntry, lost bool) (size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = max(t.passed, e.Number)
	for len(t.lines) > 0 && (lost || t.lines[0].entry.Number <= e.Number) {
		size += t.lines[0].entry.Size()
		t.lines = t.lines[1:]
	}
	t.bytes -= size
	if lost {
		t.closed, t.passed = true, t.number
	}
	return size
}

// waits says whether lines wait to be sent, and that the logger does not know the lease any more if none does.
func (t *notes) waits() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.passed < t.number {
		return true
	}
	t.lines, t.queued = nil, false
	if t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	return false
}
