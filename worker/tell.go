package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"
)

// What a handler tells of its job beside the result: how far it is, and lines of a log.

const (
	mostNote        = 200 // bytes of the note of a progress
	mostAmount      = 1<<53 - 1
	tellEvery       = time.Second
	mostLine        = 4 << 10 // bytes of the text and of the attributes of a line
	mostLineNumber  = 998_000 // of an attempt
	mostWaiting     = 1000    // lines of a job that wait to be sent
	mostWaitingSize = 512 << 10
	mostLogLines    = 500 // in one call
	logEvery        = time.Second
	logTime         = 2 * time.Second // for a call, and for an end that waits for its lines
)

// progressed is a progress as a heartbeat has it. It gets its step when a heartbeat takes it along.
type progressed struct {
	Step  int    `json:"step"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	Note  string `json:"note,omitempty"`
}

// line is a line that waits to be sent.
type line struct {
	Level string          `json:"level"`
	Text  string          `json:"text"`
	Attrs json.RawMessage `json:"attrs,omitempty"`
	AgeMs int64           `json:"ageMs,omitempty"`
	at    time.Time
}

// told is what a handler has told. It is of the worker's mutex.
type told struct {
	progress *progressed // nil = the server has the last one, or none was told
	steps    int
	lines    []line
	size     int
	first    int // the number of the first line that waits
	dropped  int // lines behind those that wait, which did not fit
	// alone says that the server refused a call with these lines and others: the next call has these lines only.
	alone bool
}

// Progress says how far the handler is: done of total, in units of its own, and a note of at most 200 bytes; total 0 =
// the handler does not know. Readers of the job see the last one within a second: a heartbeat takes it along, and a
// worker sends at most one a second because of progress. Progress never waits, and fails no attempt. In a context
// without a job it does nothing.
func Progress(ctx context.Context, done, total int64, note string) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	p := &progressed{Done: min(max(done, 0), mostAmount), Total: min(max(total, 0), mostAmount), Note: cut(note, mostNote)}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.done || a.lost {
		return
	}
	if a.told.progress = p; a.sayAt.IsZero() {
		a.sayAt = a.w.tellAt(time.Now())
		signal(a.w.beatIt)
	}
}

// tellAt returns when the next heartbeat because of progress may be sent. w.mu is held.
func (w *Worker) tellAt(now time.Time) time.Time {
	if next := w.toldAt.Add(tellEvery); next.After(now) {
		return next
	}
	return now
}

// Logger returns a logger whose lines from INFO on become the job's log, which users read; the worker's own logger gets
// all lines, too. The lines are sent a second later at most, and before the job's report. A line never waits for the
// server: what does not fit is lost, and the log says how many lines. In a context without a job it returns
// slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return slog.Default()
	}
	log := a.w.log.With("job_id", a.ID, "type", a.Type, "attempt", a.Attempt)
	return slog.New(&jobLog{Handler: log.Handler(), attempt: a})
}

// cut returns the beginning of a text, as valid UTF-8 of at most so many bytes.
func cut(text string, bytes int) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > bytes {
		text = strings.ToValidUTF8(text[:bytes], "")
	}
	return text
}

// jobLog is a slog.Handler whose lines go to the worker's log and to the job's.
type jobLog struct {
	slog.Handler
	attempt *attempt
	with    []func(slog.Handler) slog.Handler
}

// Enabled implements slog.Handler.
func (l *jobLog) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || l.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *jobLog) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool { attrs = append(attrs, a); return true })
	r = slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.AddAttrs(writable(attrs, mostGroups)...)
	if r.Level >= slog.LevelInfo {
		l.attempt.logged(line{
			Level: levelOf(r.Level), Text: cut(r.Message, mostLine), Attrs: l.attrs(ctx, r), at: time.Now()})
	}
	if !l.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *jobLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = writable(attrs, mostGroups)
	return l.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l *jobLog) WithGroup(name string) slog.Handler {
	return l.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l *jobLog) and(with func(slog.Handler) slog.Handler) slog.Handler {
	return &jobLog{with(l.Handler), l.attempt, append(l.with[:len(l.with):len(l.with)], with)}
}

func levelOf(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "ERROR"
	case level >= slog.LevelWarn:
		return "WARN"
	}
	return "INFO"
}

// attrs returns the attributes of a line as a JSON object; nil if there are none, or too many. Attributes called level
// and msg are left out: slog gives these names to the line's own.
func (l *jobLog) attrs(ctx context.Context, r slog.Record) json.RawMessage {
	if r.NumAttrs() == 0 && len(l.with) == 0 {
		return nil
	}
	var text bytes.Buffer
	own := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}
	h := slog.Handler(contained{slog.NewJSONHandler(&text, &slog.HandlerOptions{ReplaceAttr: own})})
	for _, with := range l.with {
		h = with(h)
	}
	bare := slog.NewRecord(time.Time{}, r.Level, "", 0)
	r.Attrs(func(a slog.Attr) bool { bare.AddAttrs(a); return true })
	if h.Handle(ctx, bare) != nil {
		return nil
	}
	attrs := wellFormed(bytes.TrimSpace(text.Bytes()))
	if strict(attrs) != nil {
		attrs = once(attrs)
	}
	if len(attrs) <= len("{}") || len(r.Message)+len(attrs) > mostLine {
		return nil
	}
	return attrs
}

// logged takes a line.
func (a *attempt) logged(l line) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	t, size := &a.told, len(l.Text)+len(l.Attrs)
	if a.done || a.lost || t.first+len(t.lines)+t.dropped >= mostLineNumber {
		return
	}
	if t.dropped > 0 || len(t.lines) >= mostWaiting || t.size+size > mostWaitingSize {
		t.dropped++
		return
	}
	if t.lines = append(t.lines, l); !a.w.logging {
		a.w.logging = true
		time.AfterFunc(logEvery, a.w.sendLogs)
	}
	t.size += size
}

// tellRest sends what the handler has told and the server lacks, because the attempt ends.
func (a *attempt) tellRest() {
	w := a.w
	w.mu.Lock()
	lines := len(a.told.lines)+a.told.dropped > 0
	var batch []beat
	if a.told.progress != nil {
		batch = append(batch, a.beat(true, time.Now()))
	}
	gone := a.lost
	w.mu.Unlock()
	if gone {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), logTime)
	defer stop()
	if len(batch) > 0 {
		_ = w.beat(ctx, batch) // the report does not wait for it
	}
	if lines {
		w.flush(ctx, a)
	}
}
