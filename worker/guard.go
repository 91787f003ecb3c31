package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// The methods of errors and values that a handler returns are user code, too. They are called only here, where a panic
// of theirs costs no more than their text.

const (
	mostText    = 4096 // bytes of a text in a report
	mostWrapped = 1000 // errors of a tree
)

// textOf returns what an error or the value of a panic says of itself, and at least its type.
func textOf(v any) string {
	text, _ := read(v, 3)
	return text
}

// read is textOf. It returns false if a method of v panics. depth bounds the panics of panics.
func read(v any, depth int) (text string, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			text, ok = fmt.Sprintf("%T, whose text cannot be read", v), false
			if depth > 0 {
				why, _ := read(p, depth-1)
				text = cut(text+": "+why, mostText)
			}
		}
	}()
	switch v := v.(type) {
	case nil:
		return "nil", true
	case error:
		text = v.Error()
	case fmt.Stringer:
		text = v.String()
	default:
		text = printed(v)
	}
	if text == "" {
		text = fmt.Sprintf("%T without a text", v)
	}
	return cut(text, mostText), true
}

// printed returns the text of a value without methods. It leaves values that may contain themselves to package json,
// because fmt does not end with them.
func printed(v any) string {
	if flat(reflect.TypeOf(v), mostFlat) {
		return fmt.Sprint(v)
	}
	text, err := marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	return fmt.Sprintf("%T %s", v, text)
}

// mostFlat is how deep flat looks into a type.
const mostFlat = 4

// flat says whether fmt surely comes to an end with values of a type: none of them can contain itself.
func flat(t reflect.Type, depth int) bool {
	if depth == 0 {
		return false
	}
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Pointer:
		return depth < mostFlat || flat(t.Elem(), depth-1) // inside a value fmt prints an address
	case reflect.Slice, reflect.Array:
		return flat(t.Elem(), depth-1)
	case reflect.Map:
		return flat(t.Key(), depth-1) && flat(t.Elem(), depth-1)
	case reflect.Struct:
		for f := range t.Fields() {
			if !flat(f.Type, depth-1) {
				return false
			}
		}
	}
	return true
}

// marshal encodes a user's value as JSON that the server takes: see wellFormed.
func marshal(v any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = nil, fmt.Errorf("its marshaller panics: %s", textOf(p))
		}
	}()
	if text, err = json.Marshal(v); err != nil {
		return nil, errors.New(textOf(err)) // not the user's own error, which could ask for something
	}
	return wellFormed(text), nil
}

// unmarshal decodes a payload into a user's value.
func unmarshal(text []byte, into any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its unmarshaller panics: %s", textOf(p))
		}
	}()
	if err = json.Unmarshal(text, into); err != nil {
		return errors.New(textOf(err))
	}
	return nil
}

// wish is what a handler's error asks for.
type wish struct {
	later     *laterError
	permanent bool
	retry     *retryError
}

// wishOf returns what an error and the errors in it ask for. It does what errors.As does, and comes to an end if errors
// contain each other. What it has found before a method panics counts.
func wishOf(err error) (w wish) {
	defer func() { _ = recover() }()
	left := mostWrapped
	w.walk(err, &left)
	return w
}

func (w *wish) walk(err error, left *int) {
	for ; err != nil && *left > 0; *left-- {
		w.look(err)
		switch e := err.(type) { //nolint:errorlint // this is the walk through wrapped errors
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				*left--
				w.walk(inner, left)
			}
			return
		default:
			return
		}
	}
}

// look takes what one error asks for. The first one of each kind counts.
func (w *wish) look(err error) {
	if w.later == nil {
		w.later = as[laterError](err)
	}
	w.permanent = w.permanent || as[permanentError](err) != nil
	if w.retry == nil {
		w.retry = as[retryError](err)
	}
}

// as is errors.As for one error, without those in it; nil = it is no T.
func as[T error](err error) *T {
	//nolint:errorlint // walk looks at the errors in it
	found, is := err.(T)
	if own, has := err.(interface{ As(any) bool }); is || has && own.As(&found) {
		return &found
	}
	return nil
}
