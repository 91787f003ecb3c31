package job

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// MaxNote bounds a note, in bytes.
const MaxNote = 200

// NoteOf is the note of a result: the text of its member "note", made one line of at most MaxNote bytes. It is how a
// handler tells those who look at a list of jobs what they would find in the result. "" = the result has none.
func NoteOf(result []byte) string {
	if !bytes.Contains(result, []byte(`"note"`)) { // most have none, and this is asked about every job that is completed
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
