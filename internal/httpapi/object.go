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

// The bounds of one body's JSON, and of what is said about it.
const (
	maxDepth  = 32
	maxKeys   = 1000
	maxErrors = 10
)

// reason says what is wrong with one field or parameter.
type reason string

func (r reason) Error() string { return string(r) }

// member takes the value of one field. Its error is a reason, or the *problem of an object inside.
type member[T any] func(into *T, value jsontext.Value) error

// shape is the fields a JSON object may have: any other is refused, or goes to others.
type shape[T any] struct {
	members map[string]member[T]
	others  func(into *T, name string, value jsontext.Value) error
}

// scanner is a decoder and the reader it reads, kept for the next request.
type scanner struct {
	reader  bytes.Reader
	decoder *jsontext.Decoder
}

var scanners = sync.Pool{New: func() any {
	s := &scanner{}
	s.decoder = jsontext.NewDecoder(&s.reader)
	return s
}}

func scan(text []byte) *scanner {
	s := scanners.Get().(*scanner)
	s.reader.Reset(text)
	s.decoder.Reset(&s.reader)
	return s
}

func (s *scanner) done() {
	s.reader.Reset(nil)
	scanners.Put(s)
}

// read reads a whole body strictly: one JSON object of known fields, no name twice anywhere, valid UTF-8, nothing
// behind it. A field that is null counts as absent. The values that members get are parts of body. Its errors are
// *problem.
func (s *shape[T]) read(body []byte, into *T) error {
	if err := measure(body); err != nil {
		return err
	}
	return s.readObject(body, into)
}

func (s *shape[T]) readObject(body []byte, into *T) error {
	scanner := scan(body)
	defer scanner.done()
	d := scanner.decoder
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return badJSON(err)
		}
		return &problem{kind: invalidRequest, detail: "the body must be a JSON object"}
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
	for d.PeekKind() == '"' {
		name, err := next()
		if err != nil {
			return badJSON(err)
		}
		value, err := next()
		if err != nil {
			return badJSON(err)
		}
		wrong = appendWrong(wrong, name, s.set(into, unquoted(name), value))
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace, or what stands in its place
		return badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &problem{kind: invalidRequest, detail: "there is something after the JSON object"}
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

// refuseFields is the *problem of the fields that are wrong; nil if none is.
func refuseFields(wrong []fieldError) error {
	if len(wrong) == 0 {
		return nil
	}
	return &problem{kind: invalidRequest, detail: wrong[0].Field + ": " + wrong[0].Reason, fields: wrong}
}

// appendWrong adds what is wrong with one field: of an object inside, each of its fields with the path to it.
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
		return append(wrong, fieldError{field, inside.detail})
	}
	for _, f := range inside.fields[:min(len(inside.fields), maxErrors-len(wrong))] {
		wrong = append(wrong, fieldError{field + "." + f.Field, f.Reason})
	}
	return wrong
}

// unquoted is the text of a JSON string; without an escape it is a part of it.
func unquoted(v jsontext.Value) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, []byte(v)) // it was read as a string: it is one
	return text
}

var brace, bracket, colon = []byte("{"), []byte("["), []byte(":")

// measure bounds depth and names before anything is parsed. It counts on text that may yet prove not to be JSON.
func measure(body []byte) error {
	if bytes.Count(body, brace)+bytes.Count(body, bracket) <= maxDepth && bytes.Count(body, colon) <= maxKeys {
		return nil // not even with all of them, inside strings too
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
			if depth++; depth > maxDepth {
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

// badJSON says what is wrong with a text that is not strict JSON, and where.
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

// shorten keeps a caller's own text short when it is said back.
func shorten(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
