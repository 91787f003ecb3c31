package lua_test

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/lua"
)

func TestHeadersHoldTheBodies(t *testing.T) {
	t.Parallel()
	for _, name := range lua.Names {
		for _, wrong := range lint(name, lua.Source(name)) {
			t.Error(wrong)
		}
	}
}

func TestPreludeKeepsOff(t *testing.T) {
	t.Parallel()
	// The three things only the prelude may do, once each.
	source := lua.Prelude
	for _, once := range []string{
		"redis.call('TIME')", "redis.pcall('PUBLISH', ", "unpack(args, i, math.min(i + 199, #args))",
	} {
		if strings.Count(source, once) != 1 {
			t.Errorf("the prelude has %q %d times", once, strings.Count(source, once))
		}
		source = strings.ReplaceAll(source, once, "")
	}
	var code strings.Builder
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(line, "--")
		code.WriteString(line + "\n")
	}
	s := &script{name: "prelude", body: code.String()}
	s.keepsOff()
	s.writesNumbersAsText()
	s.keepsLinesShort(lua.Prelude + lua.Source("places") + lua.Source("room"))
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
}

// good is a small script that every rule accepts; each case breaks one rule.
const good = `-- good: an example,
--        in two lines.
-- KEYS   heartbeat_deadlines counters
--        job
-- ARGV[1] lead_ms: how long an example may wait
-- per lease (n = 2, 4, ...):
-- ARGV[n+0] id: the job
-- ARGV[n+1] token: of the lease
-- REPLY  per lease: OK | LOST (nothing changed)
-- TWICE  it never changes anything twice
local heartbeat_deadlines, counters,
  job = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local reply = {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local key = job .. id
  local word = 'LOST'
  if redis.call('HGET', key, 'token') == token then
    redis.call('ZREM', heartbeat_deadlines, id)
    redis.call('HSET', key, 'ended', text(now + lead))
    word = 'OK'
  end
  reply[#reply + 1] = word
end
write_counters(counters)
return reply
`

// broken is a change of the good script, and what lint says of it.
type broken struct{ old, new, want string }

func TestLintSeesEachRuleBroken(t *testing.T) {
	t.Parallel()
	if wrong := lint("good", good); len(wrong) > 0 {
		t.Fatalf("the good script: %q", wrong)
	}
	hset := "redis.call('HSET', key, 'ended', text(now + lead))"
	zrem := "redis.call('ZREM', heartbeat_deadlines, id)"
	last := "write_counters(counters)"
	for name, c := range map[string]broken{
		"keys in another order": {
			"local heartbeat_deadlines, counters", "local counters, heartbeat_deadlines",
			"the first statement",
		},
		"a key in KEYS only":       {"        job\n", "        queue job\n", "the first statement"},
		"a bound key nobody uses":  {last, "write_counters(job)", "nothing uses it"},
		"a key out of the air":     {zrem, "redis.call('ZREM', 'queue', id)", "not a key of the header"},
		"a key that is an id":      {zrem, "redis.call('ZREM', id, id)", "not a key of the header"},
		"a prefix without its id":  {"redis.call('HGET', key,", "redis.call('HGET', job,", "not a key of the header"},
		"an id after a whole key":  {"local key = job .. id", "local key = counters .. id", "key is counters"},
		"bulk on a made-up key":    {last, "bulk('ZREM', key .. 'x', reply)\n" + last, "not a key of the header"},
		"values of a made-up key":  {last, "read_values('HMGET', key .. 'x', reply)\n" + last, "not a key of the header"},
		"a column of that name":    {last, "read_column(leases, reply)\n" + last, "not a key of the header"},
		"the end of a made-up key": {last, "read_ended(ended, '')\n" + last, "not a key of the header"},
		"ends of a made-up key":    {last, "write_ends(counters, ended)\n" + last, "ended is not a key of the header"},
		"a list of made-up keys":   {last, "x_keys[#x_keys + 1] = counters .. id\n" + last, "key is counters"},
		"ring on a made-up key":    {last, "ring(doorbell)\n" + last, "not a key of the header"},
		"events on a made-up key":  {last, "note_event(events, '', '')\n" + last, "not a key of the header"},
		"an alarm on another":      {last, "note_alarm(alarms, '', '')\n" + last, "not a key of the header"},
		"history in a made-up key": {last, "record_attempt(attempts .. '1', '1')\n" + last, "not a key of the header"},
		"a word never said":        {"OK | LOST", "OK | BUSY | LOST", "the body never says it"},
		"a word not promised":      {"OK | LOST", "LOST", "REPLY does not have it"},
		"a word nobody knows":      {"OK | LOST", "OK | GONE | LOST", "not a word"},
		"tostring":                 {"text(now + lead)", "tostring(now)", "tostring is forbidden"},
		"cjson":                    {"local reply = {}", "local reply = cjson.decode('[]')", "cjson is forbidden"},
		"cmsgpack":                 {"local reply = {}", "local reply = cmsgpack.unpack('')", "cmsgpack is forbidden"},
		"bit":                      {"now + lead", "bit.bor(now, lead)", "bit. is forbidden"},
		"struct":                   {"now + lead", "struct.unpack('d', token)", "struct. is forbidden"},
		"random":                   {"now + lead", "math.random(9)", "math.random is forbidden"},
		"the host's clock":         {"now + lead", "os.time()", "os. is forbidden"},
		"TIME by itself":           {"time_ms()", "redis.call('TIME')[1]", "'TIME' is forbidden"},
		"unpack by itself": {
			zrem, "redis.call('ZREM', heartbeat_deadlines, unpack(reply))",
			"unpack is forbidden",
		},
		"KEYS by itself":           {zrem, "redis.call('ZREM', heartbeat_deadlines, KEYS[1])", "KEYS is forbidden"},
		"pcall":                    {hset, "redis.pcall('HSET', key, 'ended', '1')", "redis.pcall is forbidden"},
		"a number concatenated":    {"text(now + lead)", "'at ' .. now", "the number now is concatenated"},
		"a number before the dots": {"text(now + lead)", "now .. ' ms'", "the number now is concatenated"},
		"a number in a concat": {
			"text(now + lead)", "table.concat({id, now}, ' ')",
			"table.concat gets the number now",
		},
		"a number as an argument": {"text(now + lead)", "now", "redis.call gets the number now"},
		"adding first":            {zrem + "\n    " + hset, hset + "\n    " + zrem, "it adds before it removes"},
		"counting first":          {"local reply = {}", "local reply = {}\n" + last, "it adds before it removes"},
		"history first":           {"local reply = {}", "record_attempt(job .. id)", "it adds before it removes"},
		"a long comment":          {"in two lines.", strings.Repeat("x", 111), "line 2 has 121 columns"},
		"a long line of code": {
			"local reply = {}", "local reply = {" + strings.Repeat(" ", 105) + "}",
			"line 15 has 121 columns",
		},
	} {
		c.holds(t, name)
	}
}

func TestLintHoldsEachArgument(t *testing.T) {
	t.Parallel()
	single, token := "-- ARGV[1] lead_ms: how long an example may wait\n", "-- ARGV[n+1] token: of the lease\n"
	for name, c := range map[string]broken{
		"another file's header":   {"-- good:", "-- bad:", "line 1 of the header"},
		"no KEYS":                 {"-- KEYS ", "-- KEY ", "line 2 of the header"},
		"no REPLY":                {"-- REPLY ", "-- REPLIES ", `line 7 of the header is not "-- REPLY"`},
		"no TWICE":                {"-- TWICE  it never changes anything twice\n", "", "line 8 of the header"},
		"a single without a line": {single, "", "(n = 1, 3, ...)"},
		"a single that is read too": {
			"local now = time_ms()", "local now = tonumber(ARGV[2])",
			"reads ARGV[2], the header has no line",
		},
		"a single not read": {"tonumber(ARGV[1])", "1", "has ARGV[1] lead_ms, the body does not read it"},
		"a single without meaning": {
			"lead_ms: how long an example may wait", "lead_ms: ",
			"ARGV[1] has no name and meaning",
		},
		"a single without a name":   {"lead_ms: how", "how", "ARGV[1] has no name and meaning"},
		"a single called otherwise": {"lead_ms:", "delay_ms:", "ARGV names delay_ms, nothing is called so"},
		"a single counted wrongly":  {"-- ARGV[1] ", "-- ARGV[2] ", "is not ARGV[1]"},
		"all on one line":           {single, "-- ARGV   lead_ms\n", "line 3 of the header"},
		"an entry's without a line": {
			"(n = 2, 4, ...):\n-- ARGV[n+0] id: the job\n" + token, "(n = 2, 3, ...):\n-- ARGV[n+0] id: the job\n",
			"reads ARGV[n+1], the header has no line",
		},
		"an entry's read too": {
			"local word = 'LOST'", "local word = ARGV[i + 2] or 'LOST'",
			"reads ARGV[n+2], the header has no line",
		},
		"an entry's not read": {
			"= ARGV[i], ARGV[i + 1]", "= ARGV[i], ''",
			"has ARGV[n+1] token, the body does not read it",
		},
		"an entry's first not read": {
			"= ARGV[i], ARGV[i + 1]", "= '', ARGV[i + 1]",
			"has ARGV[n+0] id, the body does not read it",
		},
		"an entry's without a name": {
			"token: of the lease", "The token: of the lease",
			"ARGV[n+1] has no name and meaning",
		},
		"an entry's other name": {
			"token: of the lease", "proof: of the lease",
			"ARGV names proof, nothing is called so",
		},
		"an entry's wrong number": {"-- ARGV[n+1] ", "-- ARGV[n+2] ", "is not ARGV[n+1]"},
		"an argument too many":    {token, token + "-- ARGV[n+2] word: of the reply\n", "does not end with"},
		"a stride that is off":    {"(n = 2, 4, ...)", "(n = 2, 5, ...)", "does not end with"},
		"a first that is off":     {"(n = 2, 4, ...)", "(n = 3, 5, ...)", "does not end with"},
		"a step that is off":      {"#ARGV, 2 do", "#ARGV, 3 do", "steps by 3"},
		"a start that is off":     {"for i = 2,", "for i = 1,", "starts at 1"},
		"a second loop that is off": {
			"local reply = {}", "local reply = {}\nfor i = 3, #ARGV, 2 do end",
			"starts at 3",
		},
		"entries without a loop": {
			"for i = 2, #ARGV, 2 do", "for i = 2, 4 do",
			"differ on whether there are entries",
		},
		"a loop of another form":    {"for i = 2, #ARGV, 2 do", "for i = 2, #ARGV do", "by other means"},
		"ARGV by itself":            {"local reply = {}", "local reply = ARGV", "by other means"},
		"an index that is computed": {"ARGV[i + 1]", "ARGV[2 * i]", "by other means"},
	} {
		c.holds(t, name)
	}
	entries := single + "-- per lease (n = 2, 4, ...):\n-- ARGV[n+0] id: the job\n" + token
	broken{entries, single, "differ on whether there are entries"}.holds(t, "a loop without entries")
}

func (c broken) holds(t *testing.T, name string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		if !strings.Contains(good, c.old) {
			t.Fatalf("the good script has no %q", c.old)
		}
		wrong := strings.Join(lint("good", strings.Replace(good, c.old, c.new, 1)), "\n")
		if !strings.Contains(wrong, c.want) {
			t.Errorf("lint says %q, not %q", wrong, c.want)
		}
	})
}

// A call has all single arguments, and whole entries.
func TestHeaderFits(t *testing.T) {
	t.Parallel()
	one := lua.Argument{Name: "x", Meaning: "y"}
	plain := lua.Header{Single: []lua.Argument{one, one}}
	list := lua.Header{Single: []lua.Argument{one}, Entry: []lua.Argument{one, one, one}}
	for arguments, want := range [][2]bool{
		{false, false}, {false, true}, {true, false}, {false, false},
		{false, true}, {false, false}, {false, false}, {false, true},
	} {
		if plain.Fits(arguments) != want[0] || list.Fits(arguments) != want[1] {
			t.Errorf("%d arguments fit: %v and %v", arguments, plain.Fits(arguments), list.Fits(arguments))
		}
	}
}
