package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// The methods of errors and values that a handler returns are its own code, too. They are called only here, where a
// panic of theirs costs no more than their text.

const (
	mostText    = 4096 // bytes
	mostWrapped = 1000 // errors of a tree
)

// Contain returns an error that says what a handler's error says and asks for the same, and has no methods of the
// handler's. Call it in the goroutine of the handler: a method that calls runtime.Goexit ends it.
func Contain(err error) error {
	if err == nil || err == job.ErrUnknownType { //nolint:errorlint // the registry's own, and never wrapped
		return err
	}
	v, said := Judge(err), errors.New(TextOf(err))
	switch {
	case v.Later > 0:
		return LaterBecause(v.Later, v.Reason)
	case v.Permanent:
		return Permanent(said)
	case v.RetryAfter >= 0:
		return RetryAfter(v.RetryAfter, said)
	}
	return said
}

// TextOf returns what an error or the value of a panic says of itself, and at least its type.
func TextOf(v any) string {
	text, _ := read(v, 3)
	return text
}

// read is TextOf. It returns false if a method of v panics. depth bounds the panics of panics.
func read(v any, depth int) (text string, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			text, ok = fmt.Sprintf("%T, whose text cannot be read", v), false
			if depth > 0 {
				why, _ := read(p, depth-1)
				text = job.CutText(text+": "+why, mostText)
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
	return job.CutText(text, mostText), true
}

// printed returns the text of a value without methods. It leaves values that may contain themselves to package json,
// because fmt does not end with them.
func printed(v any) string {
	if flat(reflect.TypeOf(v), mostFlat) {
		return fmt.Sprint(v)
	}
	text, err := encode(v)
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

// encode encodes a handler's value as JSON. Bytes that are no UTF-8, and halves of surrogate pairs, become U+FFFD.
func encode(v any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = nil, fmt.Errorf("its marshaller panics: %s", TextOf(p))
		}
	}()
	if text, err = json.Marshal(v); err != nil {
		return nil, errors.New(TextOf(err)) // not the handler's own error, which could ask for something
	}
	if Nesting(text) > MaxNesting {
		return nil, fmt.Errorf("it is nested deeper than %d levels", MaxNesting)
	}
	if utf8.Valid(text) && !bytes.Contains(text, []byte(`\u`)) {
		return text, nil
	}
	clean := jsontext.Value(text)
	err = clean.Format(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	return clean, err
}

// MaxNesting is how many levels of lists and objects a result or a checkpoint may have.
const MaxNesting = 32

// Nesting returns the depth of a JSON text's arrays and objects. For a text that is not JSON the number has no
// meaning.
func Nesting(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// Encode encodes a checkpoint. It fails if the value is no JSON, is deeper than MaxNesting, or has a name twice.
func Encode(checkpoint any) ([]byte, error) {
	text, err := encode(checkpoint)
	if err != nil {
		return nil, err
	}
	for d := jsontext.NewDecoder(bytes.NewBuffer(text)); ; {
		switch _, err := d.ReadToken(); {
		case errors.Is(err, io.EOF):
			return text, nil
		case errors.Is(err, jsontext.ErrDuplicateName):
			return nil, errors.New("a name is there twice")
		case err != nil:
			return nil, err
		}
	}
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
