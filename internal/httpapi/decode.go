package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// asked is what a body asks for.
type asked struct {
	typ        string
	payload    []byte // as it was sent, byte for byte; nil = none
	maxRetries int    // -1 = the plan's
}

// The bounds of one body's JSON, and of what is said about it.
const (
	maxDepth  = 32
	maxKeys   = 1000
	maxErrors = 10
)

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

// decodeSubmit reads the body of a submit strictly: one JSON object of known fields, no name twice anywhere, valid UTF-8, nothing
// behind it. A field that is null counts as absent. Its errors are *problem.
func decodeSubmit(body []byte) (asked, error) {
	a := asked{typ: defaultType, maxRetries: -1}
	if len(body) == 0 {
		return a, nil
	}
	if err := measure(body); err != nil {
		return a, err
	}
	s := scanners.Get().(*scanner)
	defer func() {
		s.reader.Reset(nil)
		scanners.Put(s)
	}()
	s.reader.Reset(body)
	s.decoder.Reset(&s.reader)
	d := s.decoder

	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return a, badJSON(err)
		}
		return a, &problem{kind: invalidRequest, detail: "the body must be a JSON object"}
	}
	if _, err := d.ReadToken(); err != nil {
		return a, badJSON(err)
	}
	var wrong []fieldError
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return a, badJSON(err)
		}
		field := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return a, badJSON(err)
		}
		if reason := a.set(field, value, body[:d.InputOffset()]); reason != "" && len(wrong) < maxErrors {
			wrong = append(wrong, fieldError{shorten(field), reason})
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace, or what stands in its place
		return a, badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return a, &problem{kind: invalidRequest, detail: "there is something after the JSON object"}
	}
	if len(wrong) > 0 {
		return a, &problem{kind: invalidRequest, detail: wrong[0].Field + ": " + wrong[0].Reason, fields: wrong}
	}
	return a, nil
}

// set takes one field; seen is the body up to the value's end. It returns what is wrong with it, or "".
func (a *asked) set(field string, value jsontext.Value, seen []byte) string {
	null := value.Kind() == 'n'
	switch field {
	case "type":
		if null {
			return ""
		}
		if value.Kind() != '"' {
			return "must be a string"
		}
		name := string(value[1 : len(value)-1]) // a name with an escape in it is refused for its backslash
		if !typeName(name) {
			return "a job type has 1 to 64 capital letters, digits and _, and starts with a letter"
		}
		a.typ = name
	case "payload":
		if !null {
			a.payload = seen[len(seen)-len(value) : len(seen) : len(seen)]
		}
	case "maxRetries":
		if null {
			return ""
		}
		n, err := strconv.Atoi(string(value))
		if value.Kind() != '0' || err != nil || n < 0 {
			return "must be a whole number, 0 or more"
		}
		a.maxRetries = n
	default:
		return "unknown field"
	}
	return ""
}

func typeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (i == 0 || (c < '0' || c > '9') && c != '_') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// measure bounds depth and names before anything is parsed. It counts on text that may yet prove not to be JSON.
func measure(body []byte) error {
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
		return &problem{kind: invalidRequest, detail: fmt.Sprintf("not JSON, at byte %d: %s", syntax.ByteOffset, shorten(syntax.Err.Error()))}
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
