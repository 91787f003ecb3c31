package lua_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// vocabulary is every word a script may answer.
var vocabulary = strings.Fields("OK FULL QUOTA LATE LOST DUPLICATE REPLAY MISMATCH BUSY EMPTY CANCEL FAILED CANCELLED ENDED SUSPECT QUARANTINED REPAIRED REPORTED")

var (
	literal    = regexp.MustCompile(`'([^']*)'`)
	capitals   = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	brackets   = regexp.MustCompile(`\([^)]*\)`)
	identifier = regexp.MustCompile(`\b[a-z_]\w*\b`)
	entryLoop  = regexp.MustCompile(`for i = (\d+), #ARGV, (\d+) do`)
	entryArg   = regexp.MustCompile(`ARGV\[i \+ (\d+)\]`)
	fixedArg   = regexp.MustCompile(`ARGV\[(\d+)\]`)
	keyLocal   = regexp.MustCompile(`local key = (.*)`)
	forbidden  = regexp.MustCompile(`\b(tostring|cjson|cmsgpack|math\.random|redis\.pcall)\b|\b(bit|struct|os|debug)\.|'TIME'|\bunpack\b|\bKEYS\b|\bloadstring\b`)
	adding     = regexp.MustCompile(`'(HSET|HSETNX|HINCRBY|ZADD|ZINCRBY|RPUSH|LPUSH|SET|APPEND)'|` +
		`\b(ring|settle|remember|finish)\(`)
	removing = regexp.MustCompile(`'(ZREM|DEL|HDEL|ZREMRANGEBYSCORE|LTRIM)'`)
)

// script is a file, taken apart.
type script struct {
	name   string
	header map[string]string
	keys   []string
	bind   string // the first line of code
	body   string // what follows it, without comments
	wrong  []string
}

func (s *script) say(format string, a ...any) {
	s.wrong = append(s.wrong, s.name+": "+fmt.Sprintf(format, a...))
}

// lint holds a script to its header and to the rules of the house. It reads text, not a syntax tree: a script that is written so that
// this cannot follow it cannot be followed by a reader either.
func lint(name, source string) []string {
	s := &script{name: name, header: map[string]string{}}
	s.read(source)
	if len(s.wrong) > 0 {
		return s.wrong
	}
	s.bindsKeys()
	s.usesKeys()
	s.answersWords()
	s.takesArguments()
	s.keepsOff()
	s.writesNumbersAsText()
	s.removesFirst()
	return s.wrong
}

func (s *script) read(source string) {
	lines := strings.Split(strings.ReplaceAll(source, "\n--        ", " "), "\n") // a header's line goes on below
	for i, label := range []string{s.name + ":", "KEYS", "ARGV", "REPLY", "TWICE"} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], "-- "+label+" ") {
			s.say("line %d of the header is not %q", i+1, "-- "+label)
			return
		}
		s.header[label] = strings.TrimSpace(strings.TrimPrefix(lines[i], "-- "+label))
	}
	s.keys = strings.Fields(s.header["KEYS"])
	var code []string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "--")
		if strings.TrimSpace(line) != "" {
			code = append(code, line)
		}
	}
	if len(code) < 2 {
		s.say("no code")
		return
	}
	s.bind, s.body = code[0], strings.Join(code[1:], "\n")
}

func (s *script) bindsKeys() {
	if want := "local " + strings.Join(s.keys, ", ") + " = unpack(KEYS)"; s.bind != want {
		s.say("the first line of code is %q, not %q", s.bind, want)
	}
	for _, key := range s.keys {
		if !slices.Contains(identifier.FindAllString(s.body, -1), key) {
			s.say("KEYS names %s, nothing uses it", key)
		}
	}
}

// prefixes are the keys that are the beginning of one, with what follows.
var prefixes = map[string]string{"job": "id", "attempts": "id", "idempotency": "once", "rate": "bucket"}

// usesKeys holds each key argument to a bound name, a bound prefix with what follows it, or a local key that is one.
func (s *script) usesKeys() {
	ok := func(key string) bool {
		name, rest, _ := strings.Cut(key, " .. ")
		return slices.Contains(s.keys, name) && rest == prefixes[name]
	}
	for _, m := range keyLocal.FindAllStringSubmatch(s.body, -1) {
		if !ok(m[1]) {
			s.say("key is %s", m[1])
		}
	}
	hasKey := keyLocal.MatchString(s.body)
	for _, c := range calls(s.body) {
		at := 1
		if c.function != "redis.call" && c.function != "bulk" {
			at = 0
		}
		if c.function == "redis.call" && len(c.args) > 0 && c.args[0] == "'TIME'" {
			continue // another rule's
		}
		if len(c.args) <= at || !ok(c.args[at]) && !(c.args[at] == "key" && hasKey) || c.function == "settle" && !ok(c.args[len(c.args)-1]) {
			s.say("%s(%s): not a key of the header", c.function, strings.Join(c.args, ", "))
		}
	}
}

func (s *script) answersWords() {
	var said []string
	for _, m := range literal.FindAllStringSubmatch(s.body, -1) {
		if w := strings.TrimSpace(m[1]); slices.Contains(vocabulary, w) {
			said = append(said, w)
		}
	}
	promised := capitals.FindAllString(brackets.ReplaceAllString(s.header["REPLY"], ""), -1)
	for _, w := range promised {
		if !slices.Contains(vocabulary, w) {
			s.say("REPLY has %s, which is not a word", w)
		} else if !slices.Contains(said, w) {
			s.say("REPLY has %s, the body never says it", w)
		}
	}
	for _, w := range said {
		if !slices.Contains(promised, w) {
			s.say("the body says %s, REPLY does not have it", w)
		}
	}
}

// takesArguments counts: the names before "per ..." are ARGV[1] and on, the names after it are one round of the loop.
func (s *script) takesArguments() {
	text := brackets.ReplaceAllString(s.header["ARGV"], "")
	fixedText, perText, _ := strings.Cut(text, "per ")
	_, perText, _ = strings.Cut(perText, ":")
	fixed, per := strings.Fields(strings.Trim(fixedText, "; ")), strings.Fields(perText)
	for _, name := range fixed {
		if !slices.Contains(identifier.FindAllString(s.body, -1), strings.TrimSuffix(name, "_ms")) {
			s.say("ARGV names %s, nothing is called so", name)
		}
	}
	if got := highest(fixedArg, s.body); got != len(fixed) {
		s.say("ARGV names %d single arguments, the body reads %d", len(fixed), got)
	}
	loop := entryLoop.FindStringSubmatch(s.body)
	if (loop != nil) != (len(per) > 0) {
		s.say("ARGV and the body differ on whether there are entries")
		return
	}
	if loop == nil {
		return
	}
	if loop[1] != strconv.Itoa(len(fixed)+1) || loop[2] != strconv.Itoa(len(per)) {
		s.say("ARGV has %d names and then %d per entry, the loop starts at %s and steps by %s", len(fixed), len(per), loop[1], loop[2])
	}
	if got := highest(entryArg, s.body) + 1; got != len(per) {
		s.say("ARGV names %d per entry, the body reads %d", len(per), got)
	}
}

func (s *script) keepsOff() {
	for _, m := range forbidden.FindAllString(s.body, -1) {
		s.say("%s is forbidden here", m)
	}
}

// writesNumbersAsText looks for locals that hold numbers where they would be turned into text by other means than text().
func (s *script) writesNumbersAsText() {
	numbers := numericLocals(s.body)
	parts := strings.Split(s.body, "..")
	for i := range parts {
		if i > 0 {
			if id := regexp.MustCompile(`^\s*(\w+)`).FindStringSubmatch(parts[i]); id != nil && numbers[id[1]] {
				s.say("the number %s is concatenated", id[1])
			}
		}
		if i < len(parts)-1 {
			if id := regexp.MustCompile(`(\w+)\s*$`).FindStringSubmatch(parts[i]); id != nil && numbers[id[1]] {
				s.say("the number %s is concatenated", id[1])
			}
		}
	}
	for _, c := range append(calls(s.body), concats(s.body)...) {
		for _, arg := range c.args {
			if numbers[arg] {
				s.say("%s gets the number %s, not its text", c.function, arg)
			}
		}
	}
}

// removesFirst: a server that is full refuses a script whose first write adds. Only submit and rate may be refused.
func (s *script) removesFirst() {
	first := adding.FindStringIndex(s.body)
	if s.name == "submit" || s.name == "rate" || first == nil {
		return
	}
	if r := removing.FindStringIndex(s.body); r == nil || r[0] > first[0] {
		s.say("it adds before it removes: a full Redis would refuse it")
	}
}
