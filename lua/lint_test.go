package lua_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/lua"
)

// vocabulary is every word a script may answer.
var vocabulary = strings.Fields("OK FULL QUOTA LATE LOST DUPLICATE REPLAY MISMATCH HELD UNIQUE TAKEN REPLACED " +
	"BUSY EMPTY CANCEL FAILED " +
	"CANCELLED EXPIRED ENDED SUSPECT QUARANTINED REPAIRED REPORTED")

var (
	literal    = regexp.MustCompile(`'([^']*)'`)
	capitals   = regexp.MustCompile(`\b[A-Z]{2,}\b`)
	brackets   = regexp.MustCompile(`\([^)]*\)`)
	identifier = regexp.MustCompile(`\b[a-z_]\w*\b`)
	entryLoop  = regexp.MustCompile(`for i = (\d+), #ARGV, (\d+) do`)
	argument   = regexp.MustCompile(`\bARGV\b(\[(?:(\d+)|(i)|i \+ (\d+))\])?`)
	keyLocal   = regexp.MustCompile(`local key = (.*)`)
	keyArg     = regexp.MustCompile(`local function \w+\(key\b`)
	keyList    = regexp.MustCompile(`\w+_keys\[#\w+_keys \+ 1\] = (.*)`)
	forbidden  = regexp.MustCompile(`\b(tostring|cjson|cmsgpack|math\.random|redis\.pcall)\b|\b(bit|struct|os|debug)\.|` +
		`'TIME'|\bunpack\b|\bKEYS\b|\bloadstring\b`)
	adding = regexp.MustCompile(`'(HSET|HSETNX|HINCRBY|ZADD|ZINCRBY|RPUSH|LPUSH|SET|APPEND)'|` +
		`\b(ring|write_counters|record_attempt|write_ends|write_entries|write_unique|` +
		`take_unique|take_unique_again|store_unique|store_behind|let_go)\(`)
	removing = regexp.MustCompile(`'(ZREM|DEL|HDEL|ZREMRANGEBYSCORE|LTRIM)'|\btake_waiting\(`)
)

// script is a file, taken apart.
type script struct {
	name   string
	header lua.Header
	keys   []string
	bind   string // the first statement
	body   string // what follows it, without comments
	wrong  []string
}

func (s *script) say(format string, a ...any) {
	s.wrong = append(s.wrong, s.name+": "+fmt.Sprintf(format, a...))
}

// lint holds a script to its header and to the rules of the house. It reads text, not a syntax tree: a script that lint
// cannot follow is one that no reader can follow either.
func lint(name, source string) []string {
	s := &script{name: name}
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
	s.keepsLinesShort(source)
	return s.wrong
}

func (s *script) read(source string) {
	header, wrong := lua.ReadHeader(s.name, source)
	for _, w := range wrong {
		s.say("%s", w)
	}
	s.header, s.keys = header, header.Keys
	var code []string
	for line := range strings.SplitSeq(source, "\n") {
		line, _, _ = strings.Cut(line, "--")
		if strings.TrimSpace(line) != "" {
			code = append(code, line)
		}
	}
	if len(code) < 2 {
		s.say("no code")
		return
	}
	bind := 1 + max(0, slices.IndexFunc(code, func(line string) bool { return strings.HasSuffix(line, "unpack(KEYS)") }))
	s.bind = strings.ReplaceAll(strings.Join(code[:bind], "\n"), ",\n  ", ", ") // a long list goes on below
	s.body = strings.Join(code[bind:], "\n")
}

// never is a prefix that every script may name: no key has just this name, so that a server refuses a call while the
// partition's slot moves.
const never = "job"

func (s *script) bindsKeys() {
	if want := "local " + strings.Join(s.keys, ", ") + " = unpack(KEYS)"; s.bind != want {
		s.say("the first statement is %q, not %q", s.bind, want)
	}
	for _, key := range s.keys {
		if key != never && !slices.Contains(identifier.FindAllString(s.body, -1), key) {
			s.say("KEYS names %s, nothing uses it", key)
		}
	}
}

// prefixes are the keys that are the beginning of one, with what may follow.
var prefixes = map[string][]string{"job": {"id"}, "attempts": {"id"},
	"logs": {"id"}, "idempotency": {"idempotency_key"},
	"rate": {"bucket"}, "ended": {"slice_name", "slice_of(id)"}, "queues": {},
	"unique": {"class.unique", "class.unique.unique", "e.class.unique"},
	"lines": {"'jobs:' .. name", "'jobs:' .. line.line_name", "'jobs:' .. line.name", "'waiting'", "'parked'", "'keys'",
		"'limits'", "'virtual'"}}

// ofQueue is a key that key_of chooses: a key of the header, or a prefix and the name of a queue.
var ofQueue = regexp.MustCompile(`^key_of\([\w.]+, (\w+), (\w+)(?: \.\. ':')?\)$`)

// places are the keys that ready_key and key_named choose: those of queues and lines.
var places = regexp.MustCompile(`^(ready_key\(class, queue, queues, lines\)|key_named\([\w.]+\))$`)

// usesKeys holds each key argument to a bound name, a bound prefix with what follows it, a local key that is one, the
// argument key of a function, or a list *_keys of such keys.
func (s *script) usesKeys() {
	ok := func(key string) bool {
		if m := ofQueue.FindStringSubmatch(key); m != nil {
			return slices.Contains(s.keys, m[1]) && slices.Contains(s.keys, m[2])
		}
		if places.MatchString(key) {
			return slices.Contains(s.keys, "queues") && slices.Contains(s.keys, "lines")
		}
		name, rest, _ := strings.Cut(key, " .. ")
		return slices.Contains(s.keys, name) && (rest == "" && prefixes[name] == nil || slices.Contains(prefixes[name], rest))
	}
	for _, of := range []*regexp.Regexp{keyLocal, keyList} {
		for _, m := range of.FindAllStringSubmatch(s.body, -1) {
			if !ok(m[1]) {
				s.say("key is %s", m[1])
			}
		}
	}
	hasKey := keyLocal.MatchString(s.body) || keyArg.MatchString(s.body)
	for _, c := range calls(s.body) {
		at := 1
		switch c.function {
		case "redis.call", "bulk", "read_values":
		case "read_ended": // it has the slice's prefix
			if !slices.Contains(s.keys, c.args[0]) {
				s.say("read_ended(%s): not a key of the header", strings.Join(c.args, ", "))
			}
			continue
		case "lives", "take_unique", "take_unique_again": // they have prefixes
			if !slices.Contains(s.keys, c.args[0]) {
				s.say("%s(%s): not a key of the header", c.function, strings.Join(c.args, ", "))
			}
			continue
		case "write_ends", "write_entries", "write_unique":
			if c.function == "write_unique" {
				c.args = c.args[:len(c.args)-1] // the time is no key
			}
			if c.function == "write_entries" {
				c.args = c.args[:5] // keys whose lines have to be looked at are no keys of Redis
			}
			for _, arg := range c.args {
				if !slices.Contains(s.keys, arg) {
					s.say("%s(%s): %s is not a key of the header", c.function, strings.Join(c.args, ", "), arg)
				}
			}
			continue
		default:
			at = 0
		}
		if c.function == "redis.call" && len(c.args) > 0 && c.args[0] == "'TIME'" {
			continue // another rule's
		}
		if len(c.args) > at && strings.HasPrefix(c.args[at], "slice(") && keyList.MatchString(s.body) {
			continue // of a list that is held above
		}
		if len(c.args) <= at || !ok(c.args[at]) && !(c.args[at] == "key" && hasKey) ||
			c.function == "write_counters" && !ok(c.args[len(c.args)-1]) {
			s.say("%s(%s): not a key of the header", c.function, strings.Join(c.args, ", "))
		}
	}
}

func (s *script) answersWords() {
	var answered []string
	for _, m := range literal.FindAllStringSubmatch(s.body, -1) {
		if w := strings.TrimSpace(m[1]); slices.Contains(vocabulary, w) {
			answered = append(answered, w)
		}
	}
	promised := capitals.FindAllString(brackets.ReplaceAllString(s.header.Reply, ""), -1)
	for _, w := range promised {
		if !slices.Contains(vocabulary, w) {
			s.say("REPLY has %s, which is not a word", w)
		} else if !slices.Contains(answered, w) {
			s.say("REPLY has %s, the body never says it", w)
		}
	}
	for _, w := range answered {
		if !slices.Contains(promised, w) {
			s.say("the body says %s, REPLY does not have it", w)
		}
	}
}

// takesArguments holds the arguments that the body reads to the lines of the header, one by one.
func (s *script) takesArguments() {
	single, entry := len(s.header.Single), len(s.header.Entry)
	for _, a := range slices.Concat(s.header.Single, s.header.Entry) {
		name := strings.TrimSuffix(strings.TrimSuffix(a.Name, "_ms"), "_us")
		if !slices.Contains(identifier.FindAllString(s.body, -1), name) {
			s.say("ARGV names %s, nothing is called so", a.Name)
		}
	}
	loops := entryLoop.FindAllStringSubmatch(s.body, -1)
	if (len(loops) > 0) != (entry > 0) {
		s.say("the header and the body differ on whether there are entries")
	}
	for _, loop := range loops {
		if loop[1] != strconv.Itoa(single+1) || loop[2] != strconv.Itoa(entry) {
			s.say("the header has %d arguments and then %d per entry, a loop starts at %s and steps by %s",
				single, entry, loop[1], loop[2])
		}
	}
	read := map[string]bool{}
	for _, m := range argument.FindAllStringSubmatch(entryLoop.ReplaceAllString(s.body, ""), -1) {
		switch {
		case m[2] != "":
			read["ARGV["+m[2]+"]"] = true
		case m[3] != "":
			read["ARGV[n+0]"] = true
		case m[4] != "":
			read["ARGV[n+"+m[4]+"]"] = true
		default:
			s.say("ARGV is read by other means than a number, i, or i and a number")
		}
	}
	for i, a := range s.header.Single {
		s.reads(read, "ARGV["+strconv.Itoa(i+1)+"]", a)
	}
	for i, a := range s.header.Entry {
		s.reads(read, "ARGV[n+"+strconv.Itoa(i)+"]", a)
	}
	for index := range read {
		s.say("the body reads %s, the header has no line for it", index)
	}
}

// reads takes an argument of the header out of those that the body reads.
func (s *script) reads(read map[string]bool, index string, a lua.Argument) {
	if !read[index] {
		s.say("the header has %s %s, the body does not read it", index, a.Name)
	}
	delete(read, index)
}

// longest is how many columns a line has at most.
const longest = 120

func (s *script) keepsLinesShort(source string) {
	for i, line := range strings.Split(source, "\n") {
		if n := len([]rune(line)); n > longest {
			s.say("line %d has %d columns", i+1, n)
		}
	}
}

func (s *script) keepsOff() {
	for _, m := range forbidden.FindAllString(s.body, -1) {
		s.say("%s is forbidden here", m)
	}
}

// takesNumbers are the functions of the prelude that get a time as a number.
var takesNumbers = map[string]bool{"write_unique": true, "take_unique": true, "take_unique_again": true,
	"store_unique": true, "let_go": true}

// writesNumbersAsText looks for locals that hold numbers where Lua would turn them into text, and not text().
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
		if takesNumbers[c.function] {
			continue
		}
		for _, arg := range c.args {
			if numbers[arg] {
				s.say("%s gets the number %s, not its text", c.function, arg)
			}
		}
	}
}

// removesFirst: a server that is full refuses a script whose first write adds. Only submit, reserve, rate and log may
// be refused.
func (s *script) removesFirst() {
	add := adding.FindStringIndex(s.body)
	if slices.Contains([]string{"submit", "reserve", "rate", "log"}, s.name) || add == nil {
		return
	}
	if r := removing.FindStringIndex(s.body); r == nil || r[0] > add[0] {
		s.say("it adds before it removes: a full Redis would refuse it")
	}
}
