package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	lib "github.com/tierq/tierq/worker"
)

// Errors that misbehave.
type (
	pointerError  struct{ text string }
	unwrapPanics  struct{}
	asPanics      struct{}
	isPanics      struct{}
	sliceError    []string
	longError     struct{}
	unwrapItself  struct{}
	panickedValue struct{ n int }
)

func (e *pointerError) Error() string { return e.text }

func (unwrapPanics) Error() string { return "unwrap panics" }
func (unwrapPanics) Unwrap() error { panic("no unwrap") }

func (asPanics) Error() string { return "as panics" }
func (asPanics) As(any) bool   { panic("no as") }

func (isPanics) Error() string { return "is panics" }
func (isPanics) Is(error) bool { panic("no is") }

func (sliceError) Error() string { return "not comparable" }

func (longError) Error() string { return repeat("é", 3_000_000) }

func (unwrapItself) Error() string   { return "many" }
func (unwrapItself) Unwrap() []error { return []error{nil, panicText{}} }

func thrown(in input) error {
	switch in.Kind {
	case "ERROR":
		return errors.New("boom")
	case "WRAPPED":
		return fmt.Errorf("more: %w", errors.New("boom"))
	case "EMPTY":
		return errors.New("")
	case "HUGE":
		return longError{}
	case "SURROGATES":
		return errors.New("a\xff\xed\xa0\x80b")
	case "NUL":
		return errors.New("a\x00b")
	case "TYPED_NIL":
		var e *pointerError
		return e
	case "TEXT_THROWS":
		return panicText{}
	case "WRAPPED_TEXT_THROWS":
		return errors.Join(errors.New("first"), panicText{})
	case "UNWRAP_PANICS":
		return unwrapPanics{}
	case "UNWRAP_NIL":
		return unwrapItself{}
	case "AS_PANICS":
		return asPanics{}
	case "IS_PANICS":
		return isPanics{}
	case "NOT_COMPARABLE":
		return sliceError{"a"}
	case "GOEXIT":
		goexit()
	case "PANIC":
		panic("boom")
	case "PANIC_ERROR":
		panic(errors.New("boom"))
	case "PANIC_NIL":
		panic(nil)
	case "PANIC_HOSTILE":
		panic(panicText{})
	case "PANIC_POINTER":
		var e *pointerError
		panic(e)
	case "PANIC_VALUE":
		panic(panickedValue{42})
	case "PANIC_HUGE":
		panic(repeat("é", 3_000_000))
	case "PANIC_PERMANENT":
		panic(lib.Permanent(errors.New("boom")))
	case "NIL_MAP":
		var m map[string]int
		m["a"] = 1
	}
	return nil
}

func permanent(in input) error {
	switch in.Kind {
	case "NOTHING":
		return lib.Permanent(nil)
	case "TYPED_NIL":
		var e *pointerError
		return lib.Permanent(e)
	case "HOSTILE":
		return lib.Permanent(panicText{})
	case "WRAPPED":
		return fmt.Errorf("more: %w", lib.Permanent(errors.New("bad")))
	case "HUGE":
		return lib.Permanent(longError{})
	case "TWICE":
		return lib.Permanent(lib.Permanent(nil))
	}
	return lib.Permanent(errors.New("bad"))
}

// span returns the wait of a kind.
func span(in input) time.Duration {
	switch in.Kind {
	case "NEGATIVE":
		return -5 * time.Second
	case "LEAST":
		return math.MinInt64
	case "INFINITE":
		return math.MaxInt64
	case "FRACTION":
		return 1200 * time.Millisecond
	case "ZERO":
		return 0
	}
	return in.duration()
}

func retryAfter(in input) error {
	switch in.Kind {
	case "NOTHING":
		return lib.RetryAfter(5*time.Second, nil)
	case "HOSTILE":
		return lib.RetryAfter(5*time.Second, panicText{})
	case "TYPED_NIL":
		var e *pointerError
		return lib.RetryAfter(5*time.Second, e)
	}
	return lib.RetryAfter(span(in), errors.New("busy"))
}

func later(in input) error {
	switch in.Kind {
	case "REASON":
		return lib.LaterBecause(5*time.Second, "not yet")
	case "REASON_HUGE":
		return lib.LaterBecause(5*time.Second, repeat("é", 100_000))
	case "REASON_SURROGATES":
		return lib.LaterBecause(5*time.Second, "a\xff\xed\xa0\x80b")
	}
	return lib.Later(span(in))
}
