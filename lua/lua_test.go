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
	for _, once := range []string{"redis.call('TIME')", "redis.pcall('PUBLISH', ", "unpack(args, i, math.min(i + 99, #args))"} {
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
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
}

// good is a small script that every rule accepts; each case breaks one rule.
const good = `-- good: an example.
-- KEYS   beats counters job
-- ARGV   lead_ms; per lease: id token
-- REPLY  per lease: OK | LOST (nothing changed)
-- TWICE  it never changes anything twice
local beats, counters, job = unpack(KEYS)
local lead = tonumber(ARGV[1])
local now = time_ms()
local reply = {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local key = job .. id
  local word = 'LOST'
  if redis.call('HGET', key, 'token') == token then
    redis.call('ZREM', beats, id)
    redis.call('HSET', key, 'ended', text(now + lead))
    word = 'OK'
  end
  reply[#reply + 1] = word
end
settle(counters)
return reply
`

func TestLintSeesEachRuleBroken(t *testing.T) {
	t.Parallel()
	if wrong := lint("good", good); len(wrong) > 0 {
		t.Fatalf("the good script: %q", wrong)
	}
	hset := "redis.call('HSET', key, 'ended', text(now + lead))"
	for name, c := range map[string]struct{ old, new, want string }{
		"another file's header":    {"-- good:", "-- bad:", "line 1 of the header"},
		"no TWICE":                 {"-- TWICE  it never changes anything twice\n", "", "line 5 of the header"},
		"keys in another order":    {"local beats, counters, job", "local counters, beats, job", "the first line of code"},
		"a key in KEYS only":       {"beats counters job\n", "beats counters queue job\n", "the first line of code"},
		"a bound key nobody uses":  {"settle(counters)", "settle(beats)", "nothing uses it"},
		"a key out of the air":     {"redis.call('ZREM', beats, id)", "redis.call('ZREM', 'beats', id)", "not a key of the header"},
		"a key that is an id":      {"redis.call('ZREM', beats, id)", "redis.call('ZREM', id, id)", "not a key of the header"},
		"a prefix without its id":  {"redis.call('HGET', key,", "redis.call('HGET', job,", "not a key of the header"},
		"an id after a whole key":  {"local key = job .. id", "local key = beats .. id", "key is beats"},
		"bulk on a made-up key":    {"settle(counters)", "bulk('ZREM', key .. 'x', reply)\nsettle(counters)", "not a key of the header"},
		"scores of a made-up key":  {"settle(counters)", "scores(key .. 'x', reply)\nsettle(counters)", "not a key of the header"},
		"ring on a made-up key":    {"settle(counters)", "ring(doorbell)\nsettle(counters)", "not a key of the header"},
		"a word never said":        {"OK | LOST", "OK | BUSY | LOST", "the body never says it"},
		"a word not promised":      {"OK | LOST", "LOST", "REPLY does not have it"},
		"a word nobody knows":      {"OK | LOST", "OK | GONE | LOST", "not a word"},
		"an argument too many":     {"id token\n", "id token delay_ms\n", "the loop starts at 2 and steps by 2"},
		"a step that is off":       {"#ARGV, 2 do", "#ARGV, 3 do", "steps by 3"},
		"a start that is off":      {"for i = 2,", "for i = 1,", "starts at 1"},
		"an entry's end not named": {"ARGV[i + 1]", "ARGV[i + 2]", "the body reads 3"},
		"a single not read":        {"lead_ms; per", "lead_ms other; per", "nothing is called so"},
		"entries not said":         {"lead_ms; per lease: id token", "lead_ms", "differ on whether there are entries"},
		"tostring":                 {"text(now + lead)", "tostring(now)", "tostring is forbidden"},
		"cjson":                    {"local reply = {}", "local reply = cjson.decode('[]')", "cjson is forbidden"},
		"cmsgpack":                 {"local reply = {}", "local reply = cmsgpack.unpack('')", "cmsgpack is forbidden"},
		"bit":                      {"now + lead", "bit.bor(now, lead)", "bit. is forbidden"},
		"struct":                   {"now + lead", "struct.unpack('d', token)", "struct. is forbidden"},
		"random":                   {"now + lead", "math.random(9)", "math.random is forbidden"},
		"the host's clock":         {"now + lead", "os.time()", "os. is forbidden"},
		"TIME by itself":           {"time_ms()", "redis.call('TIME')[1]", "'TIME' is forbidden"},
		"unpack by itself":         {"redis.call('ZREM', beats, id)", "redis.call('ZREM', beats, unpack(reply))", "unpack is forbidden"},
		"KEYS by itself":           {"redis.call('ZREM', beats, id)", "redis.call('ZREM', beats, KEYS[1])", "KEYS is forbidden"},
		"pcall":                    {hset, "redis.pcall('HSET', key, 'ended', '1')", "redis.pcall is forbidden"},
		"a number concatenated":    {"text(now + lead)", "'at ' .. now", "the number now is concatenated"},
		"a number before the dots": {"text(now + lead)", "now .. ' ms'", "the number now is concatenated"},
		"a number in a concat":     {"text(now + lead)", "table.concat({id, now}, ' ')", "table.concat gets the number now"},
		"a number as an argument":  {"text(now + lead)", "now", "redis.call gets the number now"},
		"adding first":             {"    redis.call('ZREM', beats, id)\n    " + hset, "    " + hset + "\n    redis.call('ZREM', beats, id)", "it adds before it removes"},
		"counting first":           {"local reply = {}", "local reply = {}\nsettle(counters)", "it adds before it removes"},
	} {
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
}
