package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
)

// mostDepth is how many levels of lists and objects a checkpoint may have.
const mostDepth = 32

// wellFormed replaces what the server takes for no text inside valid JSON by U+FFFD: bytes that are no UTF-8, and the
// escape of half a surrogate pair. A json.RawMessage or a marshaller may write them.
func wellFormed(text []byte) []byte {
	text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); {
		switch {
		case text[i] != '\\':
			i++
		case text[i+1] != 'u':
			i += 2
		case !utf16.IsSurrogate(escaped(text[i:])):
			i += 6
		case utf16.DecodeRune(escaped(text[i:]), escaped(text[i+6:])) != '\uFFFD':
			i += 12
		default:
			copy(text[i+2:], "fffd")
			i += 6
		}
	}
	return text
}

// escaped returns the character of an escape such as \u00e4 at the beginning of a text; 0 if there is none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	r, _ := strconv.ParseUint(string(text[2:6]), 16, 16) // JSON was checked
	return rune(r)
}

// strict returns an error for JSON that the server does not store: deeper than mostDepth, or with a name twice in one
// object. The text is valid JSON.
func strict(text []byte) error {
	var open []map[string]bool // the names of each object that is open; nil = a list
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			if len(open) == mostDepth {
				return fmt.Errorf("it is nested deeper than %d levels", mostDepth)
			}
			var names map[string]bool
			if text[i] == '{' {
				names = map[string]bool{}
			}
			open = append(open, names)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			end := i + 1
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			if rest := bytes.TrimLeft(text[end+1:], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
				name := string(text[i+1 : end])
				if bytes.IndexByte(text[i:end], '\\') >= 0 {
					_ = json.Unmarshal(text[i:end+1], &name) // it is valid
				}
				names := open[len(open)-1]
				if names[name] {
					return fmt.Errorf("the name %q is there twice", cut(name, 100))
				}
				names[name] = true
			}
			i = end
		}
	}
	return nil
}

// once encodes an object again, with each name once: the last value counts. It returns nil if strict refuses that too.
func once(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object map[string]any
	if d.Decode(&object) != nil {
		return nil
	}
	if text = encoded(object); strict(text) != nil {
		return nil
	}
	return text
}

// lenient is a member of an answer that a server may get wrong: then it is the zero value.
type lenient[T any] struct{ v T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *lenient[T]) UnmarshalJSON(text []byte) error {
	var v T
	if json.Unmarshal(text, &v) == nil {
		l.v = v
	}
	return nil
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts, numbers and JSON that was checked
	}
	return text
}
