package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	lib "github.com/tierq/tierq/worker"
)

// input is the payload of most behaviours.
type input struct {
	Kind    string  `json:"kind"`
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text"`
	N       int     `json:"n"`
}

func (in input) duration() time.Duration { return time.Duration(in.Seconds * float64(time.Second)) }

var (
	mu     sync.Mutex
	starts = map[string]int{}
)

// started writes that a handler starts, and counts it.
func started(ctx context.Context) int {
	j, _ := lib.Running(ctx)
	mu.Lock()
	defer mu.Unlock()
	starts[j.ID]++
	fmt.Printf("START %s %d\n", j.ID, j.Attempt)
	return starts[j.ID]
}

// handle registers a behaviour.
func handle(w *host, typ string, fn func(context.Context, input) (any, error)) {
	lib.Handle(w, typ, func(ctx context.Context, in input) (any, error) {
		started(ctx)
		return fn(ctx, in)
	})
}

func repeat(text string, n int) string { return strings.Repeat(text, n) }

func register(w *host) {
	lib.Handle(w, "GOOD", func(ctx context.Context, in input) (any, error) {
		n := started(ctx)
		time.Sleep(in.duration())
		return map[string]any{"good": in.N, "starts": n}, nil
	})
	lib.Handle(w, "ECHO", func(ctx context.Context, in any) (any, error) {
		started(ctx)
		return in, nil
	})
	handle(w, "RETURN", func(_ context.Context, in input) (any, error) { return returned(in), nil })
	handle(w, "THROW", func(_ context.Context, in input) (any, error) { return nil, thrown(in) })
	handle(w, "PERMANENT", func(_ context.Context, in input) (any, error) { return nil, permanent(in) })
	handle(w, "RETRY_AFTER", func(_ context.Context, in input) (any, error) { return nil, retryAfter(in) })
	handle(w, "LATER", func(_ context.Context, in input) (any, error) { return nil, later(in) })
	handle(w, "SAVE", save)
	handle(w, "LOG", func(ctx context.Context, in input) (any, error) {
		logs(ctx, in)
		return map[string]any{"kind": in.Kind}, nil
	})
	handle(w, "HOLD", func(ctx context.Context, in input) (any, error) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(in.duration()):
			return map[string]any{"held": true}, nil
		}
	})
	handle(w, "LIFE", func(ctx context.Context, in input) (any, error) {
		begin := time.Now()
		<-ctx.Done()
		return map[string]any{
			"lived": time.Since(begin).Milliseconds(), "ended": time.Now().UnixMilli(), "cause": context.Cause(ctx).Error(),
		}, nil
	})
	handle(w, "OVERTIME", func(ctx context.Context, in input) (any, error) {
		<-ctx.Done()
		err := errors.New("gave up")
		switch in.Kind {
		case "PERMANENT":
			err = lib.Permanent(err)
		case "LATER":
			err = lib.Later(7 * time.Second)
		case "CAUSE":
			err = context.Cause(ctx)
		}
		return nil, err
	})
	handle(w, "BLOCK", func(_ context.Context, in input) (any, error) {
		for end := time.Now().Add(in.duration()); time.Now().Before(end); {
			_ = fmt.Sprint(end)
		}
		return map[string]any{"blocked": true}, nil
	})
	handle(w, "NEVER_END", func(context.Context, input) (any, error) { select {} })
	handle(w, "ERROR_ELSEWHERE", func(context.Context, input) (any, error) {
		go panic("nobody recovers this")
		select {}
	})
	handle(w, "EXIT", func(context.Context, input) (any, error) {
		os.Exit(7)
		return nil, nil
	})
}

type own struct {
	Self *own `json:"self"`
}

func cycle() any {
	c := &own{}
	c.Self = c
	return c
}

func nan() any { return math.NaN() }

func deep(levels int) any {
	var v any = 1
	for range levels {
		v = []any{v}
	}
	return v
}

type (
	marshalFails  struct{}
	marshalPanics struct{}
	marshalTwice  struct{}
	panicText     struct{}
)

func (marshalFails) MarshalJSON() ([]byte, error)  { return nil, errors.New("no text for this") }
func (marshalPanics) MarshalJSON() ([]byte, error) { panic(panicText{}) }
func (marshalTwice) MarshalJSON() ([]byte, error)  { return []byte(`{"a":1,"a":2}`), nil }
func (panicText) String() string                   { panic("no text of a panic") }
func (panicText) Error() string                    { panic("no text of an error") }
func (panicText) LogValue() slog.Value             { panic("no value for a log") }

// value returns what several behaviours hand over; ok is false for an unknown kind.
func value(in input) (v any, ok bool) {
	switch in.Kind {
	case "NAN":
		return map[string]any{"n": nan()}, true
	case "INFINITE":
		return []any{math.Inf(1)}, true
	case "CYCLE":
		return cycle(), true
	case "CHANNEL":
		return make(chan int), true
	case "FUNCTION":
		return func() {}, true
	case "MARSHALLER_FAILS":
		return marshalFails{}, true
	case "MARSHALLER_PANICS":
		return marshalPanics{}, true
	case "NAME_TWICE":
		return json.RawMessage(`{"a":1,"a":2}`), true
	case "NAME_TWICE_MARSHALLER":
		return marshalTwice{}, true
	case "SURROGATES":
		return map[string]any{"a\xffb": []any{"c\xffd"}}, true
	case "RAW_SURROGATES":
		return json.RawMessage(`{"a\ud800b":["c\udfffd"]}`), true
	case "RAW_INVALID":
		return json.RawMessage("{\"a\xffb\":[\"c\xffd\"]}"), true
	case "RAW_NO_JSON":
		return json.RawMessage(`{"a":`), true
	case "DEEP":
		return deep(20_000), true
	case "LEVELS":
		return deep(33), true
	case "HUGE":
		return repeat("x", 20_000), true
	}
	return nil, false
}

func returned(in input) any {
	if v, ok := value(in); ok {
		return v
	}
	switch in.Kind {
	case "JSON":
		return map[string]any{"a": []any{1, nil, "é"}}
	case "TEXT":
		return in.Text
	}
	return nil
}

func save(ctx context.Context, in input) (any, error) {
	v, ok := value(in)
	if !ok {
		v = map[string]any{"step": 1}
	}
	err := lib.Checkpoint(ctx, v)
	text := ""
	if err != nil {
		text = err.Error()
	}
	if in.Kind != "REFUSED" {
		if err := lib.Checkpoint(ctx, map[string]any{"last": true}); err != nil {
			return nil, err
		}
	}
	return map[string]any{"raised": err != nil, "text": text}, nil
}

func logs(ctx context.Context, in input) {
	log := lib.Logger(ctx)
	switch in.Kind {
	case "ATTRS":
		log.Info("attrs", "n", nan(), "cycle", cycle(), "chan", make(chan int), "fails", marshalFails{})
	case "ATTRS_PANIC":
		log.Info("attrs", "a", marshalPanics{}, "b", panicText{})
	case "VALUE_PANICS":
		log.Info("attrs", "v", panicText{})
	case "SURROGATES":
		log.Warn("a\xffb", "k\xff", "c\xed\xa0\x80d")
	case "HUGE":
		log.Error(repeat("é", 500_000), "more", repeat("x", 500_000))
	case "NAME_TWICE":
		log.Info("twice", "a", 1, "a", 2)
	case "ODD_PAIRS":
		log.Info("odd", []any{"a"}...)
	}
}

func goexit() { runtime.Goexit() }
