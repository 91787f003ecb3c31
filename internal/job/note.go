package job

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// MaxNote is the greatest length of a note, in bytes.
const MaxNote = 200

// NoteOf returns the note of a result: the text of its member "note", as one line of at most MaxNote bytes; "" =
// the result has none. With a note a handler tells the readers of a list of jobs what the result contains.
func NoteOf(result []byte) string {
	if !bytes.Contains(result, []byte(`"note"`)) { // most results have none, and NoteOf is called for every completed job
		return ""
	}
	var members map[string]json.RawMessage
	var note string
	if json.Unmarshal(result, &members) != nil || json.Unmarshal(members["note"], &note) != nil {
		return ""
	}
	note = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(note, "\uFFFD"))
	note = strings.TrimSpace(note)
	if len(note) > MaxNote {
		note = strings.ToValidUTF8(note[:MaxNote], "")
	}
	return note
}
