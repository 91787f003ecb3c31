package lua_test

import (
	"regexp"
	"strings"
)

// numericLocals are the names of locals that are given a number.
func numericLocals(body string) map[string]bool {
	numbers := map[string]bool{}
	number := regexp.MustCompile(`^(tonumber\(|time_[mu]s\(|math\.|#|\d)|\w \+ \w`)
	other := regexp.MustCompile(`^(ARGV|text\(|table\.concat\(|string\.sub\()`)
	inner := regexp.MustCompile(`\[[^\]]*\]|\btext\([^()]*\)`) // an index, and what is a text again
	for line := range strings.SplitSeq(body, "\n") {
		names, values, ok := strings.Cut(strings.TrimSpace(line), " = ")
		names, isLocal := strings.CutPrefix(names, "local ")
		if !ok || !isLocal {
			continue
		}
		given := split(values)
		for i, name := range strings.Split(names, ", ") {
			if i < len(given) && number.MatchString(inner.ReplaceAllString(given[i], "")) && !other.MatchString(given[i]) {
				numbers[name] = true
			}
		}
	}
	return numbers
}

type call struct {
	function string
	args     []string
}

var callStart = regexp.MustCompile(`\b(redis\.call|bulk|read_values|read_column|drop_from_column|` +
	`checkpoint_bytes|ring|write_counters|write_ends|write_entries|publish|note_event|note_alarm|record_attempt|` +
	`end_with_record|take_waiting|end_waiting|make_ready|read_ended|read_start|write_unique|take_unique|` +
	`take_unique_again|` +
	`store_unique|store_behind|read_unique|let_go|lives)\(`)

// calls are the calls that touch keys.
func calls(body string) []call { return find(body, callStart) }

var concatStart = regexp.MustCompile(`\b(table\.concat)\(\{`)

func concats(body string) []call { return find(body, concatStart) }

func find(body string, start *regexp.Regexp) []call {
	var found []call
	for _, m := range start.FindAllStringSubmatchIndex(body, -1) {
		found = append(found, call{function: body[m[2]:m[3]], args: split(body[m[1]:])})
	}
	return found
}

// split cuts a list at its outer commas; it ends with the text, or where a bracket closes that was open before it.
func split(text string) []string {
	var args []string
	depth, from, quoted := 0, 0, false
	for i, c := range text {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune("({[", c):
			depth++
		case strings.ContainsRune(")}]", c):
			depth--
		}
		if depth < 0 {
			return append(args, strings.TrimSpace(text[from:i]))
		}
		if c == ',' && depth == 0 && !quoted {
			args = append(args, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return append(args, strings.TrimSpace(text[from:]))
}
