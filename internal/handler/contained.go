package handler

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
)

// ContainLog wraps a program's own slog.Handler. A panic in it, or a runtime.Goexit in its Handle, does not reach the
// caller.
func ContainLog(h slog.Handler) slog.Handler { return contained{h} }

// contained is the program's slog.Handler. No panic of it reaches a loop of the worker, and no runtime.Goexit of its
// Handle.
type contained struct{ slog.Handler }

// Enabled implements slog.Handler.
func (c contained) Enabled(ctx context.Context, level slog.Level) (on bool) {
	defer func() { _ = recover() }()
	return c.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (c contained) Handle(ctx context.Context, r slog.Record) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the program's log panics: %s", TextOf(p))
			}
		}()
		err = c.Handler.Handle(ctx, r)
	}()
	<-done
	return err
}

// WithAttrs implements slog.Handler.
func (c contained) WithAttrs(attrs []slog.Attr) slog.Handler {
	return c.with(func() slog.Handler { return c.Handler.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (c contained) WithGroup(name string) slog.Handler {
	return c.with(func() slog.Handler { return c.Handler.WithGroup(name) })
}

// with returns what make returns, or the same handler if it panics.
func (c contained) with(make func() slog.Handler) (h slog.Handler) {
	defer func() {
		if recover() != nil {
			h = c
		}
	}()
	return contained{make()}
}

// mostGroups is how deep the groups of attributes may be.
const mostGroups = 16

// writable returns attributes that any slog.Handler can write. A text stands for a value that cannot be written: one
// that contains itself, or whose methods panic.
func writable(attrs []slog.Attr, depth int) []slog.Attr {
	all := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		v := a.Value.Resolve() // takes care of a LogValue that panics
		switch {
		case v.Kind() == slog.KindGroup && depth == 0:
			v = slog.StringValue("!ERROR: too many groups in each other")
		case v.Kind() == slog.KindGroup:
			v = slog.GroupValue(writable(v.Group(), depth-1)...)
		case v.Kind() == slog.KindAny:
			v = writableAny(v)
		}
		all[i] = slog.Attr{Key: a.Key, Value: v}
	}
	return all
}

func writableAny(v slog.Value) slog.Value {
	x := v.Any()
	if err, is := x.(error); is {
		if text, ok := read(err, 1); !ok {
			return slog.StringValue("!ERROR: " + text)
		}
		return v
	}
	if x == nil || flat(reflect.TypeOf(x), mostFlat) {
		return v
	}
	if _, err := encode(x); err != nil {
		return slog.StringValue("!ERROR: " + TextOf(err))
	}
	return v
}
