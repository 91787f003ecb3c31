package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of one body's JSON, and of the number of errors that are reported about it.
const (
	maxDepth  = 32
	maxKeys   = 1000
	maxErrors = 10
)

// reason is an error about one field or parameter, in words for users.
type reason string

func (r reason) Error() string { return string(r) }

// member stores the value of one field. Its error is a reason, or the *problem of a nested object.
type member[T any] func(into *T, value jsontext.Value) error

// shape defines the fields that a JSON object may have. An unknown field goes to others; if that is nil, it is
// refused.
type shape[T any] struct {
	members map[string]member[T]
	others  func(into *T, name string, value jsontext.Value) error
	// lists says that the object has lists whose entries are read one by one: a name twice or invalid UTF-8 inside an
	// entry is an error of that entry, and not of the body.
	lists bool
}

// scanner is a decoder that reads a text in place: from another reader than a bytes.Buffer it would copy the text. A
// pool keeps scanners for later requests.
type scanner struct {
	text    bytes.Buffer
	decoder *jsontext.Decoder
}

var scanners = sync.Pool{New: func() any {
	s := &scanner{}
	s.decoder = jsontext.NewDecoder(&s.text)
	return s
}}

func scan(text []byte, options ...jsontext.Options) *scanner {
	s := scanners.Get().(*scanner)
	s.text = *bytes.NewBuffer(text)
	s.decoder.Reset(&s.text, options...)
	return s
}

func (s *scanner) done() {
	s.text = bytes.Buffer{}
	s.decoder.Reset(&s.text) // it lets go of the text
	scanners.Put(s)
}

// noObject is the detail about a body that is no object.
const noObject = "the body must be a JSON object"

// read reads a whole body strictly: one JSON object of known fields, no name twice anywhere, valid UTF-8, nothing
// after the object. A field that is null counts as absent. The values passed to members are parts of body. Errors
// are *problem.
func (s *shape[T]) read(body []byte, into *T) error {
	if err := measure(body); err != nil {
		return err
	}
	return s.readObject(body, into)
}

func (s *shape[T]) readObject(body []byte, into *T) error {
	var options []jsontext.Options
	if s.lists {
		options = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	}
	scanner := scan(body, options...)
	defer scanner.done()
	d := scanner.decoder
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return badJSON(err)
		}
		return &problem{kind: invalidRequest, detail: noObject}
	}
	if _, err := d.ReadToken(); err != nil {
		return badJSON(err)
	}
	next := func() (jsontext.Value, error) {
		value, err := d.ReadValue()
		end := d.InputOffset()
		return jsontext.Value(body[end-int64(len(value)) : end : end]), err
	}
	var wrong []fieldError
	var seen map[string]bool // the names, where the decoder does not look for those that are there twice
	for d.PeekKind() == '"' {
		name, err := next()
		if err != nil {
			return badJSON(err)
		}
		if s.lists {
			if seen == nil {
				seen = map[string]bool{}
			}
			if seen[string(unquoted(name))] {
				return invalid(shorten(string(unquoted(name))), "is there twice")
			}
			seen[string(unquoted(name))] = true
		}
		value, err := next()
		if err != nil {
			return badJSON(err)
		}
		wrong = appendWrong(wrong, name, s.set(into, unquoted(name), value))
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace, or an error in its place
		return badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &problem{kind: invalidRequest, detail: "the body goes on after the JSON object"}
	}
	return refuseFields(wrong)
}

func (s *shape[T]) set(into *T, name []byte, value jsontext.Value) error {
	set, known := s.members[string(name)]
	switch {
	case !known && s.others == nil:
		return reason("unknown field")
	case value.Kind() == 'n':
		return nil
	case known:
		return set(into, value)
	}
	return s.others(into, string(name), value)
}

// refuseFields returns a *problem about the wrong fields; nil if there are none.
func refuseFields(wrong []fieldError) error {
	if len(wrong) == 0 {
		return nil
	}
	return &problem{kind: invalidRequest, detail: wrong[0].Field + ": " + wrong[0].Reason, fields: wrong}
}

// appendWrong adds the error of one field to wrong, up to maxErrors. For a nested object it adds each of the
// object's errors, with the path to its field.
func appendWrong(wrong []fieldError, name jsontext.Value, err error) []fieldError {
	if err == nil || len(wrong) >= maxErrors {
		return wrong
	}
	field := shorten(string(unquoted(name)))
	var inside *problem
	if !errors.As(err, &inside) {
		return append(wrong, fieldError{field, err.Error()})
	}
	if len(inside.fields) == 0 {
		why := inside.detail
		if why == noObject { // the value is no body
			why = "takes JSON objects only"
		}
		return append(wrong, fieldError{field, why})
	}
	for _, f := range inside.fields[:min(len(inside.fields), maxErrors-len(wrong))] {
		wrong = append(wrong, fieldError{field + "." + f.Field, f.Reason})
	}
	return wrong
}

// unquoted returns the text of a JSON string; nil for another value. Without an escape in it, the text is a part of
// v.
func unquoted(v jsontext.Value) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, []byte(v)) // cannot fail: v was read as a string
	return text
}

var brace, bracket, colon = []byte("{"), []byte("["), []byte(":")

// measure bounds the depth and the number of names before the body is parsed. The body may still prove not to be
// JSON.
func measure(body []byte) error { return measureUpTo(body, maxDepth, maxKeys) }

// measureUpTo is measure with other bounds.
func measureUpTo(body []byte, levels, maxKeys int) error {
	if bytes.Count(body, brace)+bytes.Count(body, bracket) <= levels && bytes.Count(body, colon) <= maxKeys {
		return nil // within the bounds even if those inside strings count
	}
	depth, keys, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > levels {
				return &problem{kind: invalidRequest, detail: fmt.Sprintf("the JSON is nested deeper than %d levels", maxDepth)}
			}
		case c == '}' || c == ']':
			depth--
		case c == ':':
			if keys++; keys > maxKeys {
				return &problem{kind: invalidRequest, detail: fmt.Sprintf("the JSON has more than %d members", maxKeys)}
			}
		}
	}
	return nil
}

// badJSON returns the error for a text that is not strict JSON, with the place of the fault if it is known.
func badJSON(err error) *problem {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		var path []string
		for token := range syntax.JSONPointer.Tokens() {
			path = append(path, token)
		}
		return invalid(shorten(strings.Join(path, ".")), "is there twice")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &problem{kind: invalidRequest, detail: "not JSON: it ends too early"}
	case errors.As(err, &syntax):
		return &problem{kind: invalidRequest,
			detail: fmt.Sprintf("not JSON, at byte %d: %s", syntax.ByteOffset, shorten(syntax.Err.Error()))}
	}
	return &problem{kind: invalidRequest, detail: "not JSON"}
}

// shorten cuts a caller's text to 100 bytes, for repeating it in an answer.
func shorten(s string) string {
	return shortenTo(100, s)
}

// shortenTo cuts a text to most bytes, and marks the cut.
func shortenTo(most int, s string) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
