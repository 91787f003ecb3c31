package faktory

import "strings"

// mostPattern is how long a pattern may be.
const mostPattern = 1000

// glob says whether a text fits a pattern of Redis: * any text, ? any byte, [a-c] and [^a-c] a byte of a set or of none
// of it, \ the next byte as it is. It takes time in proportion to the lengths of both.
func glob(pattern, text string) bool {
	if len(pattern) > mostPattern {
		return false
	}
	p, t := 0, 0
	star, mark := -1, 0 // the last *, and the text from which the rest was tried
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, t
			p++
			continue
		}
		if n, ok := one(pattern[p:], text[t]); ok {
			p, t = p+n, t+1
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, t = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// one says whether the pattern's first element takes a byte, and how long the element is.
func one(pattern string, b byte) (length int, fits bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == b
		}
	case '[':
		return class(pattern, b)
	}
	return 1, pattern[0] == b
}

// class is one for a set of bytes.
func class(pattern string, b byte) (length int, fits bool) {
	i, not := 1, false
	if i < len(pattern) && pattern[i] == '^' {
		i, not = i+1, true
	}
	found := false
	for i < len(pattern) && pattern[i] != ']' {
		low := pattern[i]
		if low == '\\' && i+1 < len(pattern) {
			i++
			low = pattern[i]
		}
		high := low
		if i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']' {
			high = pattern[i+2]
			i += 2
		}
		found = found || min(low, high) <= b && b <= max(low, high)
		i++
	}
	return min(i+1, len(pattern)), found != not
}
