package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// jobLog is a slog.Handler whose lines go to the worker's log and, from INFO on, to the log of the running job.
type jobLog struct {
	slog.Handler
	line func(level, text string, attrs []byte)
	with []func(slog.Handler) slog.Handler // the attributes and groups of the logger, for the job's log
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
		l.line(levelOf(r.Level), job.CutText(r.Message, job.MaxLogLine), l.attrsOf(ctx, r))
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
	return &jobLog{Handler: with(l.Handler), line: l.line, with: append(l.with[:len(l.with):len(l.with)], with)}
}

// levelOf returns the level of a job's line: one of job.LogLevels.
func levelOf(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "ERROR"
	case level >= slog.LevelWarn:
		return "WARN"
	}
	return "INFO"
}

// attrsOf returns a line's attributes as a JSON object; nil if there are none, or if they do not fit behind the text.
// Attributes called level and msg are left out: slog gives these names to the line's own.
func (l *jobLog) attrsOf(ctx context.Context, r slog.Record) []byte {
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
	h := slog.Handler(slog.NewJSONHandler(&text, &slog.HandlerOptions{ReplaceAttr: own}))
	for _, with := range l.with {
		h = with(h)
	}
	line := slog.NewRecord(time.Time{}, r.Level, "", 0)
	r.Attrs(func(a slog.Attr) bool { line.AddAttrs(a); return true })
	if h.Handle(ctx, line) != nil {
		return nil
	}
	attrs := strict(bytes.TrimSpace(text.Bytes()))
	if len(attrs) <= len("{}") || len(r.Message)+len(attrs) > job.MaxLogLine {
		return nil
	}
	return attrs
}

// strict returns an object as valid UTF-8 with each name once: of several values the last counts. It returns nil if
// that is not possible.
func strict(text []byte) []byte {
	if jsontext.Value(text).IsValid() {
		return text
	}
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&object) != nil {
		return nil
	}
	text, err := encode(object)
	if err != nil || !jsontext.Value(text).IsValid() {
		return nil
	}
	return text
}
