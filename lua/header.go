package lua

import (
	"slices"
	"strconv"
	"strings"
)

// Header is a script's signature, as the comments at its head say it:
//
//	-- complete: what the script does.
//	-- KEYS   heartbeat_deadlines run_deadlines outbox ...
//	-- ARGV[1] lead_ms: what it is
//	-- per lease (n = 2, 6, ...):
//	-- ARGV[n+0] id: what it is
//	-- ARGV[n+1] attempt: what it is
//	-- REPLY  per lease: OK | LOST
//	-- TWICE  why a second copy of a call does no harm
//
// A line that begins with "--" and eight spaces continues the line above it.
type Header struct {
	Keys   []string   // the names of KEYS, in their order
	Single []Argument // ARGV[1] and on
	Entry  []Argument // what each entry has: ARGV[n+0] and on; empty = the script takes no entries
	Reply  string
	Twice  string
}

// Argument is one argument of a script.
type Argument struct{ Name, Meaning string }

// Fits says whether a call with so many arguments has all single ones and only whole entries.
func (h *Header) Fits(arguments int) bool {
	rest := arguments - len(h.Single)
	if len(h.Entry) == 0 {
		return rest == 0
	}
	return rest >= 0 && rest%len(h.Entry) == 0
}

// ReadHeader reads the header of a script. wrong is what its text does not have, or has in another form.
func ReadHeader(name, source string) (h Header, wrong []string) {
	r := reader{lines: strings.Split(strings.ReplaceAll(source, "\n--        ", " "), "\n")}
	r.labelled(name + ":")
	h.Keys = strings.Fields(r.labelled("KEYS"))
	for strings.HasPrefix(r.line(), "-- ARGV[") {
		h.Single = append(h.Single, r.argument(strconv.Itoa(len(h.Single)+1)))
	}
	if per := r.line(); strings.HasPrefix(per, "-- per ") {
		r.at++
		for strings.HasPrefix(r.line(), "-- ARGV[") {
			h.Entry = append(h.Entry, r.argument("n+"+strconv.Itoa(len(h.Entry))))
		}
		begin := len(h.Single) + 1
		want := " (n = " + strconv.Itoa(begin) + ", " + strconv.Itoa(begin+len(h.Entry)) + ", ...):"
		if !strings.HasSuffix(per, want) {
			r.say(strconv.Quote(per) + " does not end with " + strconv.Quote(want))
		}
	}
	h.Reply = r.labelled("REPLY")
	h.Twice = r.labelled("TWICE")
	return h, r.wrong
}

// reader goes through the lines of a header.
type reader struct {
	lines []string
	at    int
	wrong []string
}

func (r *reader) say(what string) { r.wrong = append(r.wrong, what) }

// line is the line that is read next, "" after the last one.
func (r *reader) line() string {
	if r.at >= len(r.lines) {
		return ""
	}
	return r.lines[r.at]
}

// labelled reads a line that begins with a label and returns what follows the label.
func (r *reader) labelled(label string) string {
	text, ok := strings.CutPrefix(r.line(), "-- "+label+" ")
	if !ok {
		if len(r.wrong) == 0 { // the lines that follow are wrong because of the first one
			r.say("line " + strconv.Itoa(r.at+1) + " of the header is not " + strconv.Quote("-- "+label))
		}
		return ""
	}
	r.at++
	return strings.TrimSpace(text)
}

// argument reads a line "-- ARGV[index] name: meaning".
func (r *reader) argument(index string) (a Argument) {
	text, ok := strings.CutPrefix(r.line(), "-- ARGV["+index+"] ")
	if !ok {
		r.say(strconv.Quote(r.line()) + " is not ARGV[" + index + "]")
	}
	r.at++
	a.Name, a.Meaning, _ = strings.Cut(text, ": ")
	a.Meaning = strings.TrimSpace(a.Meaning)
	if ok && (a.Meaning == "" || !isName(a.Name)) {
		r.say("ARGV[" + index + "] has no name and meaning")
	}
	return a
}

// isName says whether a text is a name of small letters and underscores.
func isName(text string) bool {
	return text != "" && !slices.ContainsFunc([]rune(text), func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
}
